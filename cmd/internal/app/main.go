// Package app wires the programs: it makes the parts that the configuration requires, starts them, and stops them in order. No
// package outside cmd knows both the configuration and the configured packages.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"go.yaml.in/yaml/v3"

	"dlqmanager/config"
)

// Version is set when the program is built.
var Version = "dev"

// Program is the body of a main function. args does not include the program's name.
type Program func(ctx context.Context, args, environ []string, out io.Writer) error

// Main runs a program until it ends, and returns its exit code. The first SIGINT or SIGTERM cancels the context, so that the
// program stops in order. A second signal ends the process at once.
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
	return exitCode(run(ctx, os.Args[1:], os.Environ(), os.Stdout), os.Stderr)
}

// Service is a long-running program with a configuration.
type Service func(ctx context.Context, cfg *config.Config, out io.Writer) error

// Subcommand is a command with its own arguments. It may load the configuration.
type Subcommand func(ctx context.Context, args []string, load func() (*config.Config, error), out io.Writer) error

// Command returns a program that reads flags and configuration and runs a service. health returns the address of the service's
// /readyz.
func Command(name string, about About, service Service, health func(*config.Config) Health) Program {
	return func(ctx context.Context, args, environ []string, out io.Writer) error {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		path := flags.String("config", "", "")
		if err := ParseFlags(flags, args, about.help(name), out); err != nil {
			return err
		}
		command := flags.Arg(0)
		load := func() (*config.Config, error) { return config.Load(*path, environ) }
		if run := about.Commands[command]; run != nil {
			return run(ctx, flags.Args()[1:], load, out)
		}
		services := map[string]Service{
			"": withFiles(service), "config": printConfig,
			"healthcheck": func(ctx context.Context, cfg *config.Config, _ io.Writer) error { return health(cfg).Check(ctx) },
		}
		for name, once := range about.Services {
			services[name] = withFiles(once)
		}
		text, isText := map[string]string{"help": about.help(name), "version": Version + "\n"}[command]
		switch {
		case !isText && services[command] == nil:
			return &UsageError{Command: name, Problem: fmt.Sprintf("unknown command %q", command)}
		case flags.NArg() > 1:
			return &UsageError{Command: name, Problem: fmt.Sprintf("%s takes no arguments, not %q", command, flags.Arg(1))}
		case isText: // does not load the configuration, since help must work while it is invalid
			return write(out, text)
		}
		cfg, err := load()
		if err != nil {
			return err
		}
		return services[command](ctx, cfg, out)
	}
}

// withFiles runs a service if the files that the configuration names can be read.
func withFiles(service Service) Service {
	return func(ctx context.Context, cfg *config.Config, out io.Writer) error {
		if err := cfg.CheckFiles(); err != nil {
			return err
		}
		return service(ctx, cfg, out)
	}
}

// printConfig prints the configuration in effect, from defaults, file and environment.
func printConfig(_ context.Context, cfg *config.Config, out io.Writer) error {
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	return errors.Join(encoder.Encode(cfg.Redacted()), encoder.Close())
}
