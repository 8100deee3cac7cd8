package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"dlqmanager/config"
	"dlqmanager/console"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/migrations"
	"dlqmanager/registry"
	"dlqmanager/telemetry"
	"dlqmanager/webhook"
)

func (p *parts) examineConfiguration(_ context.Context, f *findings) {
	f.ok("configuration", "it is valid")
	if k := p.cfg.Kafka; k.PublishesExhausted() {
		if err := dlq.NewArchiveTopics(k.ArchiveTopic, p.topics).Check(k.DLQTopicPattern); err != nil {
			f.warn("configuration", err.Error(), "set kafka.archive_topic, or exhausted messages stay in the database")
		}
	}
	if c := p.cfg.Console; *c.Enabled && p.cfg.Auth.Enabled() && c.KeyFile == "" {
		f.warn("console", "console.key_file is not set: each start of the API signs everybody out of the pages, and replicas do not know each other's sessions",
			"set it to a file with a key from `openssl rand -base64 32`")
	} else if c.KeyFile != "" && *c.Enabled {
		if _, err := console.NewKeyFile(c.KeyFile, p.log); err != nil {
			f.fail("console", "console.key_file: "+err.Error(), "the API does not start: correct the file")
		} else if info, err := os.Stat(c.KeyFile); err == nil && info.Mode().Perm()&0o007 != 0 {
			f.warn("console", fmt.Sprintf("every user of this machine may read console.key_file, and so make sessions: mode %04o", info.Mode().Perm()),
				"chmod o= "+c.KeyFile)
		}
	}
	if _, err := p.cfg.Console.OIDC.Secret(); err != nil {
		f.fail("console", err.Error(), "the API does not start: correct the file")
	}
	files := p.certificates()
	for _, use := range slices.Sorted(maps.Keys(files)) {
		file := files[use]
		expiry, err := telemetry.FirstExpiry(file)
		switch {
		case err != nil:
			f.fail("certificate", fmt.Sprintf("the certificate for %s: %v", use, err), "replace the file")
		case time.Until(expiry) < 0:
			f.fail("certificate", fmt.Sprintf("the certificate for %s has expired: %s", use, file), "renew it")
		case time.Until(expiry) < 14*24*time.Hour:
			f.warn("certificate", fmt.Sprintf("the certificate for %s expires on %s: %s", use, expiry.Format(time.DateOnly), file), "renew it")
		}
	}
}

// reason is the text of an error without the names of packages. It names the setting to check.
func (p *parts) reason(check string, err error) string {
	return strings.NewReplacer("store: survey: ", "", "kafka: unavailable: ", "", "unavailable: temporal: ", "", "unavailable: ", "").
		Replace(explain(p.cfg, check, err).Error())
}

func (p *parts) examineDatabase(ctx context.Context, f *findings) {
	const check = "database"
	if p.pool == nil {
		f.warn(check, "it is not configured: messages are kept in memory", "set database.host")
		return
	}
	asked := time.Now()
	s, err := p.database.ServerInfo(ctx)
	took := time.Since(asked)
	if err != nil {
		f.fail(check, p.reason(check, err), "see that "+net.JoinHostPort(p.cfg.Database.Host, strconv.Itoa(p.cfg.Database.Port))+
			" is reachable, and that the section database is right")
		return
	}
	const oldest = 15
	if s.Major < oldest {
		f.fail(check, "PostgreSQL "+s.Version, "use PostgreSQL 15 or later")
	} else {
		f.ok(check, "PostgreSQL %s, %s of data; it does not tell how much space is left", s.Version, s.Size)
	}
	if s.Standby {
		f.fail(check, "the server is a standby", "set database.host to the primary")
	}
	if !s.Durable {
		f.warn(check, "fsync, full_page_writes or synchronous_commit is off", "turn them on: a crash of the server loses acknowledged changes")
	}
	if needed := 4 * p.cfg.Database.MaxOpenConns; s.MaxConnections < needed {
		f.warn(check, fmt.Sprintf("max_connections is %d; two APIs and two workers open up to %d", s.MaxConnections, needed),
			"raise max_connections, or lower database.max_open_conns")
	}
	if skew := s.Now.Sub(asked.Add(took / 2)); skew.Abs() > 2*time.Second+took {
		f.warn("clock", fmt.Sprintf("the database's clock differs by %s", skew.Round(time.Millisecond)), "synchronise both machines by NTP")
	} else {
		f.ok("clock", "it agrees with the database's")
	}
	if err := migrations.Check(ctx, p.pool); err != nil {
		advice := "`dlq-worker migrate` applies missing migrations; docs/upgrading.md has the other cases"
		if errors.Is(err, migrations.ErrForeign) {
			advice = "set database.name to a database of this program, or to an empty one"
		}
		f.fail("schema", err.Error(), advice)
		return
	}
	f.ok("schema", "this version works with it")
	switch missing, err := p.database.MissingRights(ctx); {
	case err != nil:
		f.fail("rights", err.Error(), "try again")
	case len(missing) > 0:
		f.fail("rights", "the user may not read or change "+strings.Join(missing, ", "),
			"set database.application_role for the workers, or grant the rights: docs/audit.md")
	default:
		f.ok("rights", "the user may read and change the tables")
	}
}

