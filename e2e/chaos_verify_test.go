package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// verify proves from the topics and the tables alone:
//
//  1. Nothing is lost: every record of the dead-letter topics is stored once,
//     is RESOLVED, and is in its target topic, byte for byte.
//  2. Nothing is sent without a claim, but for what a crash excuses, or a stop
//     that leaves lanes behind; see checkCopies.
//  3. The messages of a key are sent in the order of their arrival; see
//     checkOrder.
//  4. Counters are exact.
//  5. No claim and no job is left open.
func (c *chaos) verify() {
	c.journal.note("--- verify")
	c.check(c.gather())
}

func (c *chaos) check(e *evidence) {
	c.checkNothingIsLost(e)
	c.checkArrivalOrder(e)
	c.checkCounters(e)
	c.checkCopies(e)
	c.checkOrder(e)
}

// few lists what is wrong, but not a page of it.
type few struct {
	c     *chaos
	what  string
	lines []string
	n     int
}

func (f *few) add(format string, args ...any) {
	if f.n++; f.n <= 5 {
		f.lines = append(f.lines, fmt.Sprintf(format, args...))
	}
}

func (f *few) report() {
	if f.n > 0 {
		f.c.journal.violate("%s, %d times:\n    %s", f.what, f.n, strings.Join(f.lines, "\n    "))
	}
}

func (c *chaos) checkNothingIsLost(e *evidence) {
	unsent, open := few{c: c, what: "stored and never sent"}, few{c: c, what: "not RESOLVED"}
	for _, l := range e.letters {
		if len(l.copies) == 0 {
			unsent.add("%s", l)
		}
		if l.status != string(dlq.StatusResolved) {
			open.add("%s", l)
		}
	}
	unsent.report()
	open.report()
	for _, j := range e.jobs {
		if !dlq.BulkState(j.state).IsFinal() || j.endedAt == nil {
			c.journal.violate("bulk retry %s is left %s", j.id, j.state)
		}
	}
}

// checkArrivalOrder proves what the order of sending rests on: seq grows with
// the offset within each partition, although partitions change hands when
// workers come and go.
func (c *chaos) checkArrivalOrder(e *evidence) {
	wrong := few{c: c, what: "stored before an earlier record of its partition"}
	for i := 1; i < len(e.letters); i++ {
		before, l := e.letters[i-1], e.letters[i]
		if before.source.topic == l.source.topic && before.source.partition == l.source.partition && l.seq <= before.seq {
			wrong.add("%s and %s", before, l)
		}
	}
	wrong.report()
}

// checkCounters holds the counters of the jobs against the messages, which keep
// the name of who delivered them, and against the attempts that are written down.
func (c *chaos) checkCounters(e *evidence) {
	delivered, singles := map[string]int64{}, int64(0)
	counts, scope := few{c: c, what: "the retry count is not the number of its counted claims"}, few{c: c, what: "sent by a job whose scope it is not in"}
	for _, l := range e.letters {
		if l.status != string(dlq.StatusResolved) {
			continue
		}
		j := e.jobByID[l.runID]
		switch {
		case strings.HasPrefix(l.workflowID, "retry-message-"):
			singles++
		case j == nil:
			c.journal.violate("nobody that is known delivered %s", l)
		default:
			delivered[l.runID]++
			if j.topic != l.source.topic || l.seq > j.bound {
				scope.add("%s by job %s of %s up to %d", l, j.id, j.topic, j.bound)
			}
		}
		if l.retryCount != 1+l.failures { // returned and skipped claims are not counted, failed ones leave an attempt
			counts.add("%s", l)
		}
	}
	counts.report()
	scope.report()
	total := singles
	for _, j := range e.jobs {
		total += j.retried
		if j.matched != j.retried+j.failed+j.dead+j.skipped {
			c.journal.violate("bulk retry %s: matched %d, but %d retried + %d failed + %d dead + %d skipped", j.id, j.matched, j.retried, j.failed, j.dead, j.skipped)
		}
		if j.retried != delivered[j.id] {
			c.journal.violate("bulk retry %s counts %d retried, and %d messages say that it sent them", j.id, j.retried, delivered[j.id])
		}
		if j.cameBack != 0 {
			c.journal.violate("bulk retry %s counts %d that came back, and nothing did", j.id, j.cameBack)
		}
	}
	if total != int64(len(e.letters)) {
		c.journal.violate("%d were sent by the jobs' counters and by single retries, %d are stored", total, len(e.letters))
	}
	c.journal.note("%d dead letters, %d by single retries, %d jobs", len(e.letters), singles, len(e.jobs))
}

