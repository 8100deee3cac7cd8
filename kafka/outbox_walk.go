package kafka

import (
	"errors"
	"fmt"
	"math"
	"time"

	"dlqmanager/dlq"
)

// archiveMaxWait is the longest wait before a topic gets another turn.
const archiveMaxWait = 3 * time.Minute

// walk goes through the outbox of a topic, in one turn or several, and passes over messages
// that fail, and the next walk tries them again. So they block no other.
type walk struct {
	after  dlq.Exhausted // the last message that was passed
	failed bool          // a message failed
	wait   time.Duration // after the next failure
	due    time.Time
	logged logged
}

func newWalk() *walk { return &walk{after: dlq.Exhausted{Seq: math.MinInt64}} }

// end begins the next walk. After a failure the next walk waits, and does not log the same errors again.
func (w *walk) end() {
	next := newWalk()
	if w.failed {
		w.delay()
		next.wait, next.due, next.logged = w.wait, w.due, w.logged
	}
	*w = *next
}

// delay lets the topic wait before its next turn: not after the first failure, then twice as
// long after each.
func (w *walk) delay() {
	w.due = time.Now().Add(w.wait)
	w.wait = min(max(2*w.wait, archiveInterval), archiveMaxWait)
}

// pass moves beyond a page, and reports whether the turn goes on: when nothing of a page was
// published, although the archive topic did not refuse the records themselves, later pages
// are unlikely to succeed now.
func (w *walk) pass(page []dlq.Exhausted, errs []error, found *problems) bool {
	last := page[len(page)-1]
	w.after = dlq.Exhausted{Seq: last.Seq, ID: last.ID}
	moved, unavailable := false, false
	for i, err := range errs {
		if err == nil {
			moved = true
			continue
		}
		w.failed = true
		unavailable = unavailable || dlq.CategoryOf(err) != dlq.CategoryBadData
		found.add(w.logged.news(fmt.Errorf("message %s: %w", page[i].ID, err)))
	}
	if !moved && unavailable {
		w.delay()
		return false
	}
	return true
}

// logged are the categories of the errors that are in the log already.
type logged map[dlq.Category]bool

// news returns the first error of each category.
func (l *logged) news(err error) error {
	category := dlq.CategoryOf(err)
	if err == nil || (*l)[category] {
		return nil
	}
	if *l == nil {
		*l = logged{}
	}
	(*l)[category] = true
	return err
}

// problems are errors of different topics. Only the first few are reported.
type problems struct {
	first []error
	more  int
}

func (p *problems) add(err error) {
	switch {
	case err == nil:
	case len(p.first) < 5:
		p.first = append(p.first, err)
	default:
		p.more++
	}
}

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.first, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.first...)
}
