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

// shop consumes the events, gives up on some, and tells what it does.
type shop struct {
	client  *kgo.Client
	group   string
	fixFile string

	mu sync.Mutex
	// out is written to under mu. brief shows one dead letter of each family.
	out    printer
	brief  bool
	shown  map[string]bool
	hidden int
	dead   map[string]int // dead letters by topic
}

// consume runs until ctx ends or the client is closed. A broker that goes away
// for a while is waited for.
func (s *shop) consume(ctx context.Context) error {
	for {
		fetches := s.client.PollRecords(ctx, 100)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil //nolint:nilerr // the end of ctx is how the shop is closed
		}
		fetches.EachError(func(topic string, _ int32, err error) { s.say("cannot read %s, trying again: %v", topic, err) })
		// In the order of the events, as far as partitions allow: it reads better.
		records := fetches.Records()
		slices.SortStableFunc(records, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
		var dead []*kgo.Record
		for _, r := range records {
			if letter := s.handle(r); letter != nil {
				dead = append(dead, letter)
			}
		}
		// The dead letters first: a record is done with once it is either
		// processed or safe in a dead-letter topic.
		if err := s.client.ProduceSync(ctx, dead...).FirstErr(); err != nil {
			if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
				return nil //nolint:nilerr // as above; what was not sent is consumed again
			}
			return fmt.Errorf("send %d dead letters: %w", len(dead), err)
		}
		// What is not committed now is with the next lot, or consumed again.
		if err := s.client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			s.say("cannot commit, trying again: %v", err)
		}
	}
}

// handle returns the dead letter that the record becomes, or nil.
func (s *shop) handle(r *kgo.Record) *kgo.Record {
	n, name, f := process(r)
	id, count := comingBack(r)
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
	way := families[n%len(families)]
	letter := deadLetter(r, way, *f, s.group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[letter.Topic]++
	if s.brief && s.shown[way.name] {
		s.hidden++
		return letter
	}
	s.shown[way.name] = true
	s.out.line("  %s%s: %s\n      → %s (headers of %s)", name, back, f.message, letter.Topic, way.name)
	return letter
}

// comingBack tells the manager's id of a record that it sent back; empty for
// one that is here for the first time.
func comingBack(r *kgo.Record) (id, count string) {
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

// deadLetter is the record as the framework of one of the services sends it
// away: key, value and headers as they came, and the framework's headers.
func deadLetter(r *kgo.Record, way family, f failure, group string) *kgo.Record {
	letter := &kgo.Record{Key: r.Key, Value: r.Value}
	for _, route := range routes {
		if route.topic == r.Topic {
			letter.Topic = route.dlq
		}
	}
	added := way.headers(r, f, group)
	if way.first {
		letter.Headers = slices.Concat(added, r.Headers)
	} else {
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
