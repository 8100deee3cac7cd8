package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"dlqmanager/config"
)

// UsageError says that a program was called wrongly. Its exit code is 2, so that
// scripts can tell it from a failure of the program.
type UsageError struct {
	// Command is the one whose -h helps, such as "dlq-dev demo".
	Command string
	Problem string
}

func (e *UsageError) Error() string {
	return fmt.Sprintf("%s: %s; %s -h shows how to use it", e.Command, e.Problem, e.Command)
}

// AsksForHelp tells whether an argument does, in any of the usual ways.
func AsksForHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

// ParseFlags reads flags, whose set has the name of the command. Where they ask for
// help it writes that and returns flag.ErrHelp. Every other error is a *UsageError.
func ParseFlags(flags *flag.FlagSet, args []string, help string, out io.Writer) error {
	flags.SetOutput(io.Discard) // Main writes the error
	flags.Usage = func() {}     // and errors point to the help
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return errors.Join(err, write(out, help))
	}
	if err != nil {
		return &UsageError{Command: flags.Name(), Problem: err.Error()}
	}
	return nil
}

func write(out io.Writer, text string) error {
	_, err := io.WriteString(out, text)
	return err
}

// exitCode writes an error, unless it is the wish for help, and returns the exit
// code that it stands for.
func exitCode(err error, out io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintln(out, err)
	if _, wrongly := errors.AsType[*UsageError](err); wrongly {
		return 2
	}
	return 1
}

// About is what the help of a service says of it alone.
type About struct {
	// Does and Stops are sentences; Listens is where, and what is served there.
	Does, Listens, Stops string
}

func (a About) help(name string) string {
	return fmt.Sprintf(`%[2]s

Usage:
  %[1]s [-config FILE]              run until SIGTERM or Ctrl-C
  %[1]s [-config FILE] healthcheck  exit with 0 when the %[1]s that runs here is ready, for containers
  %[1]s version                     print the version
  %[1]s help                        print this

Flags:
  -config FILE  the configuration; default $DLQ_CONFIG, else %[5]s if it exists

Configuration:
  A YAML file and the environment, which wins: database.host is DLQ_DATABASE_HOST.
  Unknown keys and variables stop the start. config.yaml of the repository shows every key.

Listens on:
%[3]s

%[4]s A second signal ends it at once.
Exit codes: 0 after a stop, 1 after an error, 2 for a wrong call.
`, name, a.Does, a.Listens, a.Stops, config.DefaultPath)
}
