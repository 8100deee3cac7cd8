package dlq_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

const quota = dlq.PageSize

// candidate is a message of the topic orders.
func candidate(seq int64, keyHash int32) dlq.Candidate {
	return dlq.Candidate{ID: dlq.ID{15: byte(seq)}, Seq: seq, OriginalTopic: "orders", Target: "orders",
		KeyHash: keyHash, Key: dlq.TargetKey(keyHash, "orders"), Size: 1}
}

func held(m dlq.Candidate) dlq.Candidate { m.IsHeld = true; return m }
func gone(m dlq.Candidate) dlq.Candidate { m.IsHeld, m.IsGone = true, true; return m }
func sized(m dlq.Candidate, size int64) dlq.Candidate {
	m.Size = size
	return m
}

// in are candidates that wait in a queue.
func in(queue *dlq.QueueID, of ...dlq.Candidate) []dlq.Candidate {
	for i := range of {
		of[i].WaitsIn = *queue
	}
	return of
}

// key is the key number of a record key's hash in the topic orders, and queueOf the queue of that key.
func key(keyHash int32) int32 { return dlq.TargetKey(keyHash, "orders") }

func queueOf(keyHash int32) *dlq.QueueID {
	q := dlq.KeyQueue("orders", key(keyHash))
	return &q
}

func partition(n int32) *dlq.QueueID {
	return &dlq.QueueID{Target: dlq.Target{Topic: "orders", Partition: n}, Key: dlq.NoKey}
}

func seqs(of []dlq.Candidate) (seqs []int64) {
	for _, m := range of {
		seqs = append(seqs, m.Seq)
	}
	return seqs
}

// created are the queues that a plan creates.
func created(p *dlq.Plan) (ids []dlq.QueueID) {
	for i := range p.Created {
		ids = append(ids, p.Created[i].QueueID)
	}
	return ids
}

// waits are the queues that messages go into, by seq.
func waits(of []dlq.Candidate) map[int64]dlq.QueueID {
	waits := map[int64]dlq.QueueID{}
	for _, w := range of {
		waits[w.Seq] = w.WaitsIn
	}
	return waits
}

func TestMessagesAfterTheCursorAreClaimedUnlessTheyAreBlocked(t *testing.T) {
	t.Parallel()
	type queues = map[int64]dlq.QueueID
	messages := func(m ...dlq.Candidate) []dlq.Candidate { return m }
	for _, test := range []struct {
		name       string
		isNone     bool // the order of keys is not kept
		candidates []dlq.Candidate
		earlier    []dlq.Earlier
		claim      []int64
		wait       queues
		created    []dlq.QueueID
	}{
		{name: "none"},
		{name: "free messages", candidates: messages(candidate(1, 7), candidate(2, 8), candidate(3, 7)), claim: []int64{1, 2, 3}},
		{name: "a held message and the later messages of its key", candidates: messages(candidate(1, 7), held(candidate(2, 7)), candidate(3, 8), candidate(4, 7)),
			claim: []int64{1, 3}, wait: queues{2: *queueOf(7), 4: *queueOf(7)}, created: []dlq.QueueID{*queueOf(7)}},
		{name: "a queue is created once", candidates: messages(held(candidate(1, 7)), held(candidate(2, 7)), held(candidate(3, 8))),
			wait: queues{1: *queueOf(7), 2: *queueOf(7), 3: *queueOf(8)}, created: []dlq.QueueID{*queueOf(7), *queueOf(8)}},
		{name: "an earlier message of the key is retried", candidates: messages(candidate(2, 7), candidate(3, 8)), earlier: []dlq.Earlier{{Key: key(7), Seq: 1}},
			claim: []int64{3}, wait: queues{2: *queueOf(7)}, created: []dlq.QueueID{*queueOf(7)}},
		{name: "a later message of the key is retried", candidates: messages(candidate(2, 7)), earlier: []dlq.Earlier{{Key: key(7), Seq: 3}}, claim: []int64{2}},
		{name: "a message between two of the key is retried", candidates: messages(candidate(2, 7), candidate(4, 7)), earlier: []dlq.Earlier{{Key: key(7), Seq: 3}},
			claim: []int64{2}, wait: queues{4: *queueOf(7)}, created: []dlq.QueueID{*queueOf(7)}},
		{name: "an earlier message of the key waits for a target", candidates: messages(candidate(2, 7), candidate(3, 7), candidate(4, 8)),
			earlier: []dlq.Earlier{{Key: key(7), Seq: 1, Queue: partition(1)}}, claim: []int64{4}, wait: queues{2: *partition(1), 3: *partition(1)}},
		{name: "an earlier message of the key waits, and another is retried", candidates: messages(candidate(3, 7)),
			earlier: []dlq.Earlier{{Key: key(7), Seq: 1}, {Key: key(7), Seq: 2, Queue: partition(1)}}, wait: queues{3: *partition(1)}},
		{name: "an earlier message of the key waits for the key", candidates: messages(candidate(2, 7)),
			earlier: []dlq.Earlier{{Key: key(7), Seq: 1, Queue: queueOf(7)}}, wait: queues{2: *queueOf(7)}},
		{name: "without an order only the held message waits", isNone: true, candidates: messages(held(candidate(2, 7)), candidate(3, 7)),
			earlier: []dlq.Earlier{{Key: key(7), Seq: 1, Queue: partition(1)}}, claim: []int64{3}, wait: queues{2: *queueOf(7)}, created: []dlq.QueueID{*queueOf(7)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := dlq.Listing{Candidates: test.candidates, Earlier: test.earlier, Ordered: !test.isNone, Quota: quota}
			p := l.Plan()
			require.Equal(t, test.claim, seqs(p.Claim))
			if test.wait == nil {
				test.wait = queues{}
			}
			require.Equal(t, test.wait, waits(p.Wait))
			require.Equal(t, test.created, created(&p))
			require.Empty(t, p.Gone)
			require.EqualValues(t, len(test.claim), p.Bytes())
		})
	}
}

