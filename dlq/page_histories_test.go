package dlq_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// histories is how many random histories run. The seed of a history is its number.
const histories = 2000

func TestLanesLoseNoMessageAndKeepTheOrderOfKeysWhateverHappens(t *testing.T) {
	t.Parallel()
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprintf("part %d", part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < histories; seed += parts {
				if w := runHistory(uint64(seed), false); w.broken != "" {
					w = runHistory(uint64(seed), true)
					t.Fatalf("history %d: %s\n%s", seed, w.broken, strings.Join(w.history, "\n"))
				}
			}
		})
	}
}

func TestAHistoryIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		first, second := runHistory(seed, true), runHistory(seed, true)
		require.NotEmpty(t, first.history)
		require.True(t, slices.Equal(first.history, second.history), "history %d", seed)
	}
}

// FuzzHistories searches for a seed that breaks a rule.
func FuzzHistories(f *testing.F) {
	f.Add(uint64(histories))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if w := runHistory(seed, false); w.broken != "" {
			w = runHistory(seed, true)
			t.Fatalf("%s\n%s", w.broken, strings.Join(w.history, "\n"))
		}
	})
}

// runHistory is a history of random events, and then of events that end the jobs.
func runHistory(seed uint64, isTold bool) (w *world) {
	w = newWorld(seed, isTold)
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic: %v", r)
		}
	}()
	for range 20 + w.IntN(60) {
		w.now = w.now.Add(time.Duration(w.IntN(1500)) * time.Millisecond)
		w.happen()
		if w.check(); w.broken != "" {
			return w
		}
	}
	w.calmDown()
	for range 200 + 10*len(w.letters) {
		w.now = w.now.Add(5 * time.Second)
		isDone := true
		for _, j := range w.jobs {
			for _, l := range j.lanes {
				if !l.isDone {
					isDone = false
					w.run(l)
				}
			}
		}
		if w.check(); isDone || w.broken != "" {
			w.checkEnd()
			return w
		}
	}
	w.fail("the jobs do not end")
	return w
}

// newWorld has messages of a few keys and two topics. Two keys have the same TargetKey, but belong to different lanes.
func newWorld(seed uint64, isTold bool) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), isTold: isTold, closed: map[dlq.Target]bool{}}
	w.now = time.Time{}.Add(time.Minute)
	messages, topics := 4+w.IntN(24), []string{"orders", "refunds"}
	if seed%25 == 0 {
		messages = 120 + w.IntN(200) // several pages
	}
	twin := dlq.TargetKey(dlq.TargetKey(3, "orders"), "refunds") // 3 in orders and twin in refunds have the same TargetKey
	hashes := []int32{3, 3 ^ 1<<9, twin, 600, 601}
	for seq := range int64(messages) {
		hash := hashes[w.IntN(len(hashes))]
		if w.IntN(8) == 0 {
			hash = w.Int32() // without a key
		}
		m := &letter{status: dlq.StatusPending, changedAt: w.now.Add(-time.Hour)}
		m.ID, m.Seq = dlq.ID{14: byte((seq + 1) >> 8), 15: byte(seq + 1)}, seq+1
		m.Target, m.KeyHash, m.Size = topics[w.IntN(1+w.IntN(2))], hash, []int64{0, 100, 100, 100, 100, dlq.PageBytes / 3, dlq.PageBytes + 1}[w.IntN(7)]
		m.OriginalTopic, m.Key = m.Target, dlq.TargetKey(hash, m.Target)
		w.letters = append(w.letters, m)
		w.tell("message %d to %s, hash %d, key %d, size %d", m.Seq, m.Target, m.KeyHash, m.Key, m.Size)
	}
	w.start()
	return w
}

