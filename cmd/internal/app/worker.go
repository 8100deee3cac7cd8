package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"dlqmanager/activities"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
	"dlqmanager/telemetry"
	"dlqmanager/webhook"
	"dlqmanager/workflows"
)

// RunWorker runs workflows and the ingest until ctx ends. It serves metrics and health checks on its own port.
func RunWorker(ctx context.Context, cfg *config.Config, out io.Writer) error {
	if !cfg.Database.Configured() {
		return errors.New("database is not configured: messages would be in this process's memory, where the API cannot see them. " +
			"Set database.host (DLQ_DATABASE_HOST), or start only the API, which then runs the worker in its own process")
	}
	limitMemory(workerMemory)
	p, err := assemble(cfg, "worker", out)
	if err != nil {
		return err
	}
	defer p.close()
	engine, err := newEngine(p)
	if err != nil {
		return err
	}
	checks := map[string]telemetry.Check{
		"database": p.explained("database", p.checkDatabase), "temporal": p.explained("temporal", p.workflows.Ping),
	}
	engine.addChecks(checks)
	// This check fails during a stop, so that /readyz then answers 503.
	checks["process"] = func(context.Context) error { return ctx.Err() }

	metrics, err := p.metricsHandler(checks)
	if err != nil {
		return err
	}
	server, err := telemetry.Listen(cfg.Worker.MetricsAddress(), cfg.Server.Hosts(), metrics,
		telemetry.NewDebugHandler(p.level, p.log), checks, p.log)
	if err != nil {
		return fmt.Errorf("%w; set worker.metrics_port in the configuration or DLQ_WORKER_METRICS_PORT in the environment "+
			"to listen elsewhere", err)
	}
	p.log.Info("serving metrics", zap.String("address", server.Address()))
	err = engine.run(ctx)
	stopWithin(p.log, "metrics server", metricsStop, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsStop)
		defer cancel()
		_ = server.Stop(limited)
	})
	return ignoreCanceled(err)
}

// metricsStop is how long a stop waits for a running scrape.
const metricsStop = 2 * time.Second

// workerMemory is the memory limit if the cgroup has no limit. A worker uses a quarter of it, unless messages are large.
const workerMemory = 256 << 20

// engine runs the Temporal worker, the sweeper and the ingest.
type engine struct {
	*parts
	publisher *kafka.Publisher   // nil without Kafka
	endpoints *webhook.Publisher // nil without endpoints
	ingest    *kafka.Ingest      // nil without Kafka
	steps     workflows.Activities
	sweeper   *workflows.Sweeper      // nil without a database
	others    []func(context.Context) // parts that need a database and Kafka
	started   chan struct{}
}

func newEngine(p *parts) (*engine, error) {
	e := &engine{parts: p, started: make(chan struct{})}
	router := &activities.Router{Targets: p.targets}
	if options, ok := p.kafkaOptions(); ok {
		var err error
		if e.publisher, err = kafka.NewPublisher(options, p.log, p.registry); err != nil {
			return nil, err
		}
		if e.ingest, err = kafka.NewIngest(options, p.store, p.topics, p.log, p.registry); err != nil {
			return nil, err
		}
		router.Kafka = e.publisher
	} else {
		p.log.Warn("kafka is not configured: nothing is ingested, and retries resolve messages without publishing them")
	}
	if err := e.openEndpoints(); err != nil {
		return nil, err
	}
	var publisher activities.Publisher
	if e.endpoints != nil {
		router.HTTP = e.endpoints
	}
	if e.publisher != nil || e.endpoints != nil {
		publisher = router
	}
	metrics, memory := activities.NewMetrics(p.registry), activities.NewMemory(activities.DefaultMemory)
	e.steps.Retry = &activities.Retry{
		Store: p.store, Publisher: publisher, Memory: memory, Owners: p.workflows, Metrics: metrics, Log: p.log,
	}
	if p.database != nil {
		return e, e.addDatabase(publisher, memory, metrics)
	}
	return e, nil
}

// addDatabase adds the parts that need a database.
func (e *engine) addDatabase(publisher activities.Publisher, memory *activities.Memory, metrics *activities.Metrics) error {
	db, log := e.database, e.log
	masking, err := e.cfg.Masking.WithoutSecret()
	if err != nil {
		return err
	}
	e.registry.MustRegister(telemetry.NewBacklogCollector(db.Topics, log), telemetry.NewBulkCollector(db.RunningRetries, log),
		telemetry.NewGroupCollector(withoutHidden(masking, db), log), telemetry.NewHeldDeadCollector(db.HeldDead, log),
		telemetry.NewArchiveCollector(func(ctx context.Context) (telemetry.ArchiveRun, error) {
			run, err := e.workflows.LastArchiveRun(ctx)
			return telemetry.ArchiveRun(run), err
		}, log))
	e.steps.Jobs = &activities.Jobs{Store: db, Publisher: publisher, Memory: memory, Metrics: metrics, Log: log, Targets: e.targets}
	e.steps.Archive = &activities.Archive{
		Store: db, Retention: e.cfg.Archive.Retention.Std(), PurgeAfter: e.cfg.Archive.PurgeAfter.Std(),
		BatchSize: e.cfg.Archive.BatchSize, AuditRetention: e.cfg.Audit.Retention.Std(), Metrics: metrics, Log: log,
	}
	e.sweeper = &workflows.Sweeper{Store: db, Owners: e.workflows, Metrics: metrics, Log: log}
	if e.publisher == nil {
		return nil
	}
	e.others = append(e.others, kafka.NewWatermarkPoller(e.publisher, db, e.topics, e.cfg.Verify.Interval.Std(), log).Run)
	if e.cfg.Kafka.PublishesExhausted() {
		archives := dlq.NewArchiveTopics(e.cfg.Kafka.ArchiveTopic, e.topics)
		e.others = append(e.others, kafka.NewArchiver(e.publisher, db, archives, log, e.registry).Run)
		e.registry.MustRegister(telemetry.NewUnpublishedCollector(db.Unpublished, log))
	}
	return nil
}

