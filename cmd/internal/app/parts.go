package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/api"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/migrations"
	"dlqmanager/registry"
	"dlqmanager/store/memory"
	"dlqmanager/store/postgres"
	"dlqmanager/telemetry"
	"dlqmanager/webhook"
	"dlqmanager/workflows"
)

// Store has the methods of the store that the programs use with or without a database.
type Store interface {
	api.Store
	activities.RetryStore
	kafka.ArrivalStore
}

// parts are the components of both programs. A component connects at its first use, so no dependency needs to be available
// before that.
type parts struct {
	cfg      *config.Config
	log      *zap.Logger
	level    *telemetry.LogLevel
	registry *prometheus.Registry
	topics   *dlq.Topics
	targets  *dlq.Targets
	store    Store
	// database and pool are nil if messages are kept in memory.
	database  *postgres.Store
	pool      *pgxpool.Pool
	temporal  client.Client
	workflows *workflows.Client
	decoder   *registry.Decoder // nil without a Schema Registry
	// stopMetrics stops the export of the Temporal SDK's metrics.
	stopMetrics func(context.Context) error
	tracing     *sdktrace.TracerProvider // nil without tracing
}

func assemble(cfg *config.Config, name string, out io.Writer) (_ *parts, err error) {
	p := &parts{cfg: cfg}
	if p.level, err = telemetry.NewLogLevel(cfg.Log.Level); err != nil {
		return nil, err
	}
	if p.log, err = telemetry.NewLogger(out, telemetry.LogOptions{
		Level: p.level, Format: cfg.Log.Format, Name: cfg.App.Name, Version: version(cfg),
	}); err != nil {
		return nil, err
	}
	p.log = p.log.With(zap.String("process", name))
	p.registry = telemetry.NewRegistry(cfg.App.Name, version(cfg))
	if address := cfg.ConsoleURL(); address != "" {
		telemetry.NameConsole(p.registry, address)
	}
	p.registry.MustRegister(telemetry.NewCertificateCollector(p.certificates(), p.log))
	if p.topics, err = dlq.NewTopics(cfg.Kafka.DLQTopicPattern, cfg.Kafka.OriginTopics); err != nil {
		return nil, err
	}
	p.topics.AllowInternal(cfg.Targets.Allowed)
	if err := p.topics.LimitOrigins(cfg.Kafka.Origins); err != nil {
		return nil, err
	}
	p.targets = cfg.Targets.Rules(p.topics)
	for _, open := range []func() error{p.openDecoder, func() error { return p.openTracing(name) }, p.openStore, p.openTemporal} {
		if err := open(); err != nil {
			p.close()
			return nil, err
		}
	}
	p.log.Info("configured", zap.Any("config", cfg.Redacted()))
	return p, nil
}

func version(cfg *config.Config) string { return cmp.Or(cfg.App.Version, Version) }

// certificates are the files of certificates, by their use. The metrics show when they expire.
func (p *parts) certificates() map[string]string {
	files := map[string]string{
		"server": p.cfg.Server.TLS.CertFile, "client_ca": p.cfg.Server.TLS.ClientCAFile,
		"kafka": p.cfg.Kafka.TLS.CertFile, "temporal": p.cfg.Temporal.TLS.CertFile,
		"schema_registry": p.cfg.SchemaRegistry.TLS.CertFile, "tracing": p.cfg.Tracing.TLS.CertFile,
		"database": p.cfg.Database.SSLCert,
	}
	maps.DeleteFunc(files, func(_, file string) bool { return file == "" })
	return files
}

func (p *parts) openDecoder() (err error) {
	if !p.cfg.SchemaRegistry.Configured() {
		return nil
	}
	p.decoder, err = registry.New(p.decoderOptions(), p.log, p.registry)
	return err
}

func (p *parts) decoderOptions() registry.Options {
	r := p.cfg.SchemaRegistry
	return registry.Options{
		URLs: r.URL, Authorize: r.Authorize, TLS: r.TLS.Config, Timeout: r.Timeout.Std(), IngestTimeout: r.IngestTimeout.Std(),
	}
}

// endpointOptions converts the configuration of the HTTP endpoints.
func (p *parts) endpointOptions() webhook.Options {
	targets := p.cfg.Targets
	o := webhook.Options{
		Endpoints: map[string]webhook.Endpoint{}, AllowedNetworks: targets.Networks(), UserAgent: p.cfg.App.Name + "/" + version(p.cfg),
	}
	for name, endpoint := range targets.Endpoints {
		o.Endpoints[name] = webhook.Endpoint{
			URL: endpoint.URL, Timeout: endpoint.Timeout.Std(), Concurrency: endpoint.Concurrency,
			SecretsFile: endpoint.SecretsFile, TokenFile: endpoint.TokenFile,
		}
	}
	return o
}

func (p *parts) openTracing(process string) error {
	t := p.cfg.Tracing
	if !t.Configured() {
		return nil
	}
	encryption, err := t.TLS.Config()
	if err != nil {
		return err
	}
	p.tracing, err = telemetry.NewTracerProvider(telemetry.TraceOptions{
		Endpoint: t.Endpoint, Protocol: t.Protocol, TLS: encryption, SampleRatio: float64(t.SampleRatio),
		Service: p.cfg.App.Name, Version: version(p.cfg), Process: process,
	}, p.log)
	return err
}

