// Package ctl is the command line of the DLQ manager. It imports only two packages of this module: the Go client, and the
// console for its pages. So every command makes documented REST calls with the caller's own rights.
package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// Program is one run of dlqctl.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Interrupts delivers the signals that end a command. At os.Interrupt (Ctrl-C), a command that follows a job asks what to do.
	Interrupts <-chan os.Signal
	Version    string
}

// session has the state of one run, which all commands share.
type session struct {
	Program

	flags struct {
		config, context, server, tokenFile string
		output, jq                         string
		fields                             []string
		timeout                            time.Duration
		yes                                bool
	}
	// started is set once the flags and arguments of a command are known to be valid.
	started bool
	retries int // client.Config.Retries
	client  *client.Client
	target  target // the server of the client
	name    string // the name of the context; empty if flags or the environment name the target
	away    bool   // the API did not answer the last request
	drawn   bool   // the cursor is at the end of a progress bar
	out     *output

	onInterrupt atomic.Pointer[func()]  // the handler of Ctrl-C
	end         context.CancelCauseFunc // ends the command
}

// output is the standard output. It keeps its first error, since some callers ignore the errors of writes.
type output struct {
	io.Writer

	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// grace limits how long a command may take to end after an interrupt or a time-out.
const grace = 300 * time.Millisecond

// Run runs one command and returns its exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	s := &session{Program: p, out: &output{Writer: p.Stdout}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.end = cancel
	s.handleInterrupt(func() { cancel(errInterrupted) })
	go s.hearSignals(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.execute(ctx, args) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(grace): // the command waits for a terminal or a pipe, which ignores the context
			err = context.Cause(ctx)
		}
	}
	if _, told := errors.AsType[outcome](err); err != nil && !told && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx) // err is only an effect, such as "signal: killed"
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintln(p.Stderr, "dlqctl:", printable(err.Error()))
		if hint := hints[exitCode(err)]; hint != "" {
			fmt.Fprintln(p.Stderr, hint)
		}
	}
	return exitCode(err)
}

// execute runs the command that args name.
func (s *session) execute(ctx context.Context, args []string) error {
	root := s.root()
	root.SetArgs(args)
	root.SetIn(s.Stdin)
	root.SetOut(s.out)
	root.SetErr(s.Stderr)
	ran, err := root.ExecuteContextC(ctx)
	s.endLine()
	if err != nil && !s.started && s.out.err == nil {
		return usageError{fmt.Errorf("%w\nRun '%s --help' for the usage", err, ran.CommandPath())}
	}
	return cmp.Or(err, s.out.err)
}

// hearSignals ends the command at a signal. A command may set a handler for Ctrl-C, which asks the person what to do.
func (s *session) hearSignals(ctx context.Context) {
	for {
		select {
		case heard := <-s.Interrupts:
			if heard != os.Interrupt {
				s.end(errInterrupted)
			} else {
				(*s.onInterrupt.Load())()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) handleInterrupt(handler func()) { s.onInterrupt.Store(&handler) }

// Command is the root command. cmd/dlqctl/man makes the manual pages from it.
func Command() *cobra.Command { return (&session{}).root() }

func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dlqctl",
		Short: "Shows dead letters and sends them back",
		Long: `dlqctl shows the dead letters that the DLQ manager keeps, groups them by cause, and sends them back.

It finds its server in this order: --server or --context, DLQ_URL, DLQ_CONTEXT, the current context. A server from --server
or DLQ_URL takes its token from --token-file, DLQ_TOKEN or DLQ_TOKEN_FILE; a context has its own. The host and port of a
production context are production, however they are given. "dlqctl contexts set --help" shows how to make a context.

With -o json a list is what the server answers, once for each page of 200 records. With --fields or -o jsonl it is a line
for each record.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with failures or with messages that came back, 4 not signed in,
5 changed since the plan or the plan has expired, 124 the time of --timeout is over, 130 interrupted.`,
		Example: `  dlqctl topics list
  dlqctl groups list --topic orders.dlq.v1 --sort pending
  dlqctl retry orders.dlq.v1 --group 8f2cc0a3-5784-8865-a08b-a01afce8da16 --reason "the bug is fixed"`,
		Version:       s.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("dlqctl {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&s.flags.config, "config", "", "file of the contexts (default: DLQCTL_CONFIG, or dlqctl/config.yaml in the user's configuration folder)")
	flags.StringVar(&s.flags.context, "context", "", "context to use instead of the current one")
	flags.StringVar(&s.flags.server, "server", "", "address of the server, such as https://dlq.example.com")
	flags.StringVar(&s.flags.tokenFile, "token-file", "", "file with the token for --server or DLQ_URL")
	flags.StringVarP(&s.flags.output, "output", "o", formatTable, "output format: "+strings.Join(formats, ", "))
	flags.StringSliceVar(&s.flags.fields, "fields", nil, "fields to show, by their names in the JSON, such as id,counts.PENDING")
	flags.StringVar(&s.flags.jq, "jq", "", "jq expression to apply to the JSON of the answer")
	flags.DurationVar(&s.flags.timeout, "timeout", 0, "longest time of the whole command, such as 5m; exit code 124 when it is over")
	flags.BoolVarP(&s.flags.yes, "yes", "y", false, "do not ask before a change")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(s.checkOutput(), cmd.ValidateFlagGroups()); err != nil {
			return err
		}
		if s.flags.timeout < 0 {
			return fmt.Errorf("--timeout is 0 for no limit or more, not %s", s.flags.timeout)
		}
		s.started = true
		if s.flags.timeout > 0 {
			time.AfterFunc(s.flags.timeout, func() { s.end(errTimeOver) })
		}
		return nil
	}
	s.complete(root, "output", fixed(formats...))
	s.complete(root, "context", func(context.Context, *session) []string { return s.contextNames() })

	root.AddCommand(
		s.topicsCommand(), s.groupsCommand(), s.messagesCommand(), s.jobsCommand(), s.retriesCommand(), s.archiveCommand(), s.auditCommand(),
		s.planCommand(), s.applyCommand(), s.exportCommand(), s.fixtureCommand(), s.listenCommand(),
		s.changeCommand("retry", "Send messages back to their original topic", "PENDING"),
		s.changeCommand("revive", "Make DEAD messages PENDING", "DEAD"),
		s.changeCommand("dead", "Mark messages DEAD, so that no retry takes them", "PENDING"),
		s.changeCommand("delete", "Delete messages", "PENDING, RESOLVED or DEAD"),
		s.changeCommand("restore", "Restore archived messages", "archived"),
		s.topCommand(), s.consoleCommand(), s.contextsCommand(), s.loginCommand(), s.logoutCommand(), s.meCommand(), s.doctorCommand(),
	)
	return root
}

// group makes the command of a noun, which has only subcommands.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	noun := &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return fmt.Errorf("%s", text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	noun.AddCommand(verbs...)
	return noun
}
