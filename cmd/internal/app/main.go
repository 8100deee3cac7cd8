// Package app wires the programs: it builds the parts that the configuration
// asks for, starts them, and stops them in order. It is the only place that
// knows both the configuration and everything that is configured.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dlqmanager/config"
)

// Version is set by the build.
var Version = "dev"

// Program is the body of a main function. args has no program name.
type Program func(ctx context.Context, args, environ []string, out io.Writer) error

// Main runs a program until it ends or a signal stops it, and returns its exit
// code. SIGINT and SIGTERM cancel its context and give it time to stop in
// order; a second one ends the process at once.
func Main(run Program) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "second signal: ending at once")
		os.Exit(130)
	}()
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Service is a long-running program with a configuration.
type Service func(ctx context.Context, cfg *config.Config, out io.Writer) error

// Command makes a service a program: it reads the flags and the configuration.
// address tells where the service answers /readyz, for the health check.
func Command(name string, service Service, address func(*config.Config) string) Program {
	return func(ctx context.Context, args, environ []string, out io.Writer) error {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.SetOutput(out)
		path := flags.String("config", "", "configuration file (default $DLQ_CONFIG, else "+config.DefaultPath+" if it exists)")
		flags.Usage = func() {
			_, _ = fmt.Fprintf(out, "Usage: %s [-config FILE] [healthcheck | version]\n\n", name)
			flags.PrintDefaults()
			_, _ = fmt.Fprintln(out, "\nEvery key can be set from the environment, such as DLQ_DATABASE_HOST.")
		}
		if err := flags.Parse(args); err != nil {
			return err
		}
		if flags.Arg(0) == "version" {
			_, err := fmt.Fprintln(out, Version)
			return err
		}
		cfg, err := config.Load(*path, environ)
		if err != nil {
			return err
		}
		switch flags.Arg(0) {
		case "":
			if err := cfg.CheckFiles(); err != nil {
				return err
			}
			return service(ctx, cfg, out)
		case "healthcheck":
			return healthcheck(ctx, address(cfg))
		default:
			return fmt.Errorf("unknown command %q: use %s, %s healthcheck or %s version", flags.Arg(0), name, name, name)
		}
	}
}

// healthcheck asks the running service whether it is ready. It is for
// containers, whose image has no shell.
func healthcheck(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", body)
	}
	return nil
}
