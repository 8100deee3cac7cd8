package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dlqmanager/dlq"
)

// begin ends the page in hand, locks the lane, and reads the state of the lane and of the job. Most steps claim
// messages after the cursor, so begin lists these messages in the same round trip.
func (t *step) begin(ctx context.Context) error {
	isOpen := false
	err := t.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
		batch.Queue(lanePlanSQL)
		t.queueEnds(batch)
		if t.claims || slices.ContainsFunc(t.outcomes, func(o dlq.PageOutcome) bool { return o.Result.IsUncounted() }) {
			queueRows(batch, lockLimitsSQL, t.args, nil, func() { t.isLocked = true })
		}
		r, j := &t.row, &t.job
		queueRows(batch, lockLaneSQL, t.args, []any{&r.pages, &r.cursor, &r.waiting, &r.counts.Retried, &r.counts.Failed, &r.counts.Dead, &r.counts.Skipped,
			&t.page}, func() { isOpen = true })
		queueRows(batch, jobOfLaneSQL, t.args, []any{&j.isRunning, &j.limits.Rate, instant{&j.limits.NextAt}, &j.limits.Step, instant{&j.now},
			&j.hasQueues, &j.hasOthers}, func() {})
		if t.claims && !t.isBounded() {
			t.queueScan(batch)
		}
	})
	if err == nil && !isOpen {
		err = fmt.Errorf("lane %d of bulk retry %s: %w", t.lane.Number, t.lane.Job, dlq.ErrFenced)
	}
	if err == nil && len(t.unnamed) > 0 {
		args := acknowledgedArgs(t.lane.Owner, t.outcomes)
		args["unnamed"] = t.unnamed
		err = t.send(ctx, func(batch *pgx.Batch) {
			batch.Queue(noteTargetsSQL, args)
			batch.Queue(nameTargetsSQL, args)
		})
	}
	t.known, t.knownPage = t.row, slices.Clone(t.page)
	return err
}

// queueQueues reads the closed targets, and the queue of the lane that is due first.
func (t *step) queueQueues(batch *pgx.Batch) {
	t.queue, t.claim.Closed = nil, nil
	var closed dlq.Target
	queueRows(batch, closedTargetsSQL, t.args, []any{&closed.Topic, &closed.Partition}, func() {
		t.claim.Closed = append(t.claim.Closed, closed)
	})
	var q laneQueue
	var due time.Time
	queueRows(batch, nextQueueSQL, t.args, []any{&q.id, &q.Target.Topic, &q.Target.Partition, &q.Key, &q.isClosed, &q.Tries, instant{&due},
		&q.Reason, (*string)(&q.Category)}, func() {
		q.Tries, q.Due = max(q.Tries, 0), max(due.Sub(t.job.now), 0)
		t.queue = &q
	})
}

// queueEnds ends the claims of the page in hand.
func (t *step) queueEnds(batch *pgx.Batch) {
	t.ended = make(map[dlq.ID]*dlq.EndedClaim, len(t.outcomes))
	if len(t.outcomes) == 0 {
		return
	}
	var m dlq.EndedClaim
	var ids [][16]byte
	var isUnnamed bool
	all := make([]dlq.EndedClaim, 0, len(t.outcomes))
	columns := []any{&ids, &m.Seq, &m.KeyHash, &m.OriginalTopic, (*string)(&m.Status), &isUnnamed}
	queueRows(batch, endPageSQL, endArgs(t.lane.Owner, t.outcomes), columns, func() {
		t.target(&m.Candidate)
		for _, m.ID = range ids {
			all = append(all, m)
			t.ended[m.ID] = &all[len(all)-1]
		}
		if isUnnamed {
			t.unnamed = append(t.unnamed, ids...)
		}
	})
}

