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
//  2. Nothing is sent twice, but for what a crash excuses; see checkCopies.
//  3. The messages of a key are sent in the order of their arrival; see
//     checkOrder.
//  4. Counters are exact.
//  5. No claim and no job is left open.
//  6. Rows that were written by hand end too, and cancelled retries use no
//     retry up; see checkHands.
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
	c.checkHands(e)
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
		if isLive(j.State) || j.EndedAt == nil {
			c.journal.violate("bulk retry %s is left %s", j.ID, j.State)
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
	delivered, singles := map[string]int{}, 0
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
			if j.Topic != l.source.topic || l.seq > j.bound {
				scope.add("%s by job %s of %s up to %d", l, j.ID, j.Topic, j.bound)
			}
		}
		if l.retryCount != 1+l.failures && !l.byHand { // returned and skipped claims are not counted, failed ones leave an attempt
			counts.add("%s", l)
		}
	}
	counts.report()
	scope.report()
	total := singles
	for _, j := range e.jobs {
		total += j.Retried
		byHand := c.hands.in(j.Topic) // each may be counted twice, or not at all
		if sum := j.Retried + j.Failed + j.Dead + j.Skipped; differ(j.Matched, sum, byHand) {
			c.journal.violate("bulk retry %s: matched %d, but %d retried + %d failed + %d dead + %d skipped", j.ID, j.Matched, j.Retried, j.Failed, j.Dead, j.Skipped)
		}
		if differ(j.Retried, delivered[j.ID], byHand) {
			c.journal.violate("bulk retry %s counts %d retried, and %d messages say that it sent them", j.ID, j.Retried, delivered[j.ID])
		}
		if j.CameBack != 0 {
			c.journal.violate("bulk retry %s counts %d that came back, and nothing did", j.ID, j.CameBack)
		}
	}
	if differ(total, len(e.letters), len(c.hands.ids())) {
		c.journal.violate("%d were sent by the jobs' counters and by single retries, %d are stored", total, len(e.letters))
	}
	c.journal.note("%d dead letters, %d by single retries, %d jobs", len(e.letters), singles, len(e.jobs))
}

// differ reports whether the two are further apart than that.
func differ(a, b, most int) bool { return max(a-b, b-a) > most }

// checkCopies bounds how often a message is sent.
//
// A message is sent once. What was published and not yet written down when its
// worker was killed, when PostgreSQL went away, when the broker went away before
// it acknowledged, or when Temporal gave the lane to another worker, because it
// was away itself, or the worker hung or was cut off from it, has to be published
// again, since nobody can know whether it was. Each such window repeats a message
// at most once, and only one that was under way in it. Nothing else excuses a
// copy: no kill of the API, orderly stop of a worker, pause, cancel, resume or
// change of the rate, no refusal of the target, and no write that was blocked.
//
// Hence, for each message: each copy that has another one after it must be
// excused by a window, each by one of its own. And for each topic and window: one
// job runs there, with at most a page in each lane, so a window excuses at most
// lanes × PageSize copies, and none when no job was running.
func (c *chaos) checkCopies(e *evidence) {
	spans := spansOf(c.windows.all())
	unexcused := few{c: c, what: "sent more often than crashes explain"}
	surplus := map[string]int{}
	for _, l := range slices.Concat(e.letters, e.written) {
		slices.SortStableFunc(l.copies, func(a, b sent) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.offset, b.offset)) })
		extra := len(l.copies) - 1
		if extra <= 0 {
			continue
		}
		if !l.bySingle && !l.byHand && l.written == nil {
			surplus[l.source.topic] += extra
		}
		c.journal.count("copies beyond the first")
		if found := excused(l, spans); found < extra {
			unexcused.add("%d too many, %d excused: %s", extra, found, l)
		}
	}
	unexcused.report()
	for topic, n := range surplus {
		bound := 0
		for _, s := range spans {
			if bound += e.lanesIn(topic, s) * dlq.PageSize; s.whole {
				bound += len(e.letters)
			}
		}
		c.journal.note("%s: %d copies beyond the first, at most %d are excused", topic, n, bound)
		if n > bound {
			c.journal.violate("%s: %d copies beyond the first, and the crashes excuse %d", topic, n, bound)
		}
	}
}

// span is the time in which a copy may have been sent that a window excuses.
type span struct {
	from, to time.Time
	message  string // the only one; empty for all
	whole    bool   // everything that was sent in it may be sent again
}