// start begins a job.
func (w *world) start() {
	j := &job{token: fmt.Sprintf("job %d", len(w.jobs)+1), isRunning: true, isOrdered: w.IntN(6) > 0, snapshotAt: w.now,
		failedKeys: map[recordKey]bool{}, scope: map[dlq.ID]bool{}, settled: map[dlq.ID]dlq.Result{}, delivered: map[recordKey]int64{}, sent: map[dlq.ID]bool{}}
	w.now = w.now.Add(time.Millisecond)
	switch w.IntN(4) {
	case 0:
		j.limits.Rate = 10 + w.IntN(50)
	case 1:
		j.limits.Step = new(int64)
	}
	for number, buckets := range dlq.ShareBuckets(&[dlq.Buckets]int64{}, 2) {
		j.lanes = append(j.lanes, &lane{job: j, Lane: dlq.Lane{Number: number, Buckets: buckets, UpperBound: int64(len(w.letters))}})
	}
	for _, m := range w.letters {
		j.scope[m.ID] = j.lanes[0].claimable(m, false)
	}
	w.jobs = append(w.jobs, j)
	w.tell("%s starts: ordered %t, rate %d, steps %t", j.token, j.isOrdered, j.limits.Rate, j.limits.Step != nil)
}

// happen lets a random thing happen.
func (w *world) happen() {
	m := w.letters[w.IntN(len(w.letters))]
	j := w.jobs[w.IntN(len(w.jobs))]
	l := j.lanes[w.IntN(2)]
	isSingle := m.status == dlq.StatusRetrying && strings.HasPrefix(m.owner, "single")
	switch n := w.IntN(40); {
	case n < 24:
		w.run(l)
	case n < 26 && l.claim != nil:
		w.tell("%s crashes, published %t", l, l.outcomes != nil)
		l.claim, l.outcomes = nil, nil
	case n < 28:
		target := m.partition()
		w.closed[target] = !w.closed[target]
		w.tell("%s closed: %t", target, w.closed[target])
	case n < 30:
		m.isLocked = !m.isLocked
		w.tell("message %d locked: %t", m.Seq, m.isLocked)
	case n < 31:
		j.isRunning = !j.isRunning
		w.tell("%s running: %t", j.token, j.isRunning)
	case n < 32 && len(w.jobs) == 1:
		w.start()
	case m.isLocked || m.isDeleted:
	case n < 37 && isSingle:
		w.endSingle(m)
	case n < 36 && m.status == dlq.StatusPending && m.count < maxRetries:
		m.status, m.owner, m.isInPage, m.changedAt = dlq.StatusRetrying, fmt.Sprintf("single %d", m.Seq), false, w.now
		m.count++
		w.tell("message %d is retried singly", m.Seq)
	case n == 38 && m.status != dlq.StatusDead && m.status != dlq.StatusResolved:
		m.status, m.changedAt = dlq.StatusDead, w.now
		w.tell("message %d is marked dead", m.Seq)
	case n == 39 && m.status != dlq.StatusRetrying:
		m.isDeleted = true
		w.tell("message %d is deleted", m.Seq)
	}
}

// endSingle ends a single retry: delivered, failed or released.
func (w *world) endSingle(m *letter) {
	result := []dlq.Result{dlq.ResultDelivered, dlq.ResultFailed, dlq.ResultReleased}[w.IntN(3)]
	m.status, m.count = result.After(m.count, maxRetries)
	m.owner, m.changedAt = "", w.now
	w.tell("the single retry of message %d ends: %s", m.Seq, result)
}

// run is the next thing that a lane does.
func (w *world) run(l *lane) {
	owned := w.owned(l)
	isLocked := slices.ContainsFunc(l.page, func(id dlq.ID) bool { return w.of(id).isLocked })
	switch {
	case l.outcomes != nil && isLocked: // waits for the lock
	case l.outcomes != nil:
		w.finalize(l)
	case l.claim != nil:
		w.publish(l)
	case len(owned) > 0:
		l.claim = &dlq.LaneClaim{}
		for _, m := range owned {
			l.claim.Page = append(l.claim.Page, l.envelope(m))
		}
		if !l.isRunning || w.IntN(3) == 0 {
			w.tell("%s requeues its page", l)
			l.outcomes = dlq.RequeuePage(l.claim.Page)
		}
	case l.isRunning && !l.isDone:
		w.next(l)
	}
}

