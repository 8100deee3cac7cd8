package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// shop consumes the events, sends some to dead-letter topics, and reports what it does.
type shop struct {
	client  *kgo.Client
	group   string
	fixFile string

	mu sync.Mutex
	// mu guards out. While brief is set, only one dead letter of each family is printed.
	out    printer
	brief  bool
	shown  map[string]bool
	hidden int
	dead   map[string]int // dead letters by topic
}

// consume runs until ctx ends or the client is closed. It waits for brokers that are
// unavailable.
func (s *shop) consume(ctx context.Context) error {
	for {
		fetches := s.client.PollRecords(ctx, 100)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil //nolint:nilerr // the end of ctx stops the shop
		}
		fetches.EachError(func(topic string, _ int32, err error) { s.say("cannot read %s, trying again: %v", topic, err) })
		// Ordered by time over partitions, for a readable output.
		records := fetches.Records()
		slices.SortStableFunc(records, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
		var dead []*kgo.Record
		for _, r := range records {
			if letter := s.handle(r); letter != nil {
				dead = append(dead, letter)
			}
		}
		// Dead letters are sent before the commit: a record must be either processed or
		// in a dead-letter topic.
		if err := s.client.ProduceSync(ctx, dead...).FirstErr(); err != nil {
			if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
				return nil //nolint:nilerr // as above; records that were not sent are consumed again
			}
			return fmt.Errorf("send %d dead letters: %w", len(dead), err)
		}
		// Offsets that cannot be committed now are committed later, or their records
		// are consumed again.
		if err := s.client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			s.say("cannot commit, trying again: %v", err)
		}
	}
}

// handle returns the dead letter of a record that fails, or nil.
func (s *shop) handle(r *kgo.Record) *kgo.Record {
	n, name, f := process(r)
	id, count := retryHeaders(r)
	back := ""
	if id != "" {
		back = fmt.Sprintf(" came back (dlq-message-id %s, retry %s)", id, count)
	}
	switch {
	case f == nil, id != "" && !f.permanent && s.fixed():
		if id != "" {
			s.say("%s%s: processed", name, back)
		}
		return nil
	case id != "":
		back += ": failed again"
	}
	framework := familyOf(r.Topic, n)
	letter := deadLetter(r, framework, *f, s.group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[letter.Topic]++
	if s.brief && s.shown[framework.name] {
		s.hidden++
		return letter
	}
	s.shown[framework.name] = true
	s.out.line("  %s%s: %s\n      → %s (headers of %s)", name, back, f.message, letter.Topic, framework.name)
	return letter
}

// retryHeaders returns the manager's id and retry count of a record that was sent back.
// Both are empty for a new record.
func retryHeaders(r *kgo.Record) (id, count string) {
	for _, header := range r.Headers {
		switch header.Key {
		case "dlq-message-id":
			id = string(header.Value)
		case "dlq-retry-count":
			count = string(header.Value)
		}
	}
	return id, count
}

// deadLetter is the record as a service's framework sends it to a dead-letter topic: key, value and
// headers unchanged, and the framework's headers. A pointer has only the framework's headers.
func deadLetter(r *kgo.Record, framework family, f failure, group string) *kgo.Record {
	letter := &kgo.Record{Key: r.Key, Value: r.Value}
	for _, route := range routes {
		if route.topic == r.Topic {
			letter.Topic = route.dlq
		}
	}
	added := framework.headers(r, f, group)
	switch {
	case framework.pointer:
		letter.Key, letter.Value, letter.Headers = nil, nil, added
	case framework.first:
		letter.Headers = slices.Concat(added, r.Headers)
	default:
		letter.Headers = slices.Concat(r.Headers, added)
	}
	return letter
}

// fixed reports whether the shop's bug is fixed.
func (s *shop) fixed() bool {
	if s.fixFile == "" {
		return true
	}
	_, err := os.Stat(s.fixFile)
	return err == nil
}

func (s *shop) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.line("  "+format, args...)
}