// withoutHidden reads the causes for the metrics. Their titles must not quote messages of topics with masking rules, since
// everybody who reads the metrics sees the titles, and other systems store them.
func withoutHidden(masking *dlq.Masking, db *postgres.Store) func(context.Context) ([]dlq.GroupBacklog, error) {
	if masking == nil {
		return db.GroupBacklogs
	}
	return func(ctx context.Context) ([]dlq.GroupBacklog, error) {
		read, err := db.GroupBacklogs(ctx)
		for i := range read {
			if len(read[i].Causes) == 0 {
				continue
			}
			beside, err := db.TopicsBeside(ctx, read[i].DLQTopic)
			if err != nil {
				return nil, err
			}
			masking.HideCauses(&read[i], beside...)
		}
		return read, err
	}
}

// openEndpoints makes the publisher of the HTTP endpoints, if the configuration has any.
func (e *engine) openEndpoints() (err error) {
	if len(e.cfg.Targets.Endpoints) == 0 {
		return nil
	}
	o := e.endpointOptions()
	var lookup *kafka.Lookup
	if options, ok := e.kafkaOptions(); ok {
		lookup = kafka.NewLookup(options, e.log)
		o.Metrics = e.publisher.Metrics()
	} else {
		o.Metrics = kafka.NewPublishMetrics(e.registry)
	}
	o.Original = func(ctx context.Context, m *dlq.Envelope) (dlq.Record, error) {
		return kafka.Original(ctx, m, lookup)
	}
	e.endpoints, err = webhook.New(o, e.log)
	return err
}

var errStarting = fmt.Errorf("%w: still starting", dlq.ErrUnavailable)

// addChecks adds the engine's dependencies to /readyz.
func (e *engine) addChecks(checks map[string]telemetry.Check) {
	checks["worker"] = func(context.Context) error {
		select {
		case <-e.started:
			return nil
		default:
			return errStarting
		}
	}
	if e.publisher == nil {
		return
	}
	checks["kafka"] = e.explained("kafka", e.publisher.Ping)
	checks["ingest"] = e.explained("ingest", func(context.Context) error {
		s := e.ingest.Status()
		if !s.Running {
			return errStarting
		}
		if s.Notice != "" {
			return &dlq.NoticeError{Notice: s.Notice, Unavailable: s.Waiting == kafka.WaitingForStore}
		}
		if s.Waiting != "" {
			return fmt.Errorf("%w: ingest waits for %s since %s: %s", dlq.ErrUnavailable, s.Waiting,
				s.Since.UTC().Format("15:04:05"), s.LastError)
		}
		return nil
	})
}

// run starts each part of the engine as soon as its dependencies are available. When ctx ends, it stops the parts: the lanes
// finish their current pages, the ingest stores its current batch, and then the producer closes.
func (e *engine) run(ctx context.Context) error {
	if e.pool != nil {
		if err := waitFor(ctx, e.log, "database", e.explained("database", e.migrate(true))); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.runWorkflows(ctx) })
	if e.ingest != nil {
		// The ingest does not wait for Temporal.
		group.Go(func() error { return e.ingest.Run(ctx) })
	}
	for _, run := range e.others {
		group.Go(func() error { run(ctx); return nil })
	}
	err := group.Wait()
	if e.publisher != nil {
		stopWithin(e.log, "producer", e.publisher.MaxDuration(), e.publisher.Close)
	}
	if e.endpoints != nil {
		e.endpoints.Close()
	}
	return err
}

func (e *engine) runWorkflows(ctx context.Context) error {
	limit := e.cfg.Worker.StopTimeout.Std()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running worker.Worker
	err := waitFor(ctx, e.log, "temporal", e.explained("temporal", func(ctx context.Context) error {
		if err := e.ensureSchedule(ctx); err != nil {
			return err
		}
		running = workflows.NewWorker(e.temporal, e.cfg.Temporal.TaskQueue, e.steps, limit, fail)
		return running.Start()
	}))
	if err != nil {
		return err
	}
	close(e.started)
	if e.sweeper != nil {
		e.sweeper.Run(ctx)
	}
	<-ctx.Done()
	stopWithin(e.log, "temporal worker", limit+limit/4, running.Stop)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("temporal worker: %w", cause)
	}
	return nil
}

// ensureSchedule creates the archive's schedule. A process with messages in memory has no archive, and must not replace the
// schedule of an installation with a database.
func (e *engine) ensureSchedule(ctx context.Context) error {
	if e.pool == nil {
		return e.workflows.Ping(ctx)
	}
	return e.workflows.EnsureArchiveSchedule(ctx, e.cfg.Archive.Schedule)
}