// publish decides the outcome of each message of a page, as a lane does.
func (w *world) publish(l *lane) {
	claim := l.claim
	undelivered := map[recordKey]dlq.PageOutcome{}
	for i := range claim.Page {
		e := &claim.Page[i]
		m := w.of(e.ID)
		target := m.partition()
		o := dlq.PageOutcome{Outcome: dlq.Outcome{ID: e.ID}, RetryCount: e.RetryCount}
		earlier, isBehind := undelivered[m.recordKey()]
		isTried := claim.Queue != nil && !claim.Queue.OfKey() && claim.Queue.Target == target
		switch luck := w.IntN(20); {
		case e.Blocked:
			o.Result = dlq.ResultSkipped
			if claim.Queue != nil && !claim.Queue.OfKey() {
				o.Target = claim.Queue.Target
			}
		case l.isOrdered && isBehind && earlier.Result == dlq.ResultWaiting:
			o.Result, o.Wait = dlq.ResultWaiting, earlier.Wait
			o.Wait.Tries = 0
		case l.isOrdered && isBehind:
			o.Result = dlq.ResultSkipped
		case !isTried && slices.Contains(claim.Closed, target):
			o.Result, o.Wait = dlq.ResultWaiting, dlq.Wait{Target: target}
		case w.closed[target]:
			o.Result, o.Wait = dlq.ResultWaiting, dlq.Wait{Target: target, Tries: 1, For: time.Second}
			if isTried {
				o.Wait.Tries += claim.Queue.Tries
			}
		case luck == 0 && !w.isCalm:
			o.Result = dlq.ResultFailed
		case luck == 1 && !w.isCalm:
			o.Result, o.Target = dlq.ResultRejected, target
		case luck < 5 && !w.isCalm:
			o.Result, o.Wait = dlq.ResultWaiting, dlq.Wait{Target: dlq.KeyQueue(m.Target, 0).Target, OfKey: true, Tries: 1, For: 3 * time.Second}
		default:
			o.Result, o.Target = dlq.ResultDelivered, target
			w.deliver(l, m)
		}
		if _, isKnown := undelivered[m.recordKey()]; o.Result != dlq.ResultDelivered && !isKnown {
			undelivered[m.recordKey()] = o
		}
		l.outcomes = append(l.outcomes, o)
		w.tell("%s publishes %d to %s: %s %+v", l, m.Seq, target, o.Result, o.Wait)
	}
}

// deliver checks the order of a key at its target. A message may be delivered again after a crash.
func (w *world) deliver(l *lane, m *letter) {
	if last := l.delivered[m.recordKey()]; l.isOrdered && !l.sent[m.ID] && last > m.Seq {
		w.fail("%s delivers message %d of hash %d after message %d", l, m.Seq, m.KeyHash, last)
	}
	l.sent[m.ID] = true
	l.delivered[m.recordKey()] = max(l.delivered[m.recordKey()], m.Seq)
}

// calmDown ends all that keeps the jobs from their end.
func (w *world) calmDown() {
	w.tell("calm")
	w.isCalm = true
	clear(w.closed)
	for _, m := range w.letters {
		m.isLocked = false
		if m.status == dlq.StatusRetrying && strings.HasPrefix(m.owner, "single") {
			w.endSingle(m)
		}
	}
	for _, j := range w.jobs {
		j.isRunning = true
	}
}

// checkPlan checks a claim.
func (w *world) checkPlan(l *lane, list *dlq.Listing, p *dlq.Plan, from []*queue) {
	claims := map[dlq.ID]bool{}
	for _, c := range p.Claim {
		m := w.of(c.ID)
		switch {
		case claims[c.ID]:
			w.fail("message %d is claimed twice", c.Seq)
		case m.isLocked || !l.claimable(m, from != nil):
			w.fail("%s claims message %d, which is %s, owned by %q, locked %t, deleted %t", l, c.Seq, m.status, m.owner, m.isLocked, m.isDeleted)
		}
		claims[c.ID] = true
		if l.isOrdered {
			w.checkPassed(l, m, claims)
		}
	}
	switch {
	case len(p.Claim) > list.Quota || len(p.Claim) > dlq.PageSize:
		w.fail("%s claims %d messages, and the quota is %d", l, len(p.Claim), list.Quota)
	case len(p.Claim) > 1 && p.Bytes() > dlq.PageBytes:
		w.fail("%s claims %d bytes", l, p.Bytes())
	case len(p.Claim) > 1 && list.Closed:
		w.fail("%s tries a closed target with %d messages", l, len(p.Claim))
	}
}