func (p *parts) examineKafka(ctx context.Context, f *findings) {
	const check = "kafka"
	options, ok := p.kafkaOptions()
	if !ok {
		f.warn(check, "it is not configured: nothing is ingested", "set kafka.brokers")
		return
	}
	client, err := kafka.NewClient(options, p.log, p.registry, "doctor")
	if err != nil {
		f.fail(check, err.Error(), "correct the section kafka of the configuration")
		return
	}
	defer client.Close()
	const reach = "see that kafka.brokers are reachable, and that kafka.tls and kafka.sasl are right"
	if err := kafka.Ping(ctx, client); err != nil {
		f.fail(check, p.reason(check, err), reach)
		return
	}
	needs := kafka.Needs{
		Topics: p.topics, Routes: p.targets, Targets: p.targetTopics(ctx, f),
		Group: p.cfg.Kafka.ConsumerGroup, Consumers: slices.Sorted(maps.Values(p.cfg.Verify.ConsumerGroups)),
	}
	if p.cfg.Kafka.PublishesExhausted() {
		needs.Archives = dlq.NewArchiveTopics(p.cfg.Kafka.ArchiveTopic, p.topics)
	}
	s, err := kafka.ViewCluster(ctx, client, needs)
	if err != nil {
		f.fail(check, p.reason(check, err), reach)
		return
	}
	f.ok(check, "brokers: %d", s.Brokers)
	patterns := strings.Join(p.cfg.Kafka.DLQTopicPattern, ", ")
	if len(s.DeadLetters) == 0 {
		f.warn("topics", "no topic matches kafka.dlq_topic_pattern ("+patterns+")",
			"correct the pattern, grant Describe on these topics, or wait for the first dead letter")
	} else {
		f.ok("topics", "dead-letter topics: %s", some(s.DeadLetters))
	}
	for _, list := range []struct {
		check, what string
		names       []string
		do          string
	}{
		{"topics", "these look like dead-letter topics, and match no pattern: ", s.Unmatched, "add them to kafka.dlq_topic_pattern, if they are"},
		{"targets", "messages go to topics that do not exist or are hidden: ", s.Missing,
			"create them, grant Describe and Write, or send the messages elsewhere (targets.routes)"},
		{"archive topics", "exhausted messages stay in the database, since these do not exist or are hidden: ", s.MissingArchives,
			"create them, grant Describe and Write, or set kafka.archive_topic to off"},
		{"acls", "some figures are unknown without ", s.DeniedReports, "grant these operations to the user of kafka.sasl"},
	} {
		if len(list.names) > 0 {
			f.warn(list.check, list.what+some(list.names), list.do)
		}
	}
	if len(s.Denied) > 0 {
		f.fail("acls", "the user lacks "+some(s.Denied), "grant these operations to the user of kafka.sasl")
	}
}

// targetTopics are the topics of the routes, and the topics to which stored messages wait to be sent.
func (p *parts) targetTopics(ctx context.Context, f *findings) []string {
	targets := p.targets.RouteTargets()
	if p.pool != nil {
		ctx, cancel := context.WithTimeout(ctx, doctorTimeout/2) // a database that hangs must leave time for Kafka
		defer cancel()
		waiting, err := p.database.WaitingTopics(ctx)
		if err != nil {
			reason, do := "the database did not name them", "see the findings about the database"
			if errors.Is(err, dlq.ErrBlocked) {
				reason, do = "the counts are locked", "try again; pg_locks shows who holds dlq_topic_counts and its tables"
			}
			f.warn("targets", "the targets that messages wait for were not checked: "+reason, do)
		}
		for _, topic := range waiting {
			if target, err := p.targets.Of(topic, ""); err == nil && !p.topics.IsDeadLetter(topic) {
				targets = append(targets, target)
			}
		}
	}
	return slices.DeleteFunc(targets, func(target string) bool { return !dlq.IsTopicName(target) })
}

