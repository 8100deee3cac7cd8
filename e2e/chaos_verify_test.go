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
//  2. Nothing is sent twice, except copies that a crash excuses; see checkCopies.
//  3. The messages of a key are sent in the order of their arrival; see
//     checkOrder.
//  4. Counters are exact.
//  5. No claim and no job remains open.
//  6. Rows that were written by hand end too, and cancelled retries are not
//     counted; see checkHands.
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

// few counts violations of one kind, and keeps the first five.
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

// checkArrivalOrder proves that seq grows with the offset within each partition, although workers join and
// leave the consumer group. The order of sending depends on the order of seq.
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

// checkCounters compares the counters of the jobs with the messages, which record the workflow that
// delivered them, and with the recorded attempts. If a restore of the database has removed a job, its
// deliveries are recorded, but in no counter. The restore also removes failed attempts. A retry whose claim
// was gone when it delivered is not counted.
func (c *chaos) checkCounters(e *evidence) {
	delivered, singles, forgotten := map[string]int{}, 0, 0
	restores := c.restores()
	counts, scope := few{c: c, what: "the retry count is not the number of its counted claims"}, few{c: c, what: "sent by a job whose scope it is not in"}
	for _, l := range e.letters {
		if l.status != string(dlq.StatusResolved) {
			continue
		}
		j := e.jobByID[l.runID]
		switch {
		case strings.HasPrefix(l.workflowID, "retry-message-"):
			singles++
		case j == nil && l.sentIn(restores):
			forgotten++
		case j == nil:
			c.journal.violate("an unknown workflow delivered %s", l)
		default:
			delivered[l.runID]++
			if j.Topic != l.source.topic || l.seq > j.bound {
				scope.add("%s by job %s of %s up to %d", l, j.ID, j.Topic, j.bound)
			}
		}
		isTooLow, isTooHigh := l.retryCount < 1+l.failures, l.retryCount > 1+l.failures
		// Released and skipped claims are not counted. A failed claim leaves an attempt.
		if !l.byHand && (isTooLow && !l.late || isTooHigh && !l.sentIn(restores)) {
			counts.add("%s", l)
		}
	}
	counts.report()
	scope.report()
	total := singles + forgotten
	for _, j := range e.jobs {
		total += j.Retried
		byHand := c.hands.in(j.Topic) // a message that was changed by hand may be counted twice, or not at all
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

// differ reports whether a and b differ by more than most.
func differ(a, b, most int) bool { return max(a-b, b-a) > most }

// checkCopies bounds how often a message is sent.
//
// A message is sent once. A fault can make a second copy necessary: if a message was published but not
// finalized, its outcome is unknown. This happens in these cases:
//   - the worker was killed,
//   - PostgreSQL became unavailable, or was restored to an earlier moment,
//   - the broker became unavailable before it acknowledged,
//   - Temporal gave the lane to another worker, because Temporal was unavailable, or the
//     worker hung or was disconnected from Temporal,
//   - a statement by hand made the message PENDING.
//
// The time of such a fault is a window. A window excuses at most one further copy of a message, and only if
// the message was in flight during the window. Nothing else excuses a copy: no kill of the API, clean stop
// of a worker, pause, cancel, resume, change of the rate limit, refusal, or blocked write. So for each
// message, every copy except the last must be excused by a window of its own. For each topic and window,
// one job runs with at most a page in each lane. So a window excuses at most lanes × PageSize copies, and
// no copies if no job was running.
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

// span is the time in which the copies that a window excuses may have been sent.
type span struct {
	from, to time.Time
	message  string // the only message whose copies are excused; empty for all messages
	whole    bool   // all messages that were sent in the span may be sent again
}

// spansOf returns the spans of the windows that excuse copies, ordered by their end. While
// writes are blocked, a page that was sent before remains in flight. So the span of a fault
// in that time begins before the block.
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

// excused counts the copies that spans excuse. The last copy needs no excuse, and a span
// excuses one copy.
func excused(l *letter, spans []span) int {
	used := make([]bool, len(spans))
	n := 0
	for _, copied := range l.copies[:len(l.copies)-1] {
		for i, s := range spans { // takes the span that ends first, so that the most spans are left for later copies
			if !used[i] && (s.message == "" || s.message == l.id) && !copied.at.Before(s.from) && !copied.at.After(s.to) {
				used[i] = true
				n++
				break
			}
		}
	}
	return n
}

// lanesIn is how many lanes a topic's jobs had in a span; 0 for a span of a single message.
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

// checkHands proves that rows that were written by hand end, and that a cancelled retry is
// not counted if it never published.
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
		default: // only a row whose retries were used up may be unchanged
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
		// A retry may also be counted without a recorded attempt.
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

// checkOrder proves that the messages of a key were sent in the order of their arrival: the first copy of a
// message in its target's partition comes after the first copy of each earlier message. Further copies do
// not count, because a page that is sent again after a crash comes after its own first copies.
//
// The order holds within each job. A key has one lane, and a lane sends in order. Messages that a pause, a
// crash or a cancel releases are claimed again before any later messages. The order also holds across the
// jobs of a topic, which run one at a time: a failure blocks the later messages of its key, so the messages
// that a job leaves are later than the messages that it has sent.
//
// Some messages are not checked: messages with a single retry, messages that were changed by hand, and
// messages that a job with order "none" sent. If such a job failed to send a message, the key of the
// message is not checked. A single retry changes its message after the snapshot of a running job. So the
// job skips the message, and sends the later messages of its key.
func (c *chaos) checkOrder(e *evidence) {
	type lineage struct{ topic, key string }
	forgotten := c.restores()
	lines, loose := map[lineage][]*letter{}, map[lineage]bool{}
	for _, l := range e.letters { // sorted by partition and offset; a key has one partition
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
			if i == 0 || l.follows(letters[i-1], forgotten) {
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

// restores are the times from each backup of the database to the end of its restore.
func (c *chaos) restores() (spans []span) {
	for _, w := range c.windows.all() {
		if faultNamed(w.what).whole {
			spans = append(spans, span{from: w.from, to: w.to})
		}
	}
	return spans
}

// sentIn reports whether a copy of the message was sent in one of the spans.
func (l *letter) sentIn(spans []span) bool {
	return slices.ContainsFunc(l.copies, func(copied sent) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return !copied.at.Before(s.from) && !copied.at.After(s.to) })
	})
}

// follows reports whether the first copy of the message comes after the first copy of an earlier message.
// Between a backup and its restore, a lane may have sent both messages. After the restore, the database has
// only the deliveries that were recorded since, and the other messages are sent again.
func (l *letter) follows(before *letter, forgotten []span) bool {
	return before.first(nil).offset < l.first(nil).offset || before.first(forgotten).offset < l.first(forgotten).offset
}

// first is the first copy in the topic. It ignores copies in the forgotten spans if a later
// copy exists.
func (l *letter) first(forgotten []span) sent {
	copies := slices.SortedFunc(slices.Values(l.copies), func(a, b sent) int { return cmp.Compare(a.offset, b.offset) })
	for len(copies) > 1 && slices.ContainsFunc(forgotten, func(s span) bool { return !copies[0].at.Before(s.from) && !copies[0].at.After(s.to) }) {
		copies = copies[1:]
	}
	return copies[0]
}