// checkPassed checks that a claimed message overtakes no earlier message of its key.
func (w *world) checkPassed(l *lane, m *letter, claims map[dlq.ID]bool) {
	for _, earlier := range w.letters[:m.Seq-1] {
		switch {
		case earlier.recordKey() != m.recordKey() || earlier.isDeleted || claims[earlier.ID]:
		case earlier.status == dlq.StatusRetrying:
			w.fail("%s claims message %d while %s retries message %d of the key", l, m.Seq, earlier.owner, earlier.Seq)
		case l.queueOf(earlier) != nil && l.claimable(earlier, true):
			w.fail("%s claims message %d while message %d of the key waits in %s", l, m.Seq, earlier.Seq, l.queueOf(earlier))
		}
	}
}

func (l *lane) queueOf(m *letter) *queue {
	for _, q := range l.queues {
		if slices.Contains(q.rows[l.Number], m.Seq) {
			return q
		}
	}
	return nil
}

// check checks each lane: the count of the messages that wait, and that each message has its place.
func (w *world) check() {
	for _, j := range w.jobs {
		for _, l := range j.lanes {
			places := make([]int, len(w.letters)+1) // by seq
			waiting := int64(0)
			for _, q := range j.queues {
				rows := q.rows[l.Number]
				for _, seq := range rows {
					places[seq]++
				}
				if waiting += int64(len(rows)); len(rows) > 0 && q.lane != l.Number && q.lane != -1 {
					w.fail("%v of %s wait in %s of lane %d", rows, l, q, q.lane)
				}
			}
			if waiting != l.waiting {
				w.fail("%d messages of %s wait, and it counts %d", waiting, l, l.waiting)
			}
			w.checkPlaces(l, places)
		}
		if s := j.limits.Step; s != nil && *s < 0 {
			w.fail("the step of %s is %d", j.token, *s)
		}
	}
}

// checkPlaces checks that each message of the scope that the lane has passed is in its page, waits, has ended, or was
// changed by another client.
func (w *world) checkPlaces(l *lane, places []int) {
	for _, id := range l.page {
		if m := w.of(id); m.status == dlq.StatusRetrying && m.owner == l.token && !m.isDeleted {
			places[m.Seq]++
		}
	}
	for _, m := range w.letters {
		if places[m.Seq] == 0 && (m.Seq > l.cursor || !l.Has(m.KeyHash)) {
			continue
		}
		_, hasEnded := l.settled[m.ID]
		isChanged := m.isDeleted || m.changedAt.After(l.snapshotAt) && m.owner != l.token || m.status == dlq.StatusDead || m.status == dlq.StatusResolved
		switch n := places[m.Seq]; {
		case n > 1 || n == 1 && (hasEnded && !isChanged || m.Seq > l.cursor):
			w.fail("message %d of %s is in %d places, ended %t", m.Seq, l, n, hasEnded)
		case n == 0 && l.scope[m.ID] && !hasEnded && !isChanged:
			w.fail("message %d of %s is lost", m.Seq, l)
		}
	}
}

// checkEnd checks the counts of the jobs that have ended.
func (w *world) checkEnd() {
	for _, j := range w.jobs {
		counts, want := dlq.JobCounts{}, dlq.JobCounts{}
		for _, l := range j.lanes {
			counts.Retried += l.counts.Retried
			counts.Failed += l.counts.Failed + l.counts.Dead
			counts.Skipped += l.counts.Skipped
			if l.waiting > 0 || len(w.owned(l)) > 0 {
				w.fail("%s ends, and %d wait", l, l.waiting)
			}
		}
		for _, result := range j.settled {
			switch {
			case result == dlq.ResultDelivered:
				want.Retried++
			case result.IsUncounted():
				want.Skipped++
			default:
				want.Failed++
			}
		}
		if counts != want {
			w.fail("%s counts %+v, and ended %+v", j.token, counts, want)
		}
	}
}