func (p *parts) examineTemporal(ctx context.Context, f *findings) {
	const check = "temporal"
	if err := p.workflows.Ping(ctx); err != nil {
		f.fail(check, p.reason(check, err),
			"see that "+cmp.Or(p.cfg.Temporal.Address, client.DefaultHostPort)+" is reachable, and that temporal.tls and temporal.api_key are right")
		return
	}
	s, err := p.workflows.Installation(ctx)
	if err != nil {
		f.fail(check, p.reason(check, err), "see that the namespace "+p.cfg.Temporal.Namespace+" exists, and that the user may use it")
		return
	}
	f.ok(check, "namespace %s keeps histories for %s", p.cfg.Temporal.Namespace, config.Duration(s.Retention))
	if s.Retention < 24*time.Hour {
		f.warn(check, "histories of ended workflows are kept for less than a day", "raise the retention of the namespace, to look at retries afterwards")
	}
	if len(s.MissingAttributes) > 0 {
		f.warn(check, "the namespace lacks the search attributes "+strings.Join(s.MissingAttributes, ", "), s.AttributeCommand)
	}
	switch {
	case !s.ScheduleExists:
		f.warn("schedule", s.Schedule+" does not exist", "start a worker: it creates the schedule of the archive")
	case s.SchedulePaused:
		f.warn("schedule", s.Schedule+" is paused: nothing is archived",
			"temporal schedule toggle --unpause --namespace "+p.cfg.Temporal.Namespace+" --schedule-id "+s.Schedule)
	default:
		f.ok("schedule", "%s runs the archive", s.Schedule)
	}
	age := max(time.Since(s.LastPoll), 0).Round(time.Second)
	const start = "start a worker with the same temporal.task_queue"
	switch {
	case s.Pollers > 0:
		f.ok("workers", "%d on the task queue %s; the last poll is %s old", s.Pollers, s.TaskQueue, age)
	case s.LastPoll.IsZero():
		f.warn("workers", "no worker polls the task queue "+s.TaskQueue+": retries do not begin", start)
	default:
		f.warn("workers", fmt.Sprintf("no worker polls the task queue %s any more: retries do not begin. The last poll is %s old", s.TaskQueue, age), start)
	}
}

func (p *parts) examineRegistry(ctx context.Context, f *findings) {
	*f = gather(ctx, reachTimeout, p.cfg.SchemaRegistry.URL, func(ctx context.Context, address string) (f findings) {
		options := p.decoderOptions()
		options.URLs = []string{address}
		decoder, err := registry.New(options, p.log, prometheus.NewRegistry())
		if err == nil {
			err = decoder.Ping(ctx)
		}
		if err != nil {
			f.warn("schema_registry", address+": "+p.reason("schema_registry", err),
				"see that it runs, and that the section schema_registry is right; values are not decoded meanwhile, and everything else works")
			return f
		}
		f.ok("schema_registry", "%s lists subjects", address)
		return f
	})
}

func (p *parts) examineEndpoints(ctx context.Context, f *findings) {
	options := p.endpointOptions()
	for name, endpoint := range options.Endpoints {
		endpoint.Timeout = min(endpoint.Timeout, reachTimeout) // so that the error names the time that was waited
		options.Endpoints[name] = endpoint
	}
	publisher, err := webhook.New(options, p.log)
	if err != nil {
		f.fail("targets", err.Error(), "correct the file: a worker does not start")
		return
	}
	defer publisher.Close()
	*f = gather(ctx, reachTimeout, slices.Sorted(maps.Keys(options.Endpoints)), func(ctx context.Context, name string) (f findings) {
		check := "targets.endpoints." + name
		if err := publisher.Ping(ctx, name); err != nil {
			f.warn(check, err.Error(), "see that it runs and is reachable; messages for it wait meanwhile")
			return f
		}
		f.ok(check, "it answers")
		return f
	})
}

// reachTimeout limits the check of one address.
const reachTimeout = doctorTimeout / 2

// some joins the first names of a list.
func some(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