func (p *parts) openStore() error {
	db := p.cfg.Database
	if !db.Configured() {
		p.log.Warn("database is not configured: messages are kept in memory and lost when the program ends, " +
			"and requests that need a database are refused; set database.host (DLQ_DATABASE_HOST)")
		p.store = memory.New(p.topics)
		return nil
	}
	options, err := pgxpool.ParseConfig(db.URL())
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	options.MaxConns = int32(db.MaxOpenConns)
	options.MinIdleConns = int32(min(db.MaxIdleConns, 1)) // the first request need not wait for a connection
	options.MaxConnLifetime = db.ConnMaxLifetime.Std()
	if p.tracing != nil {
		options.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(p.tracing), otelpgx.WithQuerySpanNamePrefix())
	}
	login := &login{database: db}
	login.apply(options)
	p.pool, err = postgres.NewPool(context.Background(), options)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	login.pool.Store(p.pool)
	telemetry.RegisterPool(p.registry, p.pool.Stat)
	store := postgres.New(p.pool, p.topics)
	store.Outbox = p.cfg.Kafka.PublishesExhausted()
	if p.cfg.Audit.Logs() {
		store.Audit = telemetry.NewAuditLog(p.log)
	}
	store.MaxGroups, store.Targets = p.cfg.Groups.MaxPerTopic, p.targets
	store.VerifyGroups = p.cfg.Verify.Groups()
	p.store, p.database = store, store
	return nil
}

// migrate applies the migrations. At the start of a program it leaves out large index builds.
func (p *parts) migrate(start bool) func(context.Context) error {
	db := p.cfg.Database
	options := migrations.Options{
		Roles: migrations.Roles{
			Credentials: db.MigrationCredentials, Owner: db.Migrations.Role, Application: db.ApplicationRole,
		},
		LeaveLarge: start,
		Log:        func(message string) { p.log.Warn(message) },
	}
	return func(ctx context.Context) error { return migrations.UpAs(ctx, p.pool, options) }
}

func (p *parts) openTemporal() error {
	options, err := p.cfg.Temporal.ClientOptions()
	if err != nil {
		return err
	}
	options.Logger = telemetry.NewTemporalLogger(p.log)
	if options.MetricsHandler, p.stopMetrics, err = telemetry.NewTemporalMetrics(p.registry, p.log); err != nil {
		return err
	}
	if p.tracing != nil {
		tracing, err := telemetry.NewTemporalTracing(p.tracing)
		if err != nil {
			return fmt.Errorf("temporal: %w", err)
		}
		options.Interceptors = append(options.Interceptors, tracing)
	}
	if p.temporal, err = client.NewLazyClient(options); err != nil {
		return fmt.Errorf("temporal: %w", err)
	}
	p.workflows = workflows.NewClient(p.temporal, p.cfg.Temporal.TaskQueue, workflows.ClientOptions{
		Namespace: p.cfg.Temporal.Namespace, PublicURL: p.cfg.Server.PublicURL, Pages: dlq.Pages(p.cfg.ConsoleURL()), Log: p.log,
	})
	return nil
}

// checkDatabase is a readiness check: the database must answer, and must have the schema of this version.
func (p *parts) checkDatabase(ctx context.Context) error {
	err := p.database.Ping(ctx)
	if err == nil || errors.Is(err, dlq.ErrReadOnly) {
		if wrong := migrations.Check(ctx, p.pool); wrong != nil {
			return wrong
		}
	}
	if errors.Is(err, dlq.ErrReadOnly) { // reads still work
		return &dlq.NoticeError{Notice: dlq.ErrReadOnly.Error()}
	}
	return err
}

// refuseForeign returns migrations.ErrForeign for a database that other migrations have made. An API that served such a
// database would change rows of another program. No other error stops the start.
func (p *parts) refuseForeign(ctx context.Context) error {
	if p.pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := migrations.Check(ctx, p.pool); errors.Is(err, migrations.ErrForeign) {
		return err
	}
	return nil
}

// kafkaOptions converts the configuration of Kafka. ok is false if Kafka is not configured.
func (p *parts) kafkaOptions() (options kafka.Options, ok bool) {
	k := p.cfg.Kafka
	options = kafka.Options{
		Brokers: k.Brokers, ClientID: k.ClientID, ConsumerGroup: k.ConsumerGroup,
		SASL:         kafka.SASL{Mechanism: k.SASL.Mechanism, User: k.SASL.User, Password: k.SASL.Password},
		RepublishKey: k.RepublishKey, MaxRetries: k.MaxRetries, Grouping: p.cfg.Groups.Grouping(),
		MaxPending: int64(p.cfg.Ingest.MaxPending), MaxPendingPerTopic: int64(p.cfg.Ingest.MaxPendingPerTopic),
	}
	if k.UsesTLS() {
		options.TLS = k.TLS.Config
	}
	if p.decoder != nil {
		options.Decoder = p.decoder
	}
	return options, k.Configured()
}

// close closes the connections that assemble has opened.
func (p *parts) close() {
	if p.temporal != nil {
		stopWithin(p.log, "temporal client", 5*time.Second, p.temporal.Close)
	}
	if p.stopMetrics != nil {
		_ = p.stopMetrics(context.Background()) // metrics are scraped, so nothing must be flushed
	}
	if p.tracing != nil {
		stopWithin(p.log, "tracing", 2*time.Second, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond) // a collector may hang
			defer cancel()
			if err := p.tracing.Shutdown(ctx); err != nil {
				p.log.Warn("the last spans were not exported", zap.Error(err))
			}
		})
	}
	if p.pool != nil {
		stopWithin(p.log, "database pool", 10*time.Second, p.pool.Close)
	}
	_ = p.log.Sync()
}
