package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"dlqmanager/dev"
	"dlqmanager/dev/demo"
)

// runDemo drives a running stack with the shop whose consumer fails.
func runDemo(ctx context.Context, args, environ []string, out io.Writer) error {
	stack, err := dev.StackOptionsFromEnv(lookup(environ))
	if err != nil {
		return err
	}
	getenv := lookup(environ)
	brokers := stack.Brokers
	if len(brokers) == 0 {
		brokers = []string{fmt.Sprintf("127.0.0.1:%d", stack.KafkaPort)}
	}
	options := demo.Options{
		Brokers: brokers, Out: out,
		BaseURL: "http://127.0.0.1:" + orDefault(getenv("DLQ_SERVER_PORT"), "8080"),
		UIURL:   fmt.Sprintf("http://127.0.0.1:%d", stack.TemporalUIPort),
	}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&options.Messages, "messages", 60, "how many dead letters the shop begins with")
	flags.BoolVar(&options.Once, "once", false, "end after those instead of going on")
	flags.StringVar(&options.FixFile, "fix-file", "", "what comes back keeps failing until this file exists")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("demo takes no arguments but flags, not %q", strings.Join(flags.Args(), " "))
	}
	return demo.Run(ctx, options)
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
