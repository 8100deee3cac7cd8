// Command dlqctl is the command line of the DLQ manager. It calls the REST API with the caller's own rights.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"dlqmanager/cmd/dlqctl/ctl"
)

// Version is set when the program is built.
var Version = "dev"

func main() {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	program := ctl.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Interrupts: interrupts, Version: Version,
	}
	os.Exit(program.Run(context.Background(), os.Args[1:]))
}
