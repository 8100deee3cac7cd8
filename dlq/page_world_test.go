package dlq_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// world is a store in memory with the statements of a step of a lane, and all who use it: two jobs with two lanes
// each, single retries, operators, other transactions that lock messages, and targets that close.
type world struct {
	*rand.Rand
	now     time.Time
	letters []*letter // by seq, from 1
	jobs    []*job
	closed  map[dlq.Target]bool
	isCalm  bool // nothing interferes any more
	history []string
	isTold  bool // the history is kept
	broken  string
}

type letter struct {
	dlq.Candidate
	status    dlq.Status
	owner     string
	isInPage  bool
	isLocked  bool
	isDeleted bool
	count     int
	changedAt time.Time
}

// recordKey is the key of a record, and its target. Messages with the same recordKey keep their order.
type recordKey struct {
	hash   int32
	target string
}

func (m *letter) recordKey() recordKey { return recordKey{m.KeyHash, m.Target} }

func (m *letter) partition() dlq.Target {
	return dlq.Target{Topic: m.Target, Partition: m.KeyHash % 2}
}

type job struct {
	token                string
	isRunning, isOrdered bool
	snapshotAt           time.Time
	limits               dlq.JobLimits
	lanes                []*lane
	queues               []*queue
	failedKeys           map[recordKey]bool
	scope                map[dlq.ID]bool // of the snapshot
	settled              map[dlq.ID]dlq.Result
	delivered            map[recordKey]int64 // the last seq
	sent                 map[dlq.ID]bool
}

type queue struct {
	dlq.QueueID
	lane     int
	isClosed bool
	tries    int
	due      time.Time
	rows     [2][]int64 // seqs, by lane
}

type lane struct {
	dlq.Lane
	*job
	cursor, waiting int64
	counts          dlq.JobCounts
	page            []dlq.ID
	// The fields below are in the memory of an attempt. A crash loses them.
	claim    *dlq.LaneClaim
	outcomes []dlq.PageOutcome
	isDone   bool
}