// endArgs are the parameters of endPageSQL.
func endArgs(owner dlq.Owner, outcomes []dlq.PageOutcome) pgx.NamedArgs {
	var results []dlq.Result
	var targets []dlq.Acknowledgement // without partitions and offsets
	ofResults, ofTargets := make([]int, len(outcomes)), make([]int, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		ofResults[i] = numberOf(&results, o.Result)
		if topic, _ := o.Acknowledgement.Target(); topic != nil {
			ofTargets[i] = numberOf(&targets, dlq.Acknowledgement{Topic: *topic, TopicID: o.Acknowledgement.TopicID})
		}
	}
	ends := column(results, func(r *dlq.Result) finalStatuses { return finalStatusesOf(*r) })
	args := acknowledgedArgs(owner, outcomes)
	maps.Copy(args, pgx.NamedArgs{"results": ofResults, "targets": ofTargets,
		"left_statuses":    column(ends, func(e *finalStatuses) string { return e.retriesLeft }),
		"none_statuses":    column(ends, func(e *finalStatuses) string { return e.noneLeft }),
		"left_resolutions": column(ends, func(e *finalStatuses) *string { return e.retriesLeftResolution }),
		"none_resolutions": column(ends, func(e *finalStatuses) *string { return e.noneLeftResolution }),
		"deltas":           column(ends, func(e *finalStatuses) int { return e.countDelta }),
		"topics":           column(targets, func(a *dlq.Acknowledgement) string { return a.Topic }),
		"topic_ids":        column(targets, func(a *dlq.Acknowledgement) *[16]byte { return nilIf([16]byte(a.TopicID), a.TopicID.IsZero()) })})
	return args
}

// numberOf returns the place of a value in a list, counted from 1, and appends a new value.
func numberOf[T comparable](list *[]T, value T) int {
	i := slices.Index(*list, value)
	if i < 0 {
		i = len(*list)
		*list = append(*list, value)
	}
	return i + 1
}

// acknowledgedArgs are the parameters that name the claims to end, and where the targets have the messages.
func acknowledgedArgs(owner dlq.Owner, outcomes []dlq.PageOutcome) pgx.NamedArgs {
	n := len(outcomes)
	partitions, offsets, topics, topicIDs := make([]*int32, n), make([]*int64, n), make([]*string, n), make([]*[16]byte, n)
	for i := range outcomes {
		partitions[i], offsets[i] = outcomes[i].Acknowledgement.Columns()
		topic, topicID := outcomes[i].Acknowledgement.Target()
		topics[i], topicIDs[i] = topic, (*[16]byte)(topicID)
	}
	return pgx.NamedArgs{"workflow_id": owner.WorkflowID, "token": owner.Token,
		"ids":               column(outcomes, func(o *dlq.PageOutcome) [16]byte { return o.ID }),
		"claims":            column(outcomes, func(o *dlq.PageOutcome) int { return o.RetryCount }),
		"target_partitions": partitions, "target_offsets": offsets, "target_topics": topics, "target_topic_ids": topicIDs}
}

// target sets the Target and the Key of a message of the job.
func (t *step) target(m *dlq.Candidate) {
	m.Target = t.targetOf(m.OriginalTopic, t.lane.Spec.TargetTopic)
	m.Key = dlq.TargetKey(m.KeyHash, m.Target)
}

// targetOf is where messages of an original topic go; requested is the target that a job names, or empty.
func (s *Store) targetOf(originalTopic, requested string) string {
	return cmp.Or(requested, s.Targets.Route(originalTopic))
}

// isBounded tells whether the lane reads at most 10,000 messages for a page.
func (t *step) isBounded() bool { return t.lane.Bounded || isSearch(&t.lane.Spec.Filter) }

// queueScan lists the messages after the cursor.
func (t *step) queueScan(batch *pgx.Batch) {
	f := &t.lane.Spec.Filter
	if !t.scans || f.Key != nil && !t.lane.Has(dlq.KeyHash(f.Key, dlq.ID{})) {
		return // another lane has the key
	}
	var place pgtype.TID
	var isUnlocked bool
	t.places = make(map[dlq.ID]pgtype.TID, dlq.PageSize+1)
	t.listing.Candidates = make([]dlq.Candidate, 0, dlq.PageSize+1)
	list := func(m dlq.Candidate) {
		t.places[m.ID], t.mustLock = place, t.mustLock || !isUnlocked
		t.listing.Candidates = append(t.listing.Candidates, m)
	}
	t.queueCandidates(batch, filtered(listNextSQL, f), []any{&place, &isUnlocked}, list)
	if !t.topics.IsDeadLetter(f.Topic) {
		t.queueCandidates(batch, filtered(listNextOfOriginalSQL, f), []any{&place, &isUnlocked}, list)
	}
}