func TestAMessageWaitsForAnEarlierOneOfItsKeyInAnotherQueue(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Candidates: in(partition(0), candidate(2, 7), candidate(3, 8), candidate(5, 7)), Ordered: true, Quota: quota,
		Earlier: []dlq.Earlier{{Key: key(7), Seq: 4, Queue: partition(1)}}}
	p := l.Plan()
	require.Equal(t, []int64{2, 3}, seqs(p.Claim))
	require.Equal(t, map[int64]dlq.QueueID{5: *partition(1)}, waits(p.Wait))
	require.Empty(t, p.Created)
}

func TestABlockedMessageStaysInTheQueueOfItsKey(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Candidates: in(queueOf(7), candidate(1, 7), held(candidate(2, 7)), candidate(3, 7)), Ordered: true, Quota: quota}
	p := l.Plan()
	require.Equal(t, []int64{1}, seqs(p.Claim))
	require.Equal(t, []int64{2, 3}, seqs(p.Stay))
	require.Empty(t, p.Wait)
	require.Empty(t, p.Created)

	l.Earlier = []dlq.Earlier{{Key: key(7), Seq: 0}}
	p = l.Plan()
	require.Equal(t, []int64{1, 2, 3}, seqs(p.Stay))
	require.Empty(t, slices.Concat(p.Claim, p.Gone))
	require.Empty(t, p.Wait)
}

func TestThePageOfSeveralKeysClaimsThoseThatAreFree(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Ordered: true, Quota: 2, Candidates: slices.Concat(in(queueOf(7), held(candidate(1, 7))), in(queueOf(8), candidate(2, 8)),
		in(queueOf(7), candidate(3, 7)), in(queueOf(9), candidate(4, 9)), in(queueOf(10), candidate(5, 10)))}
	p := l.Plan()
	require.Equal(t, []int64{2, 4}, seqs(p.Claim), "the page is full")
	require.Equal(t, []int64{1, 3}, seqs(p.Stay))
	require.Empty(t, p.Wait)
	require.Empty(t, p.Created)
}

func TestAHeldMessageLeavesTheQueueOfItsTarget(t *testing.T) {
	t.Parallel()
	for _, isClosed := range []bool{false, true} {
		l := dlq.Listing{Candidates: in(partition(0), held(candidate(1, 7)), candidate(2, 7), candidate(3, 8)), Ordered: true, Quota: quota, Closed: isClosed}
		p := l.Plan()
		require.Equal(t, []int64{3}, seqs(p.Claim))
		require.Equal(t, map[int64]dlq.QueueID{1: *queueOf(7), 2: *queueOf(7)}, waits(p.Wait))
		require.Equal(t, []dlq.QueueID{*queueOf(7)}, created(&p))
	}
}

