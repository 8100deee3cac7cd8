package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/migrations"
	"dlqmanager/telemetry"
)

// doctorTimeout is for everything about one dependency, so that one which hangs is one finding.
const doctorTimeout = 10 * time.Second

// ErrUnhealthy is returned by Doctor after it has written what is wrong.
var ErrUnhealthy = errors.New("doctor: something is wrong")

// finding is one thing that was looked at.
type finding struct {
	level, about, found string
	// do is what to do about it; empty if it is well.
	do string
}

// findings collects those of one dependency.
type findings []finding

func (f *findings) ok(about, format string, args ...any) {
	*f = append(*f, finding{"ok", about, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(about, found, do string) { *f = append(*f, finding{"warn", about, found, do}) }

func (f *findings) fail(about, found, do string) { *f = append(*f, finding{"FAIL", about, found, do}) }

// Doctor looks at the configuration and at every dependency, and writes what it finds and what
// to do about it. It changes nothing. Its error is ErrUnhealthy if a program would not work.
func Doctor(ctx context.Context, cfg *config.Config, out io.Writer) error {
	p, err := assemble(cfg, "doctor", io.Discard)
	if err != nil {
		return err
	}
	defer p.close()
	checks := []func(context.Context, *findings){
		p.examineConfiguration, p.examineDatabase, p.examineKafka, p.examineTemporal, p.examineRegistry, p.examineEndpoints,
	}
	results := make([]findings, len(checks))
	var group sync.WaitGroup
	for i, check := range checks {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
			defer cancel()
			check(ctx, &results[i])
		})
	}
	group.Wait()

	unhealthy := false
	var text strings.Builder
	for _, f := range slices.Concat(results...) {
		fmt.Fprintf(&text, "%-4s  %s: %s\n", f.level, f.about, f.found)
		if f.do != "" {
			fmt.Fprintf(&text, "      → %s\n", f.do)
		}
		unhealthy = unhealthy || f.level == "FAIL"
	}
	if err := write(out, text.String()); err != nil {
		return err
	}
	if unhealthy {
		return ErrUnhealthy
	}
	return nil
}

func (p *parts) examineConfiguration(_ context.Context, f *findings) {
	f.ok("configuration", "it is valid")
	for what, file := range p.certificates() {
		expiry, err := telemetry.FirstExpiry(file)
		switch {
		case err != nil:
			f.fail("certificate", fmt.Sprintf("that for %s: %v", what, err), "")
		case time.Until(expiry) < 0:
			f.fail("certificate", fmt.Sprintf("that for %s has expired: %s", what, file), "renew it")
		case time.Until(expiry) < 14*24*time.Hour:
			f.warn("certificate", fmt.Sprintf("that for %s expires on %s: %s", what, expiry.Format(time.DateOnly), file), "renew it")
		}
	}
}

const serverSettings = `
SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version'), pg_is_in_recovery(),
	current_setting('fsync')::bool AND current_setting('full_page_writes')::bool AND current_setting('synchronous_commit') <> 'off',
	current_setting('max_connections')::int, pg_size_pretty(pg_database_size(current_database())), clock_timestamp()`

// missingRights are the tables of the schema that the user may not use. Those that only grow or
// are only read need fewer rights.
const missingRights = `
SELECT COALESCE(string_agg(relname, ', ' ORDER BY relname), '')
FROM pg_class
WHERE relnamespace = 'dlq'::regnamespace AND relkind = 'r' AND NOT (
	has_schema_privilege('dlq', 'USAGE') AND has_table_privilege(oid, 'SELECT')
	AND (relname = 'dlq_schema' OR has_table_privilege(oid, 'INSERT'))
	AND (relname IN ('dlq_audit', 'dlq_audit_runs', 'dlq_schema') OR has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))`

func (p *parts) examineDatabase(ctx context.Context, f *findings) {
	const about = "database"
	if p.pool == nil {
		f.warn(about, "it is not configured: messages are kept in memory", "set database.host")
		return
	}
	var major, most int
	var version, size string
	var standby, durable bool
	var now time.Time
	asked := time.Now()
	row := p.pool.QueryRow(ctx, serverSettings)
	if err := row.Scan(&major, &version, &standby, &durable, &most, &size, &now); err != nil {
		f.fail(about, explain(p.cfg, about, err).Error(), "see that "+p.cfg.Database.Host+" is reachable, and that user and password are right")
		return
	}
	const oldest = 15
	if major < oldest {
		f.fail(about, "PostgreSQL "+version, "use PostgreSQL 15 or later")
	} else {
		f.ok(about, "PostgreSQL %s, %s of data; it does not tell how much space is left", version, size)
	}
	if standby {
		f.fail(about, "the server is a standby", "set database.host to the primary")
	}
	if !durable {
		f.warn(about, "fsync, full_page_writes or synchronous_commit is off", "turn them on: a crash of the server loses what was acknowledged")
	}
	if needed := 4 * p.cfg.Database.MaxOpenConns; most < needed {
		f.warn(about, fmt.Sprintf("max_connections is %d; two APIs and two workers open up to %d", most, needed),
			"raise max_connections, or lower database.max_open_conns")
	}
	took := time.Since(asked)
	if skew := now.Sub(asked.Add(took / 2)); skew.Abs() > 2*time.Second+took {
		f.warn("clock", fmt.Sprintf("the database's clock differs by %s", skew.Round(time.Millisecond)), "synchronise both machines by NTP")
	} else {
		f.ok("clock", "it agrees with the database's")
	}
	if err := migrations.Check(ctx, p.pool); err != nil {
		f.fail("schema", err.Error(), "run `dlq-worker migrate`, or start a worker")
		return
	}
	f.ok("schema", "it is that of this version, or a newer one that works with it")
	var without string
	switch err := p.pool.QueryRow(ctx, missingRights).Scan(&without); {
	case err != nil:
		f.fail("rights", err.Error(), "")
	case without != "":
		f.fail("rights", "the user may not read or change "+without,
			"set database.application_role for the workers, or grant the rights: docs/audit.md")
	default:
		f.ok("rights", "the user may read and change the tables")
	}
}

func (p *parts) examineKafka(ctx context.Context, f *findings) {
	const about = "kafka"
	options, ok := p.kafkaOptions()
	if !ok {
		f.warn(about, "it is not configured: nothing is ingested", "set kafka.brokers")
		return
	}
	client, err := kafka.NewClient(options, p.log, p.registry, "doctor")
	if err != nil {
		f.fail(about, err.Error(), "")
		return
	}
	defer client.Close()
	if err := kafka.Ping(ctx, client); err != nil {
		f.fail(about, explain(p.cfg, about, err).Error(), "see that kafka.brokers are reachable, and that kafka.tls and kafka.sasl are right")
		return
	}
	s, err := kafka.NewSurvey(ctx, client, p.topics, p.originals(ctx), p.cfg.Kafka.ConsumerGroup)
	if err != nil {
		f.fail(about, err.Error(), "")
		return
	}
	f.ok(about, "%d brokers", s.Brokers)
	patterns := strings.Join(p.cfg.Kafka.DLQTopicPattern, ", ")
	if len(s.DeadLetters) == 0 {
		f.warn("topics", "no topic matches kafka.dlq_topic_pattern ("+patterns+")",
			"correct the pattern, grant Describe on these topics, or wait for the first dead letter")
	} else {
		f.ok("topics", "%d dead-letter topics: %s", len(s.DeadLetters), some(s.DeadLetters))
	}
	if len(s.Unmatched) > 0 {
		f.warn("topics", "these look like dead-letter topics, and match no pattern: "+some(s.Unmatched), "add them to kafka.dlq_topic_pattern, if they are")
	}
	if len(s.Missing) > 0 {
		f.warn("targets", "messages wait for topics that do not exist or are hidden: "+some(s.Missing),
			"create them, grant Describe and Write, or send the messages elsewhere (targets.routes)")
	}
	if len(s.Denied) > 0 {
		f.fail("acls", "the user lacks "+some(s.Denied), "grant these operations to the user of kafka.sasl")
	}
}

// originals are the topics that messages in the store would be sent to.
func (p *parts) originals(ctx context.Context) (topics []string) {
	if p.pool == nil {
		return nil
	}
	rows, err := p.pool.Query(ctx, `SELECT DISTINCT original_topic FROM dlq.dlq_topic_counts WHERE status IN ('PENDING', 'RETRYING')`)
	if err != nil {
		return nil // examineDatabase says why
	}
	topics, _ = pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(topics, func(topic string) bool { return !dlq.IsTopicName(topic) })
}

func (p *parts) examineTemporal(ctx context.Context, f *findings) {
	const about = "temporal"
	if err := p.workflows.Ping(ctx); err != nil {
		f.fail(about, explain(p.cfg, about, err).Error(),
			"see that "+p.cfg.Temporal.Address+" is reachable, and that temporal.tls and temporal.api_key are right")
		return
	}
	s, err := p.workflows.Survey(ctx)
	if err != nil {
		f.fail(about, err.Error(), "see that the namespace "+p.cfg.Temporal.Namespace+" exists, and that the user may use it")
		return
	}
	f.ok(about, "namespace %s keeps histories for %s", p.cfg.Temporal.Namespace, s.Retention)
	if s.Retention < 24*time.Hour {
		f.warn(about, "histories of ended workflows are kept for less than a day", "raise the retention of the namespace, to look at retries afterwards")
	}
	if len(s.MissingAttributes) > 0 {
		f.warn(about, "the namespace lacks the search attributes "+strings.Join(s.MissingAttributes, ", "), s.AttributeCommand)
	}
	switch {
	case !s.ScheduleExists:
		f.warn("schedule", s.Schedule+" does not exist", "start a worker: it creates the schedule of the archive")
	case s.SchedulePaused:
		f.warn("schedule", s.Schedule+" is paused: nothing is archived", "temporal schedule toggle --unpause --schedule-id "+s.Schedule)
	default:
		f.ok("schedule", "%s runs the archive", s.Schedule)
	}
	if len(s.Pollers) == 0 {
		f.warn("workers", "nobody polls the task queue "+s.TaskQueue+": retries do not begin", "start a worker with the same temporal.task_queue")
	} else {
		f.ok("workers", "%d poll the task queue %s", len(s.Pollers), s.TaskQueue)
	}
}

func (p *parts) examineRegistry(ctx context.Context, f *findings) {
	for _, address := range p.cfg.SchemaRegistry.URL {
		f.reach(ctx, "schema_registry", address, "values are not decoded meanwhile; everything else works")
	}
}

func (p *parts) examineEndpoints(ctx context.Context, f *findings) {
	for name, endpoint := range p.cfg.Targets.Endpoints {
		f.reach(ctx, "targets.endpoints."+name, endpoint.URL, "messages for it wait meanwhile")
	}
}

// reach connects to the host of a URL, and sends nothing.
func (f *findings) reach(ctx context.Context, about, address, meanwhile string) {
	u, err := url.Parse(address)
	if err != nil {
		f.fail(about, "its URL is not valid", "")
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		f.warn(about, err.Error(), "see that it runs and is reachable; "+meanwhile)
		return
	}
	_ = connection.Close()
	f.ok(about, "%s accepts connections", u.Host)
}

// some are the first names of a list.
func some(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