// queueCandidates adds a statement that lists messages. For each message, the further columns go into more and add is called.
func (t *step) queueCandidates(batch *pgx.Batch, sql string, more []any, add func(dlq.Candidate)) {
	var id dlq.ID
	var seq int64
	var keyHash, size *int32
	var topic *string
	queueRows(batch, sql, t.args, append([]any{(*[16]byte)(&id), &seq, &keyHash, &topic, &size}, more...), func() {
		m := dlq.Candidate{ID: id, Seq: seq}
		if keyHash != nil { // not deleted
			m.KeyHash, m.OriginalTopic, m.Size = *keyHash, *topic, int64(*size)
			t.target(&m)
		}
		add(m)
	})
}

// readQueues writes the changes of queues that follow from the outcomes, and reads the queues. A target that is open needs no change.
func (t *step) readQueues(ctx context.Context) error {
	if t.job.hasQueues {
		if err := t.send(ctx, t.queueQueues); err != nil {
			return err
		}
	}
	t.settled.Opened = slices.DeleteFunc(t.settled.Opened, func(o dlq.Target) bool { return !slices.Contains(t.claim.Closed, o) })
	if len(t.settled.Queues)+len(t.settled.Opened) == 0 {
		return nil
	}
	return t.send(ctx, func(batch *pgx.Batch) {
		t.queueSettled(batch)
		t.queueQueues(batch)
	})
}

// choose decides which messages the step claims.
func (t *step) choose(ctx context.Context) error {
	c := &t.claim
	quota, wait := t.job.limits.Quota(t.job.now)
	c.Stopped, c.Limited, c.StepLimitReached, c.Wait = !t.job.isRunning, t.job.limits.Exist(), t.job.isRunning && quota <= 0, wait
	if c.Limited && !t.isLocked { // the limits were set after begin looked for limits
		c.Wait = nextClaimDelay
	}
	if t.job.isRunning { // even at a limit: a claim whose answer was lost may have used it up
		if err := t.keepOwned(ctx); err != nil {
			return err
		}
		if len(t.page) > 0 {
			return fmt.Errorf("lane %d of bulk retry %s: %w", t.lane.Number, t.lane.Job, dlq.ErrUnfinished)
		}
	}
	isAllowed := t.job.isRunning && quota > 0 && c.Wait == 0
	isDue := t.queue != nil && t.queue.Due == 0
	fromQueue := isAllowed && isDue && (!t.scans || !t.lane.ScanFirst)
	isScan := isAllowed && !fromQueue && t.scans
	t.listing.Ordered, t.listing.Quota = t.lane.Spec.Order != dlq.OrderNone, quota
	if !isScan {
		t.listing.Candidates = nil
	}
	var err error
	switch {
	case fromQueue:
		err = t.listQueue(ctx)
	case isScan:
		err = t.listScan(ctx)
	}
	if err == nil {
		err = t.look(ctx)
	}
	if err != nil {
		return err
	}
	t.plan = t.listing.Plan()
	mayFollow := isDue || len(t.listing.Candidates) > 0 || t.row.cursor < t.lane.UpperBound
	switch {
	case len(t.plan.Claim) > 0:
	case fromQueue, isScan && mayFollow: // the messages that were read do not match, or wait in queues now
		c.Wait = nextClaimDelay
	case isAllowed && t.queue != nil:
		c.Next = &t.queue.Queue
	}
	return nil
}

// listScan makes a page of the messages after the cursor, and moves the cursor to the end of the page.
func (t *step) listScan(ctx context.Context) error {
	end := t.lane.UpperBound
	if t.isBounded() {
		err := t.send(ctx, func(batch *pgx.Batch) {
			var seq int64
			queueRows(batch, scanEndSQL, t.args, []any{&seq}, func() {
				end = min(end, max(seq-1, t.row.cursor+1)) // even if thousands share a seq, the cursor moves
			})
		})
		if err == nil {
			t.args["end"] = end
			err = t.send(ctx, t.queueScan)
		}
		if err != nil {
			return err
		}
	}
	l := &t.listing
	slices.SortFunc(l.Candidates, bySeq)
	if l.Fit() {
		end = l.Candidates[len(l.Candidates)-1].Seq
	}
	t.row.cursor = max(t.row.cursor, end)
	return nil
}

func bySeq(a, b dlq.Candidate) int { return cmp.Compare(a.Seq, b.Seq) }

