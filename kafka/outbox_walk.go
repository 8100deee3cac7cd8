package kafka

import (
	"math"
	"time"

	"dlqmanager/dlq"
)

// archiveMaxWait is the longest wait before a topic gets another turn.
const archiveMaxWait = 3 * time.Minute

// walk goes through the outbox of a topic, in one turn or several. A failed message blocks no other
// message: the walk passes over it, and the next walk tries it again.
type walk struct {
	after  dlq.Exhausted // the last message that was passed
	failed bool          // a message failed
	wait   time.Duration // after the next failure
	due    time.Time
}

func newWalk() *walk { return &walk{after: dlq.Exhausted{Seq: math.MinInt64}} }

// end ends the walk and begins the next. After a failure the next walk waits.
func (w *walk) end() {
	next := newWalk()
	if w.failed {
		w.delay()
		next.wait, next.due = w.wait, w.due
	}
	*w = *next
}

// delay sets the wait before the topic's next turn: none after the first failure, then
// archiveInterval, and twice as long after each further failure.
func (w *walk) delay() {
	w.due = time.Now().Add(w.wait)
	w.wait = min(max(2*w.wait, archiveInterval), archiveMaxWait)
}

// pass moves the walk beyond a page, and reports whether the turn goes on. The turn ends if no message of
// the page was published and an error was not about the record itself. In this case, later pages are
// unlikely to succeed now.
func (w *walk) pass(page []dlq.Exhausted, errs []error) bool {
	last := page[len(page)-1]
	w.after = dlq.Exhausted{Seq: last.Seq, ID: last.ID}
	moved, unavailable := false, false
	for _, err := range errs {
		if err == nil {
			moved = true
			continue
		}
		w.failed = true
		unavailable = unavailable || dlq.CategoryOf(err) != dlq.CategoryBadData
	}
	if !moved && unavailable {
		w.delay()
		return false
	}
	return true
}
