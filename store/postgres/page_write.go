package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dlqmanager/dlq"
)

// settle counts the messages whose claims have ended, and removes them from the page.
func (t *step) settle(ctx context.Context) error {
	r, settled := &t.row, &t.settled
	r.counts = r.counts.Plus(settled.Counts)
	r.waiting += int64(len(settled.Wait))
	t.requeued = len(settled.Wait)
	t.job.limits.Refund(t.requeued)
	t.result = dlq.PageResult{Counts: r.counts, Ended: len(t.ended)}
	if len(t.outcomes) == 0 {
		return nil
	}
	t.page = slices.DeleteFunc(t.page, func(id [16]byte) bool { return t.ended[id] != nil })
	return t.keepOwned(ctx)
}

// keepOwned keeps in the lane's page only the messages that the lane still owns.
func (t *step) keepOwned(ctx context.Context) error {
	if len(t.page) == 0 {
		return nil
	}
	var id [16]byte
	owned := map[[16]byte]bool{}
	err := t.send(ctx, func(batch *pgx.Batch) {
		queueRows(batch, ownedSQL, t.args, []any{&id, nil, nil, nil, nil, nil}, func() { owned[id] = true })
	})
	t.page = slices.DeleteFunc(t.page, func(id [16]byte) bool { return !owned[id] })
	return err
}

// write writes the plan and the lane's row, and commits. It also reads the records of the claimed messages,
// unless these messages have more than dlq.PageBytes.
func (t *step) write(ctx context.Context) error {
	t.claim.Bytes = t.plan.Bytes()
	err := t.send(ctx, func(batch *pgx.Batch) {
		t.queueSettled(batch)
		if len(t.plan.Claim) > 0 {
			t.queueClaims(batch)
		}
		t.queuePlan(batch)
		t.queueLane(batch)
		if l := &t.job.limits; l.Exist() && t.isLocked && t.requeued+len(t.plan.Claim) > 0 {
			l.Charge(len(t.plan.Claim), t.job.now)
			batch.Queue(chargeJobSQL, pgx.NamedArgs{"job": t.args["job"], "step_limit": l.Step, "next_at": timestamptz(l.NextAt)})
		}
		batch.Queue(`COMMIT`)
	})
	if len(t.plan.Claim) > 0 && !t.mustLock && (isBlocked(err) || isOvertaken(err)) {
		err = errOvertaken
	}
	if err != nil {
		t.claim.Page = nil
	}
	return err
}