func (w *world) tell(format string, args ...any) {
	if w.isTold {
		w.history = append(w.history, fmt.Sprintf("%7.2fs  ", w.now.Sub(time.Time{}).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.tell("BROKEN: %s", w.broken)
	}
}

func (w *world) of(id dlq.ID) *letter { return w.letters[int(id[14])<<8+int(id[15])-1] }

func (l *lane) String() string { return fmt.Sprintf("lane %d of %s", l.Number, l.token) }

func (q *queue) String() string {
	return fmt.Sprintf("%s/%d (closed %t, tries %d)", q.Target, q.Key, q.isClosed, q.tries)
}

func (j *job) queue(id dlq.QueueID) *queue {
	for _, q := range j.queues {
		if q.QueueID == id {
			return q
		}
	}
	return nil
}

// put writes a queue with its state, as noteQueuesSQL does.
func (j *job) put(state dlq.Queue, lane int, now time.Time) {
	q := j.queue(state.QueueID)
	if q == nil {
		if !state.OfKey() {
			lane = -1
		}
		q = &queue{QueueID: state.QueueID, lane: lane, due: now.Add(state.Due)}
		j.queues = append(j.queues, q)
	}
	if state.Tries > 0 {
		q.isClosed, q.tries, q.due = state.IsClosed(), state.Tries, now.Add(state.Due)
	}
}

func (w *world) wait(l *lane, waiting []dlq.Candidate) {
	for _, m := range waiting {
		if q := l.queue(m.WaitsIn); q != nil {
			q.rows[l.Number] = append(q.rows[l.Number], m.Seq)
			slices.Sort(q.rows[l.Number])
		}
	}
}

// claimable is the condition of a claim.
func (l *lane) claimable(m *letter, isFromQueue bool) bool {
	return m.status == dlq.StatusPending && m.count < maxRetries && !m.isDeleted &&
		(!m.changedAt.After(l.snapshotAt) || m.owner == l.token && isFromQueue)
}

const maxRetries = 3

// finalize ends the claims of a page.
func (w *world) finalize(l *lane) {
	ended := map[dlq.ID]*dlq.EndedClaim{}
	for i := range l.outcomes {
		o := &l.outcomes[i]
		m := w.of(o.ID)
		isOwned := m.status == dlq.StatusRetrying || m.status == dlq.StatusDead && o.Result == dlq.ResultDelivered
		if m.isDeleted || m.owner != l.token || m.count != o.RetryCount || !m.isInPage || !isOwned {
			continue
		}
		m.status, m.count = o.Result.After(m.count, maxRetries)
		m.isInPage, m.changedAt = false, w.now
		ended[o.ID] = &dlq.EndedClaim{Candidate: m.Candidate, Status: m.status}
		if o.Result != dlq.ResultWaiting {
			l.settled[o.ID] = o.Result
		}
	}
	s := dlq.Settle(l.outcomes, ended)
	l.counts = l.counts.Plus(s.Counts)
	l.waiting += int64(len(s.Wait))
	l.limits.Refund(len(s.Wait))
	l.page = slices.DeleteFunc(l.page, func(id dlq.ID) bool { return ended[id] != nil })
	for _, failed := range s.FailedKeys {
		l.failedKeys[recordKey{failed.KeyHash, failed.Target}] = l.isOrdered
	}
	for _, state := range s.Queues {
		l.put(state, l.Number, w.now)
	}
	w.wait(l, s.Wait)
	for _, t := range s.Opened {
		if q := l.queue(dlq.QueueID{Target: t, Key: dlq.NoKey}); q != nil && q.isClosed {
			q.isClosed, q.tries, q.due = false, 0, w.now
		}
	}
	w.tell("%s finalizes: %d ended, %+v, wait %v, opened %v", l, len(ended), s.Counts, waits(s.Wait), s.Opened)
	l.claim, l.outcomes = nil, nil
}

// owned are the messages that the lane has claimed and not finalized.
func (w *world) owned(l *lane) (owned []*letter) {
	for _, id := range l.page {
		if m := w.of(id); m.status == dlq.StatusRetrying && m.owner == l.token && m.isInPage && !m.isDeleted {
			owned = append(owned, m)
		}
	}
	slices.SortFunc(owned, func(a, b *letter) int { return cmp.Compare(a.Seq, b.Seq) })
	return owned
}

// next claims a page, as NextPage does.
func (w *world) next(l *lane) {
	quota, wait := l.limits.Quota(w.now)
	if quota <= 0 {
		*l.limits.Step += 1 + w.Int64N(5) // the next step of the ramp
		return
	}
	if wait > 0 {
		return
	}
	l.page = nil // the lane owns no message of the page any more
	due := l.dueFirst()
	list := dlq.Listing{Ordered: l.isOrdered, Quota: quota}
	isDue := due != nil && !due.due.After(w.now)
	var from []*queue
	if isDue && !l.ScanFirst {
		from = l.dueWith(due, w.now)
		w.listQueues(l, &list, from)
	} else {
		w.scan(l, &list)
	}
	w.look(l, &list, from)
	plan := list.Plan()
	w.checkPlan(l, &list, &plan, from)
	w.write(l, &list, &plan, from)
	l.limits.Charge(len(plan.Claim), w.now)
	l.ScanFirst = from != nil
	l.isDone = from == nil && !isDue && l.dueFirst() == nil && len(list.Candidates) == 0 && l.cursor >= l.UpperBound
}

// dueFirst is the queue of the lane that is due first.
func (l *lane) dueFirst() (first *queue) {
	for _, q := range l.queues {
		isMine := q.lane == l.Number || q.lane == -1 && len(q.rows[l.Number]) > 0
		if isMine && (first == nil || q.due.Before(first.due)) {
			first = q
		}
	}
	return first
}

// dueWith are the queues that share a page with the first one.
func (l *lane) dueWith(first *queue, now time.Time) []*queue {
	from := []*queue{first}
	if first.Key == dlq.NoKey || first.tries > 0 {
		return from
	}
	for _, q := range l.queues {
		if q != first && q.lane == l.Number && q.tries == 0 && !q.due.After(now) {
			from = append(from, q)
		}
	}
	return from
}

// listQueues makes a page of the first messages in queues.
func (w *world) listQueues(l *lane, list *dlq.Listing, from []*queue) {
	for _, q := range from {
		for _, seq := range q.rows[l.Number] {
			m := w.letters[seq-1]
			c := m.Candidate
			if m.isDeleted {
				c = dlq.Candidate{ID: m.ID, Seq: m.Seq}
			}
			c.WaitsIn = q.QueueID
			list.Candidates = append(list.Candidates, c)
		}
	}
	list.Candidates = list.Candidates[:min(len(list.Candidates), dlq.PageSize)]
	slices.SortFunc(list.Candidates, func(a, b dlq.Candidate) int { return cmp.Compare(a.Seq, b.Seq) })
	list.Closed, list.Tries = from[0].isClosed, from[0].tries
}

// scan makes a page of the messages after the cursor.
func (w *world) scan(l *lane, list *dlq.Listing) {
	for _, m := range w.letters[l.cursor:l.UpperBound] {
		if l.Has(m.KeyHash) && l.claimable(m, false) && len(list.Candidates) <= dlq.PageSize {
			list.Candidates = append(list.Candidates, m.Candidate)
		}
	}
	l.cursor = l.UpperBound
	if list.Fit() {
		l.cursor = list.Candidates[len(list.Candidates)-1].Seq
	}
}

// look marks the candidates that are held or gone, and finds the earlier messages of their keys.
func (w *world) look(l *lane, list *dlq.Listing, from []*queue) {
	for i := range list.Candidates {
		c := &list.Candidates[i]
		m := w.of(c.ID)
		isClaimable := l.claimable(m, from != nil)
		isHeld := isClaimable || m.status == dlq.StatusRetrying && m.owner != l.token && !m.isDeleted
		c.IsHeld = c.IsHeld || !isClaimable || m.isLocked
		c.IsGone = from != nil && c.IsHeld && !isHeld
	}
	if !list.Ordered {
		return
	}
	for i := range list.Candidates {
		c := &list.Candidates[i]
		var last *dlq.Earlier
		for _, q := range l.queues {
			if slices.Contains(from, q) {
				continue
			}
			for _, seq := range q.rows[l.Number] {
				if w.letters[seq-1].Key == c.Key && seq < c.Seq && (last == nil || seq > last.Seq) {
					last = &dlq.Earlier{Key: c.Key, Seq: seq, Queue: &q.QueueID}
				}
			}
		}
		if last != nil {
			list.Earlier = append(list.Earlier, *last)
		}
	}
	for _, m := range w.letters {
		if m.status == dlq.StatusRetrying && m.owner != l.token && !m.isDeleted {
			list.Earlier = append(list.Earlier, dlq.Earlier{Key: m.Key, Seq: m.Seq})
		}
	}
}

// write makes the planned changes, and hands the page to the lane.
func (w *world) write(l *lane, list *dlq.Listing, p *dlq.Plan, from []*queue) {
	for _, created := range p.Created {
		l.put(created, l.Number, w.now)
	}
	claim := &dlq.LaneClaim{Bytes: p.Bytes()}
	for _, c := range p.Claim {
		m := w.of(c.ID)
		m.status, m.owner, m.isInPage, m.changedAt = dlq.StatusRetrying, l.token, true, w.now
		m.count++
		l.page = append(l.page, m.ID)
		claim.Page = append(claim.Page, l.envelope(m))
	}
	if len(p.Claim) > 0 {
		l.claim = claim
		claim.Closed = l.closedTargets()
	}
	w.tell("%s claims %v from %v, of %d; wait %v, gone %v", l, seqs(p.Claim), from, len(list.Candidates), waits(p.Wait), seqs(p.Gone))
	if from == nil {
		l.waiting += int64(len(p.Wait))
		w.wait(l, p.Wait)
		return
	}
	left := seqs(slices.Concat(p.Claim, p.Gone))
	l.waiting = max(l.waiting-int64(len(left)), 0)
	for _, m := range p.Wait {
		left = append(left, m.Seq)
	}
	for _, q := range from {
		q.rows[l.Number] = slices.DeleteFunc(q.rows[l.Number], func(seq int64) bool { return slices.Contains(left, seq) })
	}
	w.wait(l, p.Wait)
	first := from[0]
	claim.Queue = &dlq.Queue{QueueID: first.QueueID, Tries: first.tries, Keys: p.Keys}
	if list.Closed && len(p.Claim) > 0 {
		first.due = w.now.Add(20 * time.Second)
	}
	if claim.Queue.OfKey() && len(p.Claim) > 0 {
		first.tries = 0
	}
	for _, m := range p.Stay {
		if q := l.queue(m.WaitsIn); q.Key != dlq.NoKey {
			q.due = w.now.Add(time.Second)
		}
	}
	l.queues = slices.DeleteFunc(l.queues, func(q *queue) bool {
		return slices.Contains(from, q) && q.Key != dlq.NoKey && len(q.rows[l.Number]) == 0
	})
}

func (l *lane) envelope(m *letter) dlq.PageEnvelope {
	return dlq.PageEnvelope{Blocked: l.failedKeys[m.recordKey()], Envelope: dlq.Envelope{ID: m.ID, Seq: m.Seq, RetryCount: m.count}}
}

func (l *lane) closedTargets() (closed []dlq.Target) {
	for _, q := range l.queues {
		if q.isClosed {
			closed = append(closed, q.Target)
		}
	}
	return closed
}