func TestAMessageThatIsGoneBlocksNone(t *testing.T) {
	t.Parallel()
	for _, queue := range []*dlq.QueueID{queueOf(7), partition(0)} {
		l := dlq.Listing{Candidates: in(queue, gone(candidate(1, 7)), candidate(2, 7), gone(candidate(3, 7)), candidate(4, 7)), Ordered: true, Quota: quota}
		p := l.Plan()
		require.Equal(t, []int64{1, 3}, seqs(p.Gone))
		require.Equal(t, []int64{2, 4}, seqs(p.Claim))
		require.Empty(t, p.Wait)

		l.Closed = true
		p = l.Plan()
		require.Equal(t, []int64{1, 3}, seqs(p.Gone))
		require.Equal(t, []int64{2}, seqs(p.Claim), "the first of the key that is left")
	}
}

func TestAPageOfAQueueHasAtMostTheQuotaAndPageBytesAndAtLeastAMessage(t *testing.T) {
	t.Parallel()
	const half, whole = dlq.PageBytes / 2, dlq.PageBytes
	for _, test := range []struct {
		name  string
		quota int
		sizes []int64
		claim []int64
	}{
		{"all fit", 3, []int64{half, half - 1, 1}, []int64{1, 2, 3}},
		{"the quota", 2, []int64{1, 1, 1}, []int64{1, 2}},
		{"the bytes", 3, []int64{half, half, 1}, []int64{1, 2}},
		{"none passes a message that does not fit", 3, []int64{half, half + 1, 1}, []int64{1}},
		{"a message that is larger than a page comes alone", 3, []int64{whole + 1, 1}, []int64{1}},
		{"also if empty messages follow", 3, []int64{whole + 1, 0}, []int64{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := dlq.Listing{Ordered: true, Quota: test.quota}
			for i, size := range test.sizes {
				l.Candidates = append(l.Candidates, sized(candidate(int64(i+1), int32(i)), size))
			}
			in(partition(0), l.Candidates...)
			p := l.Plan()
			require.Equal(t, test.claim, seqs(p.Claim))
			require.Empty(t, p.Wait, "the rest stays in its queue")

			in(&dlq.QueueID{}, l.Candidates...)
			require.Equal(t, len(test.claim) < len(test.sizes), l.Fit())
			p = l.Plan()
			require.Equal(t, test.claim, seqs(p.Claim), "Fit and Plan agree")
		})
	}
}

func TestMessagesThatWaitCountForNeitherTheQuotaNorTheBytesOfAQueue(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Ordered: true, Quota: 1, Candidates: in(partition(0),
		gone(sized(candidate(1, 7), dlq.PageBytes)), held(sized(candidate(2, 7), dlq.PageBytes)), sized(candidate(3, 8), dlq.PageBytes), candidate(4, 9), held(candidate(5, 10)))}
	p := l.Plan()
	require.Equal(t, []int64{3}, seqs(p.Claim))
	require.Equal(t, map[int64]dlq.QueueID{2: *queueOf(7), 5: *queueOf(10)}, waits(p.Wait), "4 stays where it is")
}

func TestFitCountsHeldMessages(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Quota: 2, Candidates: []dlq.Candidate{held(candidate(1, 7)), candidate(2, 8)}}
	require.False(t, l.Fit())
	l.Candidates = append(l.Candidates, candidate(3, 9))
	require.True(t, l.Fit())
	require.Len(t, l.Candidates, 2)
	none := dlq.Listing{Quota: 2}
	require.False(t, none.Fit())
}

func TestThePlaceOfTheCursorIsNotBetweenMessagesThatShareASeq(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		quota int
		seqs  []int64
		page  []int64
		held  int // of the page
		isCut bool
	}{
		{"all fit", 3, []int64{1, 2, 2}, []int64{1, 2, 2}, 0, false},
		{"the next page has both", 2, []int64{1, 2, 2, 3}, []int64{1}, 0, true},
		{"those after them are cut off", 3, []int64{1, 2, 2, 3}, []int64{1, 2, 2}, 0, true},
		{"the first do not fit", 1, []int64{1, 1, 1, 2}, []int64{1, 1, 1}, 2, true},
		{"no message follows those that do not fit", 2, []int64{1, 1, 1}, []int64{1, 1, 1}, 1, false},
	} {
		l := dlq.Listing{Quota: test.quota}
		for i, seq := range test.seqs {
			m := candidate(seq, int32(i))
			m.ID[0] = byte(i)
			l.Candidates = append(l.Candidates, m)
		}
		require.Equal(t, test.isCut, l.Fit(), test.name)
		var page []int64
		for i, m := range l.Candidates {
			page = append(page, m.Seq)
			require.Equal(t, i >= len(l.Candidates)-test.held, m.IsHeld, test.name)
		}
		require.Equal(t, test.page, page, test.name)
	}
}

