package app

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"dlqmanager/config"
)

// UsageError is an error in the use of the command line. Its exit code is 2, so that scripts can tell it from other errors.
type UsageError struct {
	// Command is the command to call with -h, such as "dlq-dev demo".
	Command string
	Problem string
}

func (e *UsageError) Error() string {
	return fmt.Sprintf("%s: %s; %s -h shows how to use it", e.Command, e.Problem, e.Command)
}

// AsksForHelp reports whether an argument is a usual request for help.
func AsksForHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

// ParseFlags parses the flags of the command that has the name of the flag set. If help is requested, ParseFlags writes the
// help and returns flag.ErrHelp. Every other error is a *UsageError.
func ParseFlags(flags *flag.FlagSet, args []string, help string, out io.Writer) error {
	flags.SetOutput(io.Discard) // Main prints the error
	flags.Usage = func() {}     // the error names the help
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

// exitCode returns the exit code of an error, and prints the error. A request for help prints nothing more.
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

// About is the part of the help text that differs between services.
type About struct {
	// Does and Stops are sentences. Listens is a list of addresses and paths.
	Does, Listens, Stops string
	// Commands are the commands that only this service has, by name.
	Commands map[string]Subcommand
	// Services are the commands that take the configuration and no arguments, by name.
	Services map[string]Service
	// Usage has a line for each of Commands and Services.
	Usage string
}

func (a About) help(name string) string {
	return fmt.Sprintf(`%[2]s

Usage:
  %[1]s [-config FILE]              run until SIGTERM or Ctrl-C
  %[1]s [-config FILE] healthcheck  exit with 0 if the local %[1]s is ready, for containers
  %[1]s [-config FILE] config       print the configuration in effect, without its secrets
%[6]s  %[1]s version                     print the version
  %[1]s help                        print this

Flags:
  -config FILE  the configuration; default $DLQ_CONFIG, else %[5]s if it exists

Configuration:
  A YAML file and the environment, which overrides it: database.host is DLQ_DATABASE_HOST.
  Unknown keys and variables stop the start. config.yaml of the repository shows every key.

Listens on:
%[3]s

%[4]s A second signal ends it at once.
Exit codes: 0 after a stop, 1 after an error, 2 for a usage error.
`, name, a.Does, a.Listens, a.Stops, config.DefaultPath, a.Usage)
}
