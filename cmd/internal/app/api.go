package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"dlqmanager/api"
	"dlqmanager/config"
	"dlqmanager/kafka"
	"dlqmanager/telemetry"
)

// RunAPI serves REST until ctx ends. Without a database it also runs the worker in the
// same process, since the store is in memory.
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
	server, err := api.New(api.Options{
		Auth: authenticator, Open: cfg.Auth.Open, Hosts: cfg.Server.Hosts(),
		Store: p.store, Database: p.database, Retries: p.workflows, Topics: p.topics, Targets: p.targets, Intake: p.intake(),
		Suspicion: kafka.Suspicion,
		Pointers:  p.pointers(), Ends: p.ends(), Decoder: p.apiDecoder(),
		Ready:    telemetry.NewReadiness(checks, readyTimeout, p.log).Results,
		LogLevel: p.level, Profiles: telemetry.Profiles(),
		Logger: p.log, Registerer: p.registry, Gatherer: p.registry, Tracing: p.tracerProvider(),
		TemporalUI: cfg.Temporal.UIURL, TemporalNamespace: cfg.Temporal.Namespace,
		ArchiveAfter: cfg.Archive.Retention.Std(), PurgeAfter: cfg.Archive.PurgeAfter.Std(),
		RetryWait: retryWait(cfg.Server.RetryWait.Std()), BulkLanes: cfg.Bulk.Lanes,
		RequestTimeout: cfg.Server.RequestTimeout.Std(), PreviewTimeout: cfg.Server.DryRunTimeout.Std(), ReadTimeout: cfg.Server.ReadTimeout.Std(),
		WriteTimeout: cfg.Server.WriteTimeout.Std(), IdleTimeout: cfg.Server.IdleTimeout.Std(),
		BodyLimit: int(cfg.Server.BodyLimit), RateLimit: float64(cfg.Server.RateLimit), MaxConnections: cfg.Server.MaxConnections,
		URILimit: cfg.Server.URLLimit.Bytes(), HeaderLimit: cfg.Server.HeaderLimit.Bytes(), MaxConnectionsPerAddress: cfg.Server.MaxConnectionsPerAddress,
		AnswerMemory: answerMemory(int64(cfg.Server.AnswerMemory), limit), MaxScans: cfg.Server.MaxScans, MaxDryRuns: cfg.Server.MaxDryRuns,
		TrustedProxies: cfg.Server.Proxies(), CORSOrigins: cfg.Server.CORSOrigins, ServesTLS: cfg.Server.TLS.Configured(),
		MaxPending: int64(cfg.Ingest.MaxPending), MaxPendingPerTopic: int64(cfg.Ingest.MaxPendingPerTopic),
	})
	if err != nil {
		return err
	}
	listener, err := listen(ctx, cfg.Server.Address(), "server.port", "DLQ_SERVER_PORT")
	if err != nil {
		return err
	}
	if listener, err = encrypt(listener, cfg.Server.TLS, p.log); err != nil {
		return err
	}
	p.log.Info("serving", zap.String("address", listener.Addr().String()), zap.Bool("tls", cfg.Server.TLS.Configured()))

	group, ctx := errgroup.WithContext(ctx)
	served := make(chan struct{}) // closed when the server has ended; draining is useless then
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
	stop := shutdown{p.log}
	stop.step("requests", cfg.Server.ShutdownTimeout.Std()+time.Second, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Server.ShutdownTimeout.Std())
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			p.log.Error("requests were cut off", zap.Error(err))
		}
	})
	return ignoreCanceled(group.Wait())
}

// pointers is nil without Kafka.
func (p *parts) pointers() api.Pointers {
	options, ok := p.kafkaOptions()
	if !ok {
		return nil
	}
	return kafka.NewPointers(options, p.log)
}

// tracerProvider is nil without tracing.
func (p *parts) tracerProvider() trace.TracerProvider {
	if p.tracing == nil {
		return nil
	}
	return p.tracing
}

// apiDecoder is nil without a Schema Registry.
func (p *parts) apiDecoder() api.Decoder {
	if p.decoder == nil {
		return nil
	}
	return p.decoder
}

// intake makes the same arrivals as the ingest.
func (p *parts) intake() *kafka.Intake {
	options, _ := p.kafkaOptions()
	return &kafka.Intake{Topics: p.topics, Grouping: options.Grouping, MaxRetries: options.MaxRetries, Decoder: options.Decoder}
}

// ends is nil without Kafka.
func (p *parts) ends() api.Ends {
	options, ok := p.kafkaOptions()
	if !ok {
		return nil
	}
	return kafka.NewEnds(options, p.log)
}

// readyTimeout is how long /readyz waits for a dependency.
const readyTimeout = 2 * time.Second

// retryWait maps zero to a negative value: for the API, zero is the default and a
// negative value means not to wait.
func retryWait(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// ignoreCanceled returns nil for the end that was requested.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func listen(ctx context.Context, address, key, variable string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; set %s in the configuration or %s in the environment to listen elsewhere", err, key, variable)
	}
	return listener, nil
}