func TestEachTryOfAClosedTargetIsASingleMessageOfAnotherKey(t *testing.T) {
	t.Parallel()
	l := dlq.Listing{Ordered: true, Quota: quota, Closed: true,
		Candidates: in(partition(0), candidate(1, 7), candidate(2, 7), candidate(3, 8), held(candidate(4, 9)), candidate(5, 9), candidate(6, 10))}
	for tries, first := range []int64{1, 3, 6, 1, 3} {
		l.Tries = tries
		p := l.Plan()
		require.Equal(t, []int64{first}, seqs(p.Claim))
		require.Equal(t, 3, p.Keys, "the key that is blocked cannot try")
		require.Equal(t, map[int64]dlq.QueueID{4: *queueOf(9), 5: *queueOf(9)}, waits(p.Wait))
	}
	l.Candidates = []dlq.Candidate{held(candidate(4, 9)), gone(candidate(6, 10))}
	p := l.Plan()
	require.Empty(t, p.Claim)
	require.Zero(t, p.Keys)
}

func TestTheKeyNumberDiffersBetweenTargets(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, dlq.TargetKey(7, "orders"), dlq.TargetKey(7, "bills"))
	require.NotEqual(t, dlq.TargetKey(7, "orders"), dlq.TargetKey(8, "orders"))
	for keyHash := range int32(1000) {
		require.GreaterOrEqual(t, dlq.TargetKey(keyHash<<20, "orders"), int32(0))
	}
}

func TestTheQuotaIsATenthOfASecondOfTheRateAndTheRestOfTheStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	step := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		name   string
		limits dlq.JobLimits
		quota  int
		wait   time.Duration
		exist  bool
	}{
		{"no limit", dlq.JobLimits{NextAt: now.Add(time.Hour)}, dlq.PageSize, 0, false},
		{"a rate", dlq.JobLimits{Rate: 200}, 20, 0, true},
		{"a low rate", dlq.JobLimits{Rate: 3}, 1, 0, true},
		{"a high rate", dlq.JobLimits{Rate: 100_000}, dlq.PageSize, 0, true},
		{"a rate that allows none now", dlq.JobLimits{Rate: 200, NextAt: now.Add(time.Second)}, 20, time.Second, true},
		{"a step", dlq.JobLimits{Step: step(7)}, 7, 0, true},
		{"a large step", dlq.JobLimits{Step: step(1 << 40)}, dlq.PageSize, 0, true},
		{"a step that is reached", dlq.JobLimits{Step: step(0)}, 0, 0, true},
		{"a rate and a step", dlq.JobLimits{Rate: 50, Step: step(7)}, 5, 0, true},
		{"a step and a rate", dlq.JobLimits{Rate: 500, Step: step(7)}, 7, 0, true},
	} {
		quota, wait := test.limits.Quota(now)
		require.Equal(t, test.quota, quota, test.name)
		require.Equal(t, test.wait, wait, test.name)
		require.Equal(t, test.exist, test.limits.Exist(), test.name)
	}
}

func TestAtMostTwoTenthsOfASecondOfTheRateGoOutAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := dlq.JobLimits{Rate: 100, NextAt: now.Add(-time.Hour)}
	sent := 0
	send := func() {
		for {
			n, wait := l.Quota(now)
			if wait > 0 {
				return
			}
			l.Charge(n, now)
			sent += n
		}
	}
	send()
	require.Equal(t, 20, sent)
	for range 50 {
		now = now.Add(20 * time.Millisecond)
		send()
	}
	require.LessOrEqual(t, sent, 120, "a second later")
	require.GreaterOrEqual(t, sent, 110)
}

func TestRequeuedMessagesAreRefunded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	given := int64(10)
	l := dlq.JobLimits{Rate: 10, NextAt: now, Step: &given}
	l.Charge(4, now)
	require.Equal(t, now.Add(400*time.Millisecond), l.NextAt)
	require.EqualValues(t, 6, *l.Step)
	l.Refund(3)
	require.Equal(t, now.Add(100*time.Millisecond), l.NextAt)
	require.EqualValues(t, 9, *l.Step)
	require.EqualValues(t, 10, given, "the value that was read does not change")

	none := dlq.JobLimits{NextAt: now}
	none.Charge(4, now)
	none.Refund(4)
	require.Equal(t, dlq.JobLimits{NextAt: now}, none)
}
