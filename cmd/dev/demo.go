package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/dev"
	"dlqmanager/dev/demo"
)

// runDemo runs a shop with a consumer that fails, against a running stack.
func runDemo(ctx context.Context, args, environ []string, out io.Writer) error {
	var options demo.Options
	flags := flag.NewFlagSet(program+" demo", flag.ContinueOnError)
	flags.IntVar(&options.Messages, "messages", 60, "")
	flags.BoolVar(&options.Once, "once", false, "")
	flags.StringVar(&options.FixFile, "fix-file", "", "")
	if err := app.ParseFlags(flags, args, demoHelp, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return &app.UsageError{Command: flags.Name(), Problem: fmt.Sprintf("it takes no arguments but flags, not %q", flags.Arg(0))}
	}
	getenv := lookup(environ)
	stack, err := dev.StackOptionsFromEnv(getenv)
	if err != nil {
		return err
	}
	options.Brokers, options.Out = stack.Brokers, out
	if len(options.Brokers) == 0 {
		options.Brokers = []string{fmt.Sprintf("127.0.0.1:%d", stack.KafkaPort)}
	}
	options.BaseURL = "http://127.0.0.1:" + cmp.Or(getenv("DLQ_SERVER_PORT"), "8080")
	options.UIURL = fmt.Sprintf("http://127.0.0.1:%d", stack.TemporalUIPort)
	options.ReceiptsAddress = fmt.Sprintf("127.0.0.1:%d", stack.ReceiptsPort)
	if options.ReceiptsSecret, err = demo.ReceiptsSecret(stack.Dir); err != nil {
		return err
	}
	return demo.Run(ctx, options)
}