const (
	// inFlight is the longest that a page is between its publish and its being
	// written down, on a slow machine.
	inFlight = 5 * time.Second
	// deliveryTimeout is the publisher's: how long it repeats a request to a
	// broker that does not answer.
	deliveryTimeout = 6 * time.Second
)

// tails are how long after its end an outage still has victims: pooled
// connections of before, and, after Temporal, lanes that it gave to another
// worker since it missed their heartbeats, which learn of that with their next
// one, once they are connected again. A job that was stopped has lanes that
// begin a page before they hear of that, within a second; without an answer to
// the command nobody knows when that second begins, but in force it is within
// two more. When such a page is delivered does not matter: it is told by when it
// was handed over.
var tails = map[string]time.Duration{
	"worker": 0, "frozen": 2 * time.Second, "broker": 2 * time.Second, "postgres": 2 * time.Second,
	"temporal": 12 * time.Second, "isolated": 12 * time.Second, "stopped": time.Second, "stopped unseen": 3 * time.Second,
}

// hurts reports whether the window is one of this dead-letter topic's jobs.
func (w window) hurts(topic string) bool { return w.topic == "" || w.topic == topic }

// excuses reports whether a copy of a message of this topic that was sent at
// this time may have been under way, sent and not written down, when the window
// was open.
func (w window) excuses(topic string, at time.Time) bool {
	if !w.hurts(topic) {
		return false
	}
	flight := inFlight
	if w.what == "broker" {
		flight += deliveryTimeout
	}
	return !at.Before(w.from.Add(-flight)) && !at.After(w.to.Add(tails[w.what]))
}

// checkCopies bounds how often a message is sent.
//
// A claim that counts (retry_count) is published once, and is written down in
// the transaction that closes it. Claims that are given back were not published,
// or were refused. So copies ≤ retry_count, but for this: what was published and not yet
// written down when its worker was killed, when PostgreSQL went away, when the
// broker went away before it acknowledged, or when Temporal gave the lane to
// another worker, because it was away itself, or the worker hung or was cut off
// from it, or when a pause or a cancel gave back a page that hung, has to be
// published again, since nobody can know whether it was. Each such window
// repeats a claim at most once, and only a claim that was open in it. Kills of
// the API, orderly stops of workers, resumes and rate changes excuse nothing, and
// nor does a pause or a cancel that was in force before it could leave lanes
// behind, or of another topic; see stopWindow.
//
// Hence, for each message: of the copies that have another one after them, all
// but retry_count-1 must be excused by a window, each by one of its own. And for
// each topic and window: one job runs there, with at most a page in each lane,
// so a window excuses at most lanes × PageSize copies, and none when no job was
// running or when it was a stop of another topic's.
func (c *chaos) checkCopies(e *evidence) {
	windows := c.windows.all()
	slices.SortFunc(windows, func(a, b window) int { return a.to.Add(tails[a.what]).Compare(b.to.Add(tails[b.what])) })
	unexcused := few{c: c, what: "sent more often than its claims allow, with nothing to excuse it"}
	surplus := map[string]int{}
	for _, l := range e.letters {
		slices.SortStableFunc(l.copies, func(a, b sent) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.offset, b.offset)) })
		extra := len(l.copies) - l.retryCount
		if extra <= 0 {
			continue
		}
		if !l.bySingle {
			surplus[l.source.topic] += extra
		}
		c.journal.count("copies beyond the retry count")
		if found := excused(l, windows); found < extra {
			unexcused.add("%d too many, %d excused: %s", extra, found, l)
		}
	}
	unexcused.report()
	for topic, n := range surplus {
		bound := 0
		for _, w := range windows {
			bound += e.lanesIn(topic, w) * dlq.PageSize
		}
		c.journal.note("%s: %d copies beyond the retry counts, at most %d are excused", topic, n, bound)
		if n > bound {
			c.journal.violate("%s: %d copies beyond the retry counts, and the crashes excuse %d", topic, n, bound)
		}
	}
}

