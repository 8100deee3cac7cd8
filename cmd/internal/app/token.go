package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"dlqmanager/auth"
	"dlqmanager/config"
	"dlqmanager/dlq"
)

const createHelp = `dlq-api token new creates a static token for auth.mode token. It prints the token, which is
stored nowhere, and the entry for the file that auth.tokens_file names. The entry has only a hash.

Usage:
  dlq-api token new -name NAME -role ROLE [-topics GLOBS] [-expires DURATION] [-file FILE]

Flags:
  -name NAME         who uses the token; the audit shows it
  -role ROLE         viewer, operator or admin
  -topics GLOBS      dead-letter topics, such as orders.*,payments.*; default all
  -expires DURATION  such as 90d or 12h; default never
  -file FILE         append the entry to this file, which is made if it is missing, and print only
                     the token

The API reads the file again when it changes. To revoke a token, remove its entry.
`

// Token runs dlq-api token.
func Token(_ context.Context, args []string, _ func() (*config.Config, error), out io.Writer) error {
	const name = "dlq-api token"
	if len(args) == 0 || args[0] != "new" {
		if len(args) > 0 && AsksForHelp(args[0]) {
			return errors.Join(flag.ErrHelp, write(out, createHelp))
		}
		return &UsageError{Command: name, Problem: `the only command is "new"`}
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	var entry auth.Entry
	flags.StringVar(&entry.Name, "name", "", "")
	flags.StringVar((*string)(&entry.Role), "role", "", "")
	file := flags.String("file", "", "")
	flags.Func("topics", "", func(text string) error {
		entry.Topics = strings.Split(text, ",")
		for i := range entry.Topics {
			entry.Topics[i] = strings.TrimSpace(entry.Topics[i])
		}
		return nil
	})
	flags.Func("expires", "", func(text string) error {
		duration, err := config.ParseDuration(text)
		if err == nil && duration == 0 {
			err = errors.New("must be longer than 0")
		}
		entry.Expires = time.Now().Add(duration.Std())
		return err
	})
	if err := ParseFlags(flags, args[1:], createHelp, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return &UsageError{Command: name, Problem: fmt.Sprintf("unexpected argument %q", flags.Arg(0))}
	}
	for _, required := range []struct{ flag, value string }{{"-name", entry.Name}, {"-role", string(entry.Role)}} {
		if required.value == "" {
			return &UsageError{Command: name, Problem: required.flag + " is required"}
		}
	}
	return createToken(entry, *file, out)
}

func createToken(entry auth.Entry, file string, out io.Writer) error {
	if _, err := dlq.NewGrant(entry.Role, entry.Topics); err != nil {
		return err
	}
	token := auth.NewToken()
	text, err := entry.Marshal(token)
	if err != nil {
		return err
	}
	if file == "" {
		return write(out, token+"\n\n"+string(text))
	}
	if err := auth.Append(file, text); err != nil {
		return err
	}
	return write(out, token+"\n")
}
