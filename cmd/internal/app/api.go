package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"dlqmanager/api"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/telemetry"
)

// RunAPI serves REST until ctx ends. Without a database it also runs the worker in the same process, since the messages are in
// memory.
func RunAPI(ctx context.Context, cfg *config.Config, out io.Writer) (err error) {
	limit := limitMemory(math.MaxInt64)
	p, err := assemble(cfg, "api", out)
	if err != nil {
		return err
	}
	defer p.close()

	checks := map[string]telemetry.Check{"temporal": p.explained("temporal", p.workflows.Ping)}
	if p.pool != nil {
		checks["database"] = p.explained("database", p.checkDatabase)
	}
	var engine *engine
	if p.database == nil {
		if engine, err = newEngine(p); err != nil {
			return err
		}
		engine.addChecks(checks)
	} else if options, ok := p.kafkaOptions(); ok {
		broker, err := kafka.NewClient(options, p.log, p.registry, "api")
		if err != nil {
			return err
		}
		defer broker.Close()
		checks["kafka"] = p.explained("kafka", func(ctx context.Context) error { return kafka.Ping(ctx, broker) })
	}

	if err := p.refuseForeign(ctx); err != nil {
		return err
	}
	authenticator, err := p.access(ctx, checks)
	if err != nil {
		return err
	}
	masking, err := cfg.Masking.Compiled()
	if err != nil {
		return err
	}
	options := api.Options{
		Auth: authenticator, Masking: masking, PublicURL: cfg.Server.PublicURL, Pages: dlq.Pages(cfg.ConsoleURL()),
		Open: cfg.Auth.Open, Hosts: cfg.Server.Hosts(),
		Store: p.store, Retries: p.workflows, Topics: p.topics, Targets: p.targets, Intake: p.intake(),
		Suspicion: kafka.Suspicion, ComesOff: kafka.ComesOff,
		Ready:    telemetry.NewReadiness(checks, readyTimeout, p.log).Results,
		LogLevel: p.level, Profiles: telemetry.Profiles(),
		Logger: p.log, Registerer: p.registry, Gatherer: p.registry,
		TemporalUI: cfg.Temporal.UIURL, TemporalNamespace: cfg.Temporal.Namespace,
		TraceLink: dlq.TraceLink(cfg.Links.TraceURL), RecordLink: dlq.RecordLink(cfg.Links.KafkaURL),
		ArchiveAfter: cfg.Archive.Retention.Std(), PurgeAfter: cfg.Archive.PurgeAfter.Std(),
		RetryWait: cfg.Server.RetryWait.Std(), BulkLanes: cfg.Jobs.Lanes,
		RequestTimeout: cfg.Server.RequestTimeout.Std(), PlanTimeout: cfg.Server.PlanTimeout.Std(), ReadTimeout: cfg.Server.ReadTimeout.Std(),
		WriteTimeout: cfg.Server.WriteTimeout.Std(), IdleTimeout: cfg.Server.IdleTimeout.Std(),
		BodyLimit: int(cfg.Server.BodyLimit), RateLimit: float64(cfg.Server.RateLimit), MaxConnections: cfg.Server.MaxConnections,
		URILimit: cfg.Server.URLLimit.Bytes(), HeaderLimit: cfg.Server.HeaderLimit.Bytes(), MaxConnectionsPerAddress: cfg.Server.MaxConnectionsPerAddress,
		AnswerMemory: answerMemory(int64(cfg.Server.AnswerMemory), limit), MaxScans: cfg.Server.MaxScans, MaxPlans: cfg.Server.MaxPlans,
		MaxExports:     cfg.Server.MaxExports,
		PlanTTL:        cfg.Jobs.PlanTTL.Std(),
		TrustedProxies: cfg.Server.Proxies(), CORSOrigins: cfg.Server.CORSOrigins, ServesTLS: cfg.Server.TLS.Configured(),
		MaxPending: int64(cfg.Ingest.MaxPending), MaxPendingPerTopic: int64(cfg.Ingest.MaxPendingPerTopic),
	}
	p.addOptional(&options)
	pages := &late{}
	if err := p.addConsole(&options, pages); err != nil {
		return err
	}
	server, err := api.New(options)
	if err != nil {
		return err
	}
	pages.RoundTripper = server.InMemory()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Server.Address())
	if err != nil {
		return fmt.Errorf("%w; set server.port in the configuration or DLQ_SERVER_PORT in the environment to listen elsewhere", err)
	}
	if listener, err = encrypt(listener, cfg.Server.TLS, p.log); err != nil {
		return err
	}
	p.log.Info("serving", zap.String("address", listener.Addr().String()), zap.Bool("tls", cfg.Server.TLS.Configured()))

	group, ctx := errgroup.WithContext(ctx)
	served := make(chan struct{}) // closed when the server has ended, so that nothing waits for the drain delay
	group.Go(func() error { defer close(served); return server.Serve(listener) })
	if engine != nil {
		group.Go(func() error { return engine.run(ctx) })
	}
	<-ctx.Done()
	p.log.Info("stopping", zap.Error(context.Cause(ctx)))
	server.Drain()
	select {
	case <-time.After(cfg.Server.DrainDelay.Std()):
	case <-served:
	}
	stopWithin(p.log, "requests", cfg.Server.ShutdownTimeout.Std()+time.Second, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Server.ShutdownTimeout.Std())
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			p.log.Error("requests were cut off", zap.Error(err))
		}
	})
	return ignoreCanceled(group.Wait())
}

// addOptional adds the optional parts that exist. A part that is a nil pointer is left out, since an interface with a nil
// pointer is not nil.
func (p *parts) addOptional(o *api.Options) {
	if p.cfg.Auth.Has("oidc") {
		o.Issuer = p.cfg.Auth.OIDC.Issuer
	}
	if p.database != nil {
		o.Database = p.database
	}
	if options, ok := p.kafkaOptions(); ok {
		lookup := kafka.NewLookup(options, p.log)
		o.Pointers, o.Ends = lookup, lookup
	}
	if p.decoder != nil {
		o.Decoder = p.decoder
	}
	if p.tracing != nil {
		o.Tracing = p.tracing
	}
}

// intake makes the arrivals of messages that are handed in, with the same rules as the ingest.
func (p *parts) intake() *kafka.Intake {
	options, _ := p.kafkaOptions()
	return &kafka.Intake{Topics: p.topics, Grouping: options.Grouping, MaxRetries: options.MaxRetries, Decoder: options.Decoder}
}

// readyTimeout is how long /readyz waits for a dependency.
const readyTimeout = 2 * time.Second

// ignoreCanceled returns nil for the error of a context that was cancelled on purpose.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