// excused counts the message's copies before the last that a window excuses,
// each window once.
func excused(l *letter, windows []window) int {
	used := make([]bool, len(windows))
	n := 0
	for _, s := range l.copies[:len(l.copies)-1] {
		for i, w := range windows { // the first to end, so the first that fits leaves the most for the later copies
			if !used[i] && w.excuses(l.source.topic, s.at) {
				used[i] = true
				n++
				break
			}
		}
	}
	return n
}

// lanesIn is how many lanes a topic's jobs had while the window could hurt them.
func (e *evidence) lanesIn(topic string, w window) int {
	if !w.hurts(topic) {
		return 0
	}
	lanes := 0
	for _, j := range e.jobs {
		if j.topic == topic && j.startedAt.Before(w.to.Add(tails[w.what])) && (j.endedAt == nil || j.endedAt.After(w.from.Add(-inFlight))) {
			lanes += j.lanes
		}
	}
	return lanes
}

// checkOrder proves that the messages of a key were sent in the order of their
// arrival: where a message is first in its target's partition comes after where
// each earlier one is first. Repetitions do not count: a page that is sent again
// after a crash is behind its own first copies.
//
// It holds within each job, since a key has one lane, a lane sends in order, and
// what a pause, a crash or a cancel gives back is claimed again before anything
// later. And it holds across the jobs of a topic, of which there is one at a
// time: what a job leaves of a key is later than all that it sent of it, because
// a failure holds back the later ones.
//
// Left out are messages that an operator retried by themselves, who chose that
// order, and keys of which a job with order "none" failed to send one.
func (c *chaos) checkOrder(e *evidence) {
	type lineage struct{ topic, key string }
	lines, loose := map[lineage][]*letter{}, map[lineage]bool{}
	for _, l := range e.letters { // by partition and offset, and a key has one partition
		if l.key == nil || len(l.copies) == 0 {
			continue
		}
		of := lineage{l.source.topic, string(l.key)}
		loose[of] = loose[of] || l.byNone
		if !l.bySingle {
			lines[of] = append(lines[of], l)
		}
	}
	strayed := few{c: c, what: "a key's messages are in several partitions"}
	across := few{c: c, what: "sent before an earlier message of its key, across jobs"}
	within := few{c: c, what: "sent before an earlier message of its key, in one job"}
	checked := 0
	for of, letters := range lines {
		if loose[of] {
			continue
		}
		for i, l := range letters {
			checked++
			if l.source.partition != letters[0].source.partition || l.first().partition != letters[0].first().partition {
				strayed.add("%s and %s", letters[0], l)
			}
			if i == 0 || letters[i-1].first().offset < l.first().offset {
				continue
			}
			before := letters[i-1]
			if before.runID == l.runID {
				within.add("%s\n      before %s", l, before)
			} else {
				across.add("%s\n      before %s", l, before)
			}
		}
	}
	strayed.report()
	within.report()
	across.report()
	c.journal.note("%d messages of %d keys are in order or reported", checked, len(lines))
}

// first is the copy that came first in the topic.
func (l *letter) first() sent {
	return slices.MinFunc(l.copies, func(a, b sent) int { return cmp.Compare(a.offset, b.offset) })
}
