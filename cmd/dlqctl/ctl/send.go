package ctl

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

// A request has at most lettersAtOnce messages and bytesAtOnce bytes. A message with more bytes has a request of its own. The
// server's default limit of a body is 1 MiB.
const (
	lettersAtOnce = 100
	bytesAtOnce   = 512 << 10
)

var handedInView = view{noun: "messages", list: "messages", sample: client.HandedIn_Messages{}, columns: []column{{"ID", "id"}}}

func (s *session) sendCommand() *cobra.Command {
	var file string
	var skip int64
	cmd := &cobra.Command{
		Use: "send TOPIC", Short: "Hand in dead letters, as a service without Kafka does", Args: argumentsOf("send TOPIC"),
		Long: `Hands in the messages of a file, one JSON object a line: value or value_base64, key or key_base64, headers, error, origin, attempts.
They go in batches, each with an idempotency key, so that a repeated request stores nothing twice. After an error it says how many were
handed in: mend the file or wait, and continue with --skip.`,
		Example: `  echo '{"value": {"order": 7}, "error": {"message": "no stock"}, "origin": {"topic": "orders.v1"}}' | dlqctl messages send orders.dlq.v1
  dlqctl messages send orders.dlq.v1 --file letters.jsonl`,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "-", "file with JSON lines; - for the standard input")
	cmd.Flags().Int64Var(&skip, "skip", 0, "leave out so many messages at the beginning, which were handed in before")
	cmd.ValidArgsFunction = s.arguments(completeTopics)
	cmd.RunE = s.showing(handedInView, func(cmd *cobra.Command, args []string, p *printer) error {
		from, err := s.open(file)
		if err != nil {
			return fmt.Errorf("the messages: %w", err)
		}
		defer from.Close()
		if s.target.Production {
			question := "The messages of " + file + " are stored as dead letters of " + args[0] + "."
			if err := s.confirm(cmd.Context(), question, args[0]); err != nil {
				return err
			}
		}
		out := bufio.NewWriter(s.out)
		p.out = out
		sent, err := s.handIn(cmd.Context(), args[0], &letters{decoder: json.NewDecoder(from)}, skip, p)
		if err != nil && sent > 0 {
			err = fmt.Errorf("%s were handed in, continue with --skip %d: %w", messages(sent), sent, err)
		}
		return errors.Join(err, p.end(), out.Flush())
	})
	return cmd
}

// handIn hands messages in, batch by batch. sent is the number of messages of the file that are stored. It includes the
// messages that were skipped.
func (s *session) handIn(ctx context.Context, topic string, l *letters, skip int64, p *printer) (sent int64, err error) {
	for ; sent < skip; sent++ {
		if _, err := l.next(); err != nil {
			return 0, usageError{fmt.Errorf("--skip %d: %w", skip, err)}
		}
	}
	run, size := rand.Text(), 0
	var batch []json.RawMessage
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		request, err := as[client.HandInRequest](map[string]any{"messages": batch})
		if err != nil {
			return err
		}
		key := fmt.Sprintf("dlqctl-%s-%d", run, sent)
		answer, err := s.client.HandIn(ctx, topic, &client.HandInParams{IdempotencyKey: &key}, request)
		if err != nil {
			return err
		}
		sent += int64(len(batch))
		batch, size = nil, 0
		return p.page(ctx, answer.Body)
	}
	for {
		letter, err := l.next()
		switch {
		case errors.Is(err, io.EOF) && l.read == 0:
			return 0, usageError{errors.New("there are no messages: give JSON objects, one a line")}
		case errors.Is(err, io.EOF):
			err = send()
			return sent, err
		case err != nil:
			return sent, usageError{err}
		case size+len(letter) > bytesAtOnce:
			err = send()
		}
		batch, size = append(batch, letter), size+len(letter)
		if err == nil && len(batch) == lettersAtOnce {
			err = send()
		}
		if err != nil {
			return sent, err
		}
	}
}

// letters reads messages from JSON lines.
type letters struct {
	decoder *json.Decoder
	read    int64
}

func (l *letters) next() (json.RawMessage, error) {
	var letter json.RawMessage
	err := l.decoder.Decode(&letter)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	l.read++
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", l.read, err)
	}
	if letter[0] != '{' {
		return nil, fmt.Errorf("message %d is no JSON object", l.read)
	}
	return letter, nil
}
