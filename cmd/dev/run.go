package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/config"
	"dlqmanager/dev"
	"dlqmanager/dev/demo"
	"dlqmanager/dlq"
	"dlqmanager/migrations"
)

func run(ctx context.Context, args, environ []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return runStack(ctx, environ, out)
	case args[0] == "demo":
		return runDemo(ctx, args[1:], environ, out)
	case app.AsksForHelp(args[0]):
		_, err := io.WriteString(out, help)
		return err
	}
	return &app.UsageError{Command: program, Problem: fmt.Sprintf("unknown command %q", args[0])}
}

// runStack starts the services and then the manager's own programs. It prints the addresses when all of them are ready.
func runStack(ctx context.Context, environ []string, out io.Writer) error {
	options, err := dev.StackOptionsFromEnv(lookup(environ))
	if err != nil {
		return err
	}
	options.Out = out
	_, _ = fmt.Fprintln(out, "Starting the parts:")
	stack, err := dev.StartStack(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()

	if err := checkState(ctx, stack.DatabaseURL, options.Dir); err != nil {
		return err
	}
	cfg, err := config.Load("", environOf(environ, stack.Endpoints))
	if err != nil {
		return err
	}
	if err := addReceipts(cfg, options); err != nil {
		return err
	}
	if cfg.Server.PublicURL == "" {
		cfg.Server.PublicURL = "http://" + cfg.Server.Address()
	}
	logs, err := openLog(options.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return app.RunAPI(ctx, cfg, logs) })
	group.Go(func() error { return app.RunWorker(ctx, cfg, logs) })
	group.Go(func() error {
		select {
		case err := <-stack.Failed():
			return err
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		if err := waitReady(ctx, app.APIHealth(cfg), app.WorkerHealth(cfg)); err != nil {
			return err
		}
		banner(out, cfg, stack.Endpoints, logs.Name())
		return nil
	})
	err = group.Wait()
	_, _ = fmt.Fprintln(out, "\nStopping; everything is kept in "+options.Dir+":")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// openLog opens the log file of the programs. The terminal shows only the progress: two streams of JSON would hide it.
func openLog(dir string) (*os.File, error) {
	name := filepath.Join(dir, "dlq-manager.log")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// checkState refuses a folder that another version of this program has made, since its tables and workflows differ.
func checkState(ctx context.Context, databaseURL, dir string) error {
	if databaseURL == "" {
		return nil
	}
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool); errors.Is(err, migrations.ErrForeign) {
		return fmt.Errorf("%s has the state of another version: move it aside with `mv %[1]s %[1]s.before`, and start again (%w)", dir, err)
	}
	return nil // the worker reports any other problem
}

// addReceipts makes the demo's topic of receipts go to its HTTP endpoint, unless the user has configured targets.
func addReceipts(cfg *config.Config, o dev.StackOptions) error {
	if len(cfg.Targets.Endpoints)+len(cfg.Targets.Routes) > 0 {
		return nil
	}
	secret, err := demo.ReceiptsSecret(o.Dir)
	if err != nil {
		return err
	}
	cfg.Targets.Routes = map[string]string{demo.Receipts: dlq.EndpointTarget("shop")}
	cfg.Targets.Endpoints = config.Endpoints{"shop": {
		URL: fmt.Sprintf("http://127.0.0.1:%d/receipts", o.ReceiptsPort), SecretsFile: secret,
		Timeout: config.Duration(10 * time.Second), Concurrency: 16,
	}}
	cfg.Targets.AllowedNetworks = append(cfg.Targets.AllowedNetworks, "127.0.0.0/8")
	return nil
}

// environOf adds the addresses of the services to the environment. Variables of the user override them.
func environOf(environ []string, e dev.Endpoints) []string {
	result := []string{"DLQ_APP_ENVIRONMENT=dev", "DLQ_APP_VERSION=" + app.Version, "DLQ_SERVER_DRAIN_DELAY=0s"}
	if e.DatabaseURL != "" {
		result = append(result,
			"DLQ_DATABASE_HOST="+e.DatabaseHost, "DLQ_DATABASE_PORT="+strconv.Itoa(e.DatabasePort),
			"DLQ_DATABASE_NAME="+e.DatabaseName, "DLQ_DATABASE_USER="+e.DatabaseUser, "DLQ_DATABASE_SSL_MODE=disable")
	}
	result = append(result, "DLQ_KAFKA_BROKERS="+strings.Join(e.Brokers, ","), "DLQ_TEMPORAL_ADDRESS="+e.TemporalAddress)
	if e.TemporalUIURL != "" {
		result = append(result, "DLQ_TEMPORAL_UI_URL="+e.TemporalUIURL)
	}
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "DLQ_DEV_") { // variables of the stack, not of the manager
			result = append(result, variable)
		}
	}
	return result
}

func lookup(environ []string) func(string) string {
	values := make(map[string]string, len(environ))
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

// waitReady returns once every program is ready. If the API's /readyz asks for a token, the API counts as ready: the worker has
// the same dependencies, and its /readyz needs no token.
func waitReady(ctx context.Context, programs ...app.Health) error {
	for _, program := range programs {
		for {
			if err := program.Check(ctx); err == nil || errors.Is(err, app.ErrTokenNeeded) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func banner(out io.Writer, cfg *config.Config, e dev.Endpoints, logFile string) {
	const none = "(not started here)"
	console := ""
	if *cfg.Console.Enabled {
		console = fmt.Sprintf("  Console          %s%s/\n", app.APIHealth(cfg).URL(), cfg.Console.Prefix())
	}
	_, _ = fmt.Fprintf(out, `
Ready.

%[7]s  Command line     .build/bin/dlqctl --server %[1]s topics list
  REST API         %[1]s/api/v1/dlq
  API reference    %[1]s/docs
  Readiness        %[1]s/readyz
  Metrics          %[1]s/metrics and %[2]s/metrics
  Temporal Web UI  %[3]s
  PostgreSQL       %[4]s
  Kafka            %[5]s
  Logs             %[6]s

Next, in another terminal: make demo
Ctrl-C stops everything; the state is kept.
`, app.APIHealth(cfg).URL(), app.WorkerHealth(cfg).URL(), cmp.Or(e.TemporalUIURL, none), cmp.Or(e.DatabaseURL, none),
		strings.Join(e.Brokers, ","), logFile, console)
}
