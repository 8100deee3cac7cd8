// Package ctl is the command line of the DLQ manager. Of this module it knows the Go client alone, so every command is
// a documented REST call with the caller's own rights.
package ctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// Program is one run of dlqctl.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Interrupts delivers Ctrl-C. A command ends at the first one, except one that follows a job, which asks.
	Interrupts <-chan os.Signal
	Version    string
}

// session is what the commands of one run share.
type session struct {
	Program

	flags struct {
		config, context, server, tokenFile string
		output, jq                         string
		fields                             []string
		timeout                            time.Duration
		yes                                bool
	}
	// started is set once the flags and arguments of a command are right.
	started bool
	retries int  // of a safe request; 0 for the client's default
	away    bool // the API did not answer the last look at a job

	stop func() // frees the time limit of --timeout

	mutex       sync.Mutex
	onInterrupt func()
}

// Run runs one command and returns its exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	s := &session{Program: p, stop: func() {}}
	defer func() { s.stop() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.handleInterrupt(func() { cancel(errInterrupted) })
	go func() {
		for {
			select {
			case <-p.Interrupts:
				s.mutex.Lock()
				handler := s.onInterrupt
				s.mutex.Unlock()
				handler()
			case <-ctx.Done():
				return
			}
		}
	}()
	root := s.root()
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	ran, err := root.ExecuteContextC(ctx)
	if err != nil && !s.started {
		err = usageError{fmt.Errorf("%w\nRun '%s --help' for the usage", err, ran.CommandPath())}
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintln(p.Stderr, "dlqctl:", printable(err.Error()))
		if hint := hintFor(err); hint != "" {
			fmt.Fprintln(p.Stderr, hint)
		}
	}
	return exitCode(err)
}

// handleInterrupt sets what Ctrl-C does.
func (s *session) handleInterrupt(handler func()) {
	s.mutex.Lock()
	s.onInterrupt = handler
	s.mutex.Unlock()
}

func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "dlqctl",
		Short: "Shows dead letters and sends them back",
		Long: `dlqctl shows the dead letters that the DLQ manager keeps, groups them by cause, and sends them back.

It finds its server in this order: --server, --context, DLQ_URL, DLQ_CONTEXT, the current context. A server from --server
or DLQ_URL takes its token from --token-file, DLQ_TOKEN or DLQ_TOKEN_FILE; a context has its own. "dlqctl contexts set --help"
shows how to make a context.

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
		if err := s.checkOutput(); err != nil {
			return err
		}
		s.started = true
		if s.flags.timeout > 0 {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), s.flags.timeout, errTimeOver)
			s.stop = cancel
			cmd.SetContext(ctx)
		}
		return nil
	}
	s.complete(root, "output", fixed(formats...))
	s.complete(root, "context", func(context.Context, *session) []string { return s.contextNames() })

	root.AddCommand(
		s.topicsCommand(), s.groupsCommand(), s.messagesCommand(), s.jobsCommand(), s.retriesCommand(), s.archiveCommand(), s.auditCommand(),
		s.planCommand(), s.applyCommand(), s.exportCommand(), s.listenCommand(),
		s.changeCommand("retry", "Send messages back to their original topic", "PENDING"),
		s.changeCommand("revive", "Make DEAD messages PENDING", "DEAD"),
		s.changeCommand("dead", "Mark messages DEAD, so that no retry takes them", "PENDING"),
		s.changeCommand("delete", "Delete messages", "PENDING, RESOLVED or DEAD"),
		s.changeCommand("restore", "Restore archived messages", "archived"),
		s.topCommand(), s.contextsCommand(), s.meCommand(), s.doctorCommand(),
	)
	return root
}

// group is a noun: a command that has only subcommands.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	noun := &cobra.Command{
		Use: use, Short: short,
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
	noun.SuggestionsMinimumDistance = 2
	noun.AddCommand(verbs...)
	return noun
}