// spansOf are the spans of the windows that excuse anything, those first that
// end first. What was sent before a write was blocked is under way until that
// ends, so a fault that strikes meanwhile reaches back to before the block.
func spansOf(windows []window) []span {
	var spans []span
	for _, w := range windows {
		reach := faultNamed(w.what).excuses
		if reach == nil {
			continue
		}
		s := span{from: w.from.Add(-reach.before), to: w.to.Add(reach.after), message: w.message,
			whole: faultNamed(w.what).whole}
		for grown := true; grown; {
			grown = false
			for _, b := range windows {
				f := faultNamed(b.what)
				if !f.blocks {
					continue
				}
				end := b.to
				if f.excuses != nil {
					end = end.Add(f.excuses.after)
				}
				if from := b.from.Add(-inFlight); from.Before(s.from) && !end.Before(s.from) && b.from.Before(w.to) {
					s.from, grown = from, true
				}
			}
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.to.Compare(b.to) })
	return spans
}

// excused counts the message's copies before the last that a span excuses, each
// span once.
func excused(l *letter, spans []span) int {
	used := make([]bool, len(spans))
	n := 0
	for _, copied := range l.copies[:len(l.copies)-1] {
		for i, s := range spans { // the first to end, so the first that fits leaves the most for the later copies
			if !used[i] && (s.message == "" || s.message == l.id) && !copied.at.Before(s.from) && !copied.at.After(s.to) {
				used[i] = true
				n++
				break
			}
		}
	}
	return n
}

// lanesIn is how many lanes a topic's jobs had in that time.
func (e *evidence) lanesIn(topic string, s span) int {
	if s.message != "" {
		return 0
	}
	lanes := 0
	for _, j := range e.jobs {
		if j.Topic == topic && j.StartedAt.Before(s.to) && (j.EndedAt == nil || j.EndedAt.After(s.from)) {
			lanes += j.lanes
		}
	}
	return lanes
}

// checkHands proves that rows end that were written by hand, and that a cancelled
// retry which never published has used no retry up.
func (c *chaos) checkHands(e *evidence) {
	wrong, burnt := few{c: c, what: "written by hand and ended wrongly"}, few{c: c, what: "a cancelled retry that never published was counted"}
	for _, l := range e.written {
		w := l.written
		usedUp := w.count >= w.max
		switch dlq.Status(l.status) {
		case dlq.StatusResolved:
			if len(l.copies) == 0 || usedUp {
				wrong.add("%+v became %s", *w, l)
			}
		case dlq.StatusDead:
			if l.retryCount < w.max {
				wrong.add("%+v became %s", *w, l)
			}
		default: // as it was, for there was nothing that could be done with it
			if l.status != w.status || !usedUp {
				wrong.add("%+v became %s", *w, l)
			}
		}
	}
	for _, l := range slices.Concat(e.letters, e.written) {
		for _, number := range l.cancelled {
			if !slices.ContainsFunc(l.copies, func(s sent) bool { return s.count == number }) {
				burnt.add("retry %s of %s", number, l)
			}
		}
		// An engine may also count without writing an attempt down.
		if l.written != nil && l.written.status == "PENDING" && l.retryCount > l.written.count+len(l.copies)+l.failures {
			burnt.add("%+v became %s", *l.written, l)
		}
	}
	wrong.report()
	burnt.report()
	c.journal.note("%d rows were written by hand", len(e.written))
}

// isUnordered tells whether a job with order "none" sent the message.
func (e *evidence) isUnordered(l *letter) bool {
	j := e.jobByID[l.runID]
	return j != nil && j.Order == "none"
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
// order, or changed by hand, what a job with order "none" sent, and keys of which
// such a job failed to send one.
func (c *chaos) checkOrder(e *evidence) {
	type lineage struct{ topic, key string }
	var forgotten []span
	for _, w := range c.windows.all() {
		if faultNamed(w.what).whole {
			forgotten = append(forgotten, span{from: w.from, to: w.to})
		}
	}
	lines, loose := map[lineage][]*letter{}, map[lineage]bool{}
	for _, l := range e.letters { // by partition and offset, and a key has one partition
		if l.key == nil || len(l.copies) == 0 {
			continue
		}
		of := lineage{l.source.topic, string(l.key)}
		loose[of] = loose[of] || l.byNone
		if !l.bySingle && !l.byHand {
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
			if l.source.partition != letters[0].source.partition || l.first(forgotten).partition != letters[0].first(forgotten).partition {
				strayed.add("%s and %s", letters[0], l)
			}
			if i == 0 || letters[i-1].first(forgotten).offset < l.first(forgotten).offset {
				continue
			}
			before := letters[i-1]
			if e.isUnordered(before) || e.isUnordered(l) {
				continue
			}
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

// first is the copy that came first in the topic, without those that the database has
// forgotten and that were sent again.
func (l *letter) first(forgotten []span) sent {
	copies := slices.SortedFunc(slices.Values(l.copies), func(a, b sent) int { return cmp.Compare(a.offset, b.offset) })
	for len(copies) > 1 && slices.ContainsFunc(forgotten, func(s span) bool { return !copies[0].at.Before(s.from) && !copies[0].at.After(s.to) }) {
		copies = copies[1:]
	}
	return copies[0]
}