func (t *step) queueClaims(batch *pgx.Batch) {
	args := t.with(candidateArgs(t.plan.Claim))
	ids := column(t.plan.Claim, func(m *dlq.Candidate) [16]byte { return m.ID })
	t.page = append(t.page, ids...)
	page, byID := envelopesOf(t.plan.Claim)
	t.claim.Page = page
	if !t.mustLock {
		batch.Queue(shortWaitSQL)
	}
	args["places"] = column(t.plan.Claim, func(m *dlq.Candidate) pgtype.TID { return t.places[m.ID] })
	slices.SortFunc(ids, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	args["sorted_ids"], args["is_locked"] = ids, t.mustLock
	var claimed [][16]byte
	var counts []int
	queueRows(batch, claimListedSQL, args, []any{&claimed, &counts, nil}, func() {
		for i, id := range claimed {
			if e := byID[id]; e != nil {
				e.RetryCount = counts[i]
			}
		}
	})
	if t.listing.Ordered && !t.mustLock {
		batch.Queue(noSingleRetrySQL, args)
	}
	if t.row.counts.Failed+t.row.counts.Dead > 0 {
		queueBlocked(batch, args, byID)
	}
	if t.plan.Bytes() <= dlq.PageBytes {
		queueRecords(batch, args, byID)
	}
}

// queueSettled writes the settlement of the outcomes. A second call writes nothing.
func (t *step) queueSettled(batch *pgx.Batch) {
	settled := t.settled
	t.settled = dlq.Settlement{}
	if failed := settled.Failed; len(failed) > 0 {
		args := pgx.NamedArgs{"job": t.args["job"],
			"ids":        column(failed, func(o *dlq.PageOutcome) [16]byte { return o.ID }),
			"results":    column(failed, func(o *dlq.PageOutcome) string { return string(o.Result) }),
			"categories": column(failed, func(o *dlq.PageOutcome) string { return string(o.Category) }),
			"errors":     column(failed, func(o *dlq.PageOutcome) string { return dlq.StorableText(o.Error) })}
		batch.Queue(noteAttemptsSQL, args)
		if t.Outbox {
			batch.Queue(noteExhaustedSQL, args)
		}
	}
	if len(settled.FailedKeys) > 0 && t.lane.Spec.Order != dlq.OrderNone {
		batch.Queue(noteFailedKeysSQL, t.with(candidateArgs(settled.FailedKeys)))
	}
	t.noteQueues(batch, settled.Queues)
	t.queueWaiting(batch, settled.Wait)
	if opened := settled.Opened; len(opened) > 0 {
		batch.Queue(openTargetsSQL, pgx.NamedArgs{"job": t.args["job"],
			"topics":     column(opened, func(o *dlq.Target) string { return o.Topic }),
			"partitions": column(opened, func(o *dlq.Target) int32 { return o.Partition })})
	}
}

// noteQueues creates queues, and writes the states of the queues that were tried.
func (t *step) noteQueues(batch *pgx.Batch, queues []dlq.Queue) {
	if len(queues) == 0 {
		return
	}
	batch.Queue(noteQueuesSQL, pgx.NamedArgs{"job": t.args["job"], "lane": t.lane.Number,
		"topics":     column(queues, func(q *dlq.Queue) string { return q.Target.Topic }),
		"partitions": column(queues, func(q *dlq.Queue) int32 { return q.Target.Partition }),
		"keys":       column(queues, func(q *dlq.Queue) int32 { return q.Key }),
		"closed":     column(queues, (*dlq.Queue).IsClosed),
		"tries":      column(queues, func(q *dlq.Queue) int { return q.Tries }),
		"waits":      column(queues, func(q *dlq.Queue) float64 { return q.Due.Seconds() }),
		"reasons":    column(queues, func(q *dlq.Queue) string { return dlq.StorableText(q.Reason) }),
		"categories": column(queues, func(q *dlq.Queue) string { return string(q.Category) })})
}

// queueWaiting puts messages into queues.
func (t *step) queueWaiting(batch *pgx.Batch, waiting []dlq.Candidate) {
	if len(waiting) == 0 {
		return
	}
	args := t.with(candidateArgs(waiting))
	args["topics"] = column(waiting, func(m *dlq.Candidate) string { return m.WaitsIn.Target.Topic })
	args["partitions"] = column(waiting, func(m *dlq.Candidate) int32 { return m.WaitsIn.Target.Partition })
	args["queue_keys"] = column(waiting, func(m *dlq.Candidate) int32 { return m.WaitsIn.Key })
	batch.Queue(waitSQL, args)
}

// queuePlan moves messages into queues and out of them, and updates the queues that the page comes from.
func (t *step) queuePlan(batch *pgx.Batch) {
	p, l := &t.plan, &t.listing
	t.noteQueues(batch, p.Created)
	if t.queueOf == nil {
		t.row.waiting += int64(len(p.Wait))
		t.queueWaiting(batch, p.Wait)
		return
	}
	t.row.waiting = max(t.row.waiting-int64(len(p.Claim)+len(p.Gone)), 0)
	if left := slices.Concat(p.Claim, p.Gone, p.Wait); len(left) > 0 {
		args := t.with(candidateArgs(left))
		args["left_queues"] = t.queuesOf(left)
		batch.Queue(leaveQueueSQL, args)
		t.queueWaiting(batch, p.Wait)
	}
	t.claim.Queue.Keys = p.Keys
	if l.Closed && len(p.Claim) > 0 {
		batch.Queue(postponeQueuesSQL, pgx.NamedArgs{"queues": []int64{t.queue.id}, "wait": triedTargetPause.Seconds()})
	}
	if len(p.Stay) > 0 {
		batch.Queue(postponeQueuesSQL, pgx.NamedArgs{"queues": t.queuesOf(p.Stay), "wait": 1.0})
	}
	if !t.queue.OfKey() {
		return
	}
	if t.queue.Tries > 0 && len(p.Claim) > 0 {
		batch.Queue(untriedQueueSQL, t.args)
	}
	batch.Queue(deleteEmptyQueuesSQL, t.args)
}

// queuesOf are the queues of candidates.
func (t *step) queuesOf(of []dlq.Candidate) []int64 {
	return column(of, func(m *dlq.Candidate) int64 { return t.queueOf[m.ID] })
}

// triedTargetPause is how long a message that tries a closed target keeps other messages from trying the target.
const triedTargetPause = 20 * time.Second

// queueLane saves the lane's row, if it has changed.
func (t *step) queueLane(batch *pgx.Batch) {
	r := &t.row
	if *r == t.known && slices.Equal(t.page, t.knownPage) {
		return
	}
	if t.claims {
		r.pages++
	}
	batch.Queue(saveLaneSQL, pgx.NamedArgs{"job": t.args["job"], "lane": t.lane.Number, "known_pages": t.known.pages, "pages": r.pages,
		"cursor": r.cursor, "waiting": r.waiting, "page": append([][16]byte{}, t.page...),
		"retried": r.counts.Retried, "failed": r.counts.Failed, "dead": r.counts.Dead, "skipped": r.counts.Skipped})
}