// listQueue lists the messages of the queue that is due. Queues of keys that were not tried yet share a page.
func (t *step) listQueue(ctx context.Context) error {
	q, l, queueOf := t.queue, &t.listing, map[dlq.ID]int64{}
	maps.Copy(t.args, pgx.NamedArgs{"queue": q.id, "now": timestamptz(t.job.now), "is_shared": q.OfKey() && q.Tries == 0, "from_queue": true})
	var queue int64
	var isGone bool
	mayTry := !q.isClosed
	err := t.send(ctx, func(batch *pgx.Batch) {
		if q.isClosed {
			queueRows(batch, tryQueueSQL, t.args, nil, func() { mayTry = true })
		}
		t.queueCandidates(batch, listQueueSQL, []any{&queue, &isGone}, func(m dlq.Candidate) {
			queueOf[m.ID], m.IsGone = queue, isGone
			if m.WaitsIn = q.QueueID; queue != q.id {
				m.WaitsIn = dlq.KeyQueue(m.Target, m.Key)
			}
			l.Candidates = append(l.Candidates, m)
		})
	})
	if !mayTry {
		l.Candidates = nil // another lane tries the target
		return err
	}
	slices.SortFunc(l.Candidates, bySeq)
	t.queueOf = queueOf
	t.args["queues"] = append(slices.Compact(slices.Sorted(maps.Values(queueOf))), q.id)
	l.Closed, l.Tries = q.isClosed, q.Tries
	t.claim.Queue = &q.Queue
	return err
}

// look writes the settlement, locks the candidates, and reads the facts that the plan needs. It skips all this if the lane
// need not know of any earlier message of the keys. Then the claim fails if another transaction has locked or changed a
// candidate since it was listed: see write.
func (t *step) look(ctx context.Context) error {
	if !t.mustLock && t.queueOf == nil && t.row.waiting == 0 && !t.job.hasOthers {
		return nil
	}
	t.mustLock = true
	l := &t.listing
	args := t.with(candidateArgs(l.Candidates))
	var id dlq.ID
	var place pgtype.TID
	t.places = make(map[dlq.ID]pgtype.TID, len(l.Candidates))
	err := t.send(ctx, func(batch *pgx.Batch) {
		t.queueSettled(batch)
		if len(l.Candidates) == 0 {
			return
		}
		queueRows(batch, lockListedSQL, args, []any{(*[16]byte)(&id), &place}, func() { t.places[id] = place })
		if !l.Ordered {
			return
		}
		if t.row.waiting > 0 {
			t.queueEarlier(batch, args)
		}
		t.queueRetried(batch, retriedSinglySQL, args)
		if t.job.hasOthers {
			t.queueRetried(batch, retriedByJobsSQL, args)
		}
	})
	for i := range l.Candidates {
		m := &l.Candidates[i]
		_, isLocked := t.places[m.ID]
		m.IsHeld = m.IsHeld || !isLocked
	}
	return err
}

// candidateArgs are the ids, keys and targets of messages.
func candidateArgs(of []dlq.Candidate) pgx.NamedArgs {
	return pgx.NamedArgs{
		"ids":        column(of, func(m *dlq.Candidate) [16]byte { return m.ID }),
		"seqs":       column(of, func(m *dlq.Candidate) int64 { return m.Seq }),
		"keys":       column(of, func(m *dlq.Candidate) int32 { return m.Key }),
		"key_hashes": column(of, func(m *dlq.Candidate) int32 { return m.KeyHash }),
		"targets":    column(of, func(m *dlq.Candidate) string { return m.Target }),
	}
}

// queueEarlier reads the earlier messages of the candidates' keys that wait in other queues of the lane.
func (t *step) queueEarlier(batch *pgx.Batch, args pgx.NamedArgs) {
	var e dlq.Earlier
	var q dlq.QueueID
	queueRows(batch, earlierWaitingSQL, args, []any{&e.Key, &e.Seq, &q.Target.Topic, &q.Target.Partition, &q.Key}, func() {
		queue := q
		t.listing.Earlier = append(t.listing.Earlier, dlq.Earlier{Key: e.Key, Seq: e.Seq, Queue: &queue})
	})
}

// queueRetried reads messages that other owners retry. The target of a single retry is unknown. queueRetried
// assumes the target to which this job would send the message.
func (t *step) queueRetried(batch *pgx.Batch, sql string, args pgx.NamedArgs) {
	var keyHash int32
	var topic, requested string
	var seq int64
	queueRows(batch, sql, args, []any{&keyHash, &topic, &seq, &requested}, func() {
		t.listing.Earlier = append(t.listing.Earlier, dlq.Earlier{Key: dlq.TargetKey(keyHash, t.targetOf(topic, requested)), Seq: seq})
	})
}
