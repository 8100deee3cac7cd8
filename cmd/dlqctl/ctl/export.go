package ctl

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

var exportView = view{noun: "messages", sample: client.MessageLine{}, columns: []column{
	{"", "id"}, {"", "dlq_topic"}, {"", "status"}, {"", "created_at"}, {"", "original_topic"}, {"", "retry_count"}, {"", "error_class"},
	{"", "error_message"}, {"", "key.text"}, {"", "key.base64"}, {"", "value.text"}, {"", "value.base64"},
}}

// exportFlags are the flags that select the messages of an export.
type exportFlags struct {
	filters *pflag.FlagSet
	limit   int64
	cursor  string
	// goesOn makes an export outlast an outage from its beginning on.
	goesOn bool
}

func (s *session) exportFlags(cmd *cobra.Command, limit int64) *exportFlags {
	f := &exportFlags{filters: s.addFilters(cmd)}
	cmd.Flags().Int64Var(&f.limit, "limit", limit, "at most so many messages; 0 for all")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "continue after the message that has this cursor")
	cmd.ValidArgsFunction = s.arguments(completeTopics)
	return f
}

func (s *session) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export TOPIC", Short: "Write whole messages as JSON lines or CSV, the oldest first", Args: argumentsOf("export TOPIC"),
		Long: `Writes whole messages, the oldest first: with -o jsonl (the default) every line is a message of the contract, with the exact bytes
of its key, value and headers in base64. With -o csv it has the columns of --fields; texts that a spreadsheet would take for a formula
begin with a '. The audit records who exported what.

If the API goes away in the middle, dlqctl continues where it stopped. After Ctrl-C or an error it prints the cursor to continue at.`,
		Example: `  dlqctl export orders.dlq.v1 --status DEAD > dead.jsonl
  dlqctl export orders.dlq.v1 -o csv --fields id,error_message,value.text > dead.csv`,
	}
	f := s.exportFlags(cmd, 0)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("output") {
			s.flags.output = formatJSONL
		}
		if s.flags.output != formatJSONL && s.flags.output != formatCSV {
			return usageError{errors.New("an export is written with -o jsonl or -o csv")}
		}
		return nil
	}
	cmd.RunE = s.showing(exportView, func(cmd *cobra.Command, args []string, p *printer) error {
		buffered := bufio.NewWriterSize(s.out, 64<<10)
		p.out = buffered
		cursor, err := s.export(cmd.Context(), args[0], f, func(m client.ExportedMessage) error { return p.record(cmd.Context(), m.Raw) })
		if err = errors.Join(err, p.end(), buffered.Flush()); err != nil && cursor != "" {
			s.note("Continue with --cursor " + cursor)
		}
		return err
	})
	return cmd
}

// longestPause limits the pause between two attempts to continue an export.
const longestPause = 10 * time.Second

// export reads messages until the end, and calls take with each message. It continues after an outage of the API. It returns
// the cursor after the last message that take has accepted.
func (s *session) export(ctx context.Context, topic string, f *exportFlags, take func(client.ExportedMessage) error) (string, error) {
	query, err := parametersOf(f.filters)
	if err != nil {
		return "", err
	}
	if f.limit < 0 {
		return "", usageError{fmt.Errorf("--limit is 0 or more, not %d", f.limit)}
	}
	cursor, taken, pause := f.cursor, int64(0), time.Second
	for {
		var end client.EndLine
		params := &client.ExportMessagesParams{Cursor: given(cursor)}
		if f.limit > 0 {
			params.Limit = new(f.limit - taken)
		}
		var failed error
		for message, err := range s.client.Export(ctx, topic, params, client.Queries(query), client.SeeEnd(&end)) {
			if failed = err; err != nil {
				break
			}
			s.unreachable(nil)
			if err := take(message); err != nil {
				return cursor, err
			}
			cursor, pause = message.Cursor, time.Second
			taken++
		}
		switch {
		case failed == nil:
			return cmp.Or(end.End.Cursor, cursor), nil
		case f.limit > 0 && taken >= f.limit:
			return cursor, nil
		case taken == 0 && !f.goesOn || ctx.Err() != nil || !passes(failed):
			return cursor, failed
		}
		s.unreachable(failed)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return cursor, ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
}

// passes tells whether a failure may pass by itself, because the API is away, stopping or busy.
func passes(err error) bool {
	passing := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout}
	failed, answered := errors.AsType[*client.APIError](err)
	return !answered || slices.Contains(passing, failed.Status) ||
		failed.Code == client.ErrorCodeUnavailable // an export reports an error in a line, after status 200
}
