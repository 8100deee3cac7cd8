package ctl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

// listenEvery is the time between two looks for new messages. deliveryTimeout limits one delivery. It is long, because the
// process may stop at a breakpoint.
const (
	listenEvery     = 2 * time.Second
	deliveryTimeout = 10 * time.Minute
)

func (s *session) listenCommand() *cobra.Command {
	var to string
	var follow, value bool
	cmd := &cobra.Command{
		Use: "listen TOPIC", Short: "Try a fix: deliver dead letters to a process on this machine", Args: argumentsOf("listen TOPIC"),
		Long: `Delivers dead letters, the oldest first, by POST to a process on this machine, one at a time, so that a fix is tried on real failures.
Nothing changes in the store and nothing goes to Kafka. The body is the message as in an export, or with --value the bytes of its value;
the header Dlq-Message-Id has its id. With --follow it goes on with the messages that arrive. The audit records who read what.

Exit code 3: the process has refused a message, by an answer other than 2xx.`,
		Example: `  dlqctl listen orders.dlq.v1 --to http://127.0.0.1:3000/dead-letters --id 01a214f0-d99b-85ca-9c4b-208d64cffa24
  dlqctl listen orders.dlq.v1 --to http://127.0.0.1:3000/dead-letters --group 8f2cc0a3-5784-8865-a08b-a01afce8da16
  dlqctl listen orders.dlq.v1 --to http://localhost:3000/ --value --limit 0 --follow`,
	}
	f := s.exportFlags(cmd, 10)
	cmd.Flags().StringVar(&to, "to", "", "address of the process, on the loopback interface")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with the messages that arrive, until Ctrl-C or --limit")
	cmd.Flags().BoolVar(&value, "value", false, "send the bytes of the value instead of the whole message")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address, err := loopback(to)
		if err != nil {
			return usageError{err}
		}
		if err := s.connect(); err != nil {
			return err
		}
		d := &deliverer{session: s, to: address, value: value, client: &http.Client{
			Timeout:       deliveryTimeout,
			Transport:     &http.Transport{}, // without a proxy
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		limit, recent := f.limit, &recentMessages{from: f.cursor, ids: map[string]bool{}}
		isDone := func() bool { return limit > 0 && d.delivered >= limit }
		for tag := ""; ; {
			if follow {
				if tag, err = s.awaitChange(cmd.Context(), args[0], f.filters, tag); err != nil {
					return err
				}
			}
			if f.cursor = recent.from; limit > 0 {
				f.limit = limit - d.delivered + int64(len(recent.ids))
			}
			_, err = s.export(cmd.Context(), args[0], f, func(m client.ExportedMessage) error {
				if isDone() || !recent.add(&m) {
					return nil
				}
				return d.deliver(cmd.Context(), m)
			})
			if err != nil || !follow || isDone() {
				return cmp.Or(err, d.outcome())
			}
			f.goesOn = true // the first export has shown that the request is allowed
		}
	}
	return cmd
}

// latest is the time that may pass between created_at of a message and the commit of its transaction, which makes it visible.
const latest = 30 * time.Second

// recentMessages remembers the messages of the last moments. The next export begins before them, so that it misses no message,
// and shows them again.
type recentMessages struct {
	from     string // the cursor before the oldest message in messages
	messages []client.ExportedMessage
	ids      map[string]bool
}

// add remembers a message. It returns false if the message is known.
func (r *recentMessages) add(m *client.ExportedMessage) bool {
	if r.ids[m.ID] {
		return false
	}
	r.ids[m.ID] = true
	short := client.ExportedMessage{}
	short.ID, short.CreatedAt, short.Cursor = m.ID, m.CreatedAt, m.Cursor
	r.messages = append(r.messages, short)
	for m.CreatedAt.Sub(r.messages[0].CreatedAt) > latest {
		r.from = r.messages[0].Cursor
		delete(r.ids, r.messages[0].ID)
		r.messages = r.messages[1:]
	}
	return true
}

// loopback checks that an address is on this machine, because production messages must not leave it.
func loopback(address string) (string, error) {
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return "", errors.New("--to is the address of a process on this machine, such as http://127.0.0.1:3000/dead-letters")
	}
	host := to.Hostname()
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("--to %s: messages are delivered to this machine only: use 127.0.0.1, [::1] or localhost", address)
	}
	return to.String(), nil
}

// awaitChange waits until the list of matching messages differs from the list with the ETag tag. It returns the new ETag. The
// audit records exports, but not these requests.
func (s *session) awaitChange(ctx context.Context, topic string, filters *pflag.FlagSet, tag string) (string, error) {
	query, err := parametersOf(filters)
	if err != nil {
		return "", err
	}
	options := []client.RequestOption{client.Queries(query), client.Query("page_size", "1")}
	if tag != "" {
		options = append(options, client.Header("If-None-Match", tag))
	}
	for {
		answer, err := s.client.ListMessages(ctx, topic, nil, options...)
		if err == nil && !answer.NotModified() {
			return answer.ETag(), nil
		}
		if err != nil && (tag == "" || !passes(err)) {
			return "", err
		}
		s.unreachable(err)
		select {
		case <-time.After(listenEvery):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// deliverer posts messages to a process on this machine.
type deliverer struct {
	session            *session
	client             *http.Client
	to                 string
	value              bool
	delivered, refused int64
}

func (d *deliverer) deliver(ctx context.Context, m client.ExportedMessage) error {
	content, kind := []byte(m.Raw), "application/json"
	if d.value {
		content, kind = nil, "application/octet-stream"
		if m.Value != nil {
			content = m.Value.Base64
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.to, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Dlq-Message-Id", m.ID)
	began := time.Now()
	answer, err := d.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("nothing was delivered to %s; is the process running? %w", d.to, err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 200)) // an error needs only the beginning of the text
	d.delivered++
	line := fmt.Sprintf("%s  %d  %s", m.ID, answer.StatusCode, time.Since(began).Round(time.Millisecond))
	if answer.StatusCode/100 != 2 {
		d.refused++
		line += "  " + oneLine(string(said))
	}
	_, err = fmt.Fprintln(d.session.out, line)
	return err
}

func (d *deliverer) outcome() error {
	if d.refused > 0 {
		return outcome{exitPartly, fmt.Sprintf("%s of %s were refused", thousands(d.refused), messages(d.delivered))}
	}
	if d.delivered == 0 {
		d.session.note("No message matches.")
	}
	return nil
}
