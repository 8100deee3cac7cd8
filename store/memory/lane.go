package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// lane finds the state of a lane.
func (m *Store) lane(lane dlq.Lane) (*bulk, *laneState, error) {
	b := m.bulks[lane.Bulk]
	if b == nil || lane.Number < 0 || lane.Number >= len(b.lanes) {
		return nil, nil, fmt.Errorf("lane %d of %w", lane.Number, dlq.BulkNotFound(lane.Bulk))
	}
	return b, &b.lanes[lane.Number], nil
}

// OpenLane is like postgres.Store.OpenLane.
func (m *Store) OpenLane(_ context.Context, id dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(dlq.Lane{Bulk: id, Number: number})
	if err != nil {
		return dlq.Lane{}, err
	}
	if attempt.IsBefore(state.attempt) {
		return dlq.Lane{}, fmt.Errorf("lane %d of bulk retry %s: %w", number, id, dlq.ErrFenced)
	}
	state.epoch++
	state.attempt = attempt
	return dlq.Lane{Bulk: id, Number: number, Total: b.Lanes, Owner: b.Owner(), Spec: b.Spec.Storable(),
		UpperBound: b.UpperBound, MultiTarget: b.MultiTarget, State: b.State, Epoch: state.epoch}, nil
}

// ClaimedPage is like postgres.Store.ClaimedPage, but always gives values.
func (m *Store) ClaimedPage(_ context.Context, lane dlq.Lane, bytes int64) (claim dlq.LaneClaim, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, state, err := m.lane(lane)
	if err != nil || state.epoch != lane.Epoch {
		return claim, nil
	}
	for _, e := range m.claimedPage(lane.Owner, state) {
		if !addIfFits(&claim, sizeOf(&e.Record), bytes) {
			break
		}
		claim.Page = append(claim.Page, e)
	}
	return claim, nil
}

// addIfFits adds the size of a message to the claim. It reports false when the page has
// other messages and would exceed the limit. Sizes are in bytes.
func addIfFits(claim *dlq.LaneClaim, size, bytes int64) bool {
	if claim.Bytes > 0 && claim.Bytes+size > bytes {
		return false
	}
	claim.Bytes += size
	return true
}

// sizeOf is the size of key, value and headers in bytes.
func sizeOf(r *dlq.Record) int64 {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return int64(size)
}

func (m *Store) claimedPage(owner dlq.Owner, state *laneState) []dlq.PageEnvelope {
	var page []dlq.PageEnvelope
	for _, id := range state.page {
		if e := m.byID[id]; e != nil && e.ownedBy(owner) {
			page = append(page, state.envelope(e))
		}
	}
	return page
}

func (l *laneState) envelope(e *entry) dlq.PageEnvelope {
	return dlq.PageEnvelope{Envelope: e.envelope(), Blocked: e.Record.Key != nil && l.blocked[l.keyOf(e)]}
}

// ReleasePage is like postgres.Store.ReleasePage.
func (m *Store) ReleasePage(_ context.Context, lane dlq.Lane) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err == nil && state.epoch == lane.Epoch {
		m.releasePage(b, state, m.now())
	}
	return nil
}

func (m *Store) releasePage(b *bulk, state *laneState, at time.Time) {
	m.finalizePage(b, state, dlq.RequeuePage(m.claimedPage(b.Owner(), state)), at)
	state.page = nil
}

// burst is how much unused time counts for the rate limit, and how much of it a claim may
// use.
const burst = 100 * time.Millisecond

// quota is how many messages the job may claim now, and how long to wait if its rate limit
// allows none.
func (b *bulk) quota(at time.Time) (quota int, wait time.Duration) {
	quota = dlq.PageSize
	if rate := b.Spec.RateLimit; rate > 0 {
		quota = min(quota, max(rate/10, 1))
		wait = max(b.nextAt.Sub(at), 0)
	}
	if b.stepLimit != nil {
		quota = int(min(int64(quota), *b.stepLimit))
	}
	return quota, wait
}

// chargeLimits subtracts claimed messages from the job's limits.
func (b *bulk) chargeLimits(n int, at time.Time) {
	if rate := b.Spec.RateLimit; rate > 0 && n > 0 {
		due := at.Add(-burst)
		if b.nextAt.After(due) {
			due = b.nextAt
		}
		b.nextAt = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
	}
	if b.stepLimit != nil {
		*b.stepLimit -= int64(n)
	}
}

// ClaimPage is like postgres.Store.ClaimPage.
func (m *Store) ClaimPage(_ context.Context, lane dlq.Lane, scan bool) (dlq.LaneClaim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err != nil || b.State != dlq.BulkRunning || state.epoch != lane.Epoch {
		return dlq.LaneClaim{Stopped: true}, nil // as in package postgres, also for an unknown lane
	}
	if lane.Finalized && slices.ContainsFunc(state.page, func(id dlq.ID) bool { return m.byID[id] != nil && m.byID[id].ownedBy(lane.Owner) }) {
		return dlq.LaneClaim{Unfinished: true}, nil
	}
	at := m.now()
	quota, wait := b.quota(at)
	claim := dlq.LaneClaim{Wait: wait, StepLimitReached: quota == 0, Limited: b.Spec.RateLimit > 0 || b.stepLimit != nil, Closed: b.closed()}
	if claim.Wait > 0 || claim.StepLimitReached {
		return claim, nil
	}
	name, due := b.nextQueue(state)
	if scan && (lane.ScanFirst || due == nil || due.due.After(at)) {
		m.scanLane(&claim, lane, b, state, quota, at)
	}
	if due != nil && !due.due.After(at) && len(claim.Page) == 0 {
		m.claimQueue(&claim, lane, b, state, name, quota, at)
	}
	if name, next := b.nextQueue(state); next != nil && len(claim.Page) == 0 && claim.Wait == 0 {
		claim.Next = next.laneQueue(name, at)
	}
	b.chargeLimits(len(claim.Page), at)
	return claim, nil
}

// scanLane claims the next messages of the scope.
func (m *Store) scanLane(claim *dlq.LaneClaim, lane dlq.Lane, b *bulk, state *laneState, quota int, at time.Time) {
	start, _ := indexOf(m.order, state.cursor+1)
	for _, e := range m.order[start:] {
		if len(claim.Page) == quota || e.Seq > lane.UpperBound {
			break
		}
		if !lane.Has(e.keyHash) || !m.retryable(e, b) {
			continue
		}
		if !addIfFits(claim, sizeOf(&e.Record), dlq.PageBytes) {
			break
		}
		state.cursor, b.UpdatedAt = e.Seq, at
		if lane.Spec.Order != dlq.OrderNone {
			if name, waits := state.queueOfEarlier(e); waits {
				state.enqueue(e, name)
				continue
			}
			if m.isKeyRetriedElsewhere(e, &lane) {
				name := queueID{target: dlq.Target{Topic: state.targetOf(e), Partition: dlq.AnyPartition}, ofKey: true, keyHash: state.keyHashOf(e)}
				b.queues[name] = &queue{due: at.Add(time.Second), reason: "an earlier message of the key is being retried or changed by another client"}
				state.enqueue(e, name)
				continue
			}
		}
		e.claim(lane.Owner, at)
		state.page = append(state.page, e.ID)
		claim.Page = append(claim.Page, state.envelope(e))
	}
}

// claimQueue claims from a queue that is due.
func (m *Store) claimQueue(claim *dlq.LaneClaim, lane dlq.Lane, b *bulk, state *laneState, name queueID, quota int, at time.Time) {
	q := b.queues[name]
	claim.Queue = q.laneQueue(name, at)
	sendable := m.sendable(lane, b, state, name)
	if !name.ofKey {
		claim.Queue.Keys = len(sendable)
	}
	if q.closed && len(sendable) > 0 {
		n := q.tries % len(sendable)
		sendable = sendable[n : n+1]
	}
	for _, e := range sendable[:min(quota, len(sendable))] {
		if !addIfFits(claim, sizeOf(&e.Record), dlq.PageBytes) {
			break
		}
		state.removeWaiting(e.ID)
		e.claim(lane.Owner, at)
		state.page = append(state.page, e.ID)
		claim.Page = append(claim.Page, state.envelope(e))
	}
	switch {
	case !state.hasWaitingIn(name) && name.ofKey:
		delete(b.queues, name)
	case q.closed && len(claim.Page) > 0:
		q.due = at.Add(20 * time.Second)
	case len(claim.Page) == 0:
		q.due = at.Add(time.Second)
	}
	if len(claim.Page) == 0 {
		claim.Wait = time.Millisecond
	} else if name.ofKey {
		q.tries = 0
	}
}

// sendable are the messages of a queue that may be sent now; of a closed target, the first
// of each key. Messages that another client has finished are removed from the queue.
func (m *Store) sendable(lane dlq.Lane, b *bulk, state *laneState, name queueID) (sendable []*entry) {
	blocked := map[int32]bool{}
	ordered := lane.Spec.Order != dlq.OrderNone
	for _, w := range slices.Clone(state.waiting) {
		if w.queue != name {
			continue
		}
		e := m.byID[w.id]
		if e == nil || m.mustLeaveQueue(e, b) {
			state.removeWaiting(w.id)
			continue
		}
		key := state.keyHashOf(e)
		if e.Status == dlq.StatusRetrying || ordered && (blocked[key] || state.earlierWaitsElsewhere(w) || m.isKeyRetriedElsewhere(e, &lane)) {
			blocked[key] = true
			continue
		}
		if b.queues[name].closed {
			if blocked[key] {
				continue
			}
			blocked[key] = true
		}
		sendable = append(sendable, e)
	}
	return sendable
}

// mustLeaveQueue reports whether a message need not wait any more: another client has
// changed or finished it, or the job itself has claimed it.
func (m *Store) mustLeaveQueue(e *entry, b *bulk) bool {
	isOwn := e.Owner.Token == b.Owner().Token
	switch e.Status {
	case dlq.StatusRetrying:
		return isOwn
	case dlq.StatusPending:
		return e.RetryCount >= e.MaxRetries || e.UpdatedAt.After(b.snapshotAt) && !isOwn
	default:
		return true
	}
}

// isKeyRetriedElsewhere reports whether another owner retries an earlier message of the
// key.
func (m *Store) isKeyRetriedElsewhere(e *entry, lane *dlq.Lane) bool {
	for _, o := range m.order {
		if o.Seq >= e.Seq {
			break
		}
		if o.Status != dlq.StatusRetrying || o.keyHash != e.keyHash || o.Owner.Token == lane.Owner.Token {
			continue
		}
		requested := ""
		if id, err := dlq.ParseID(o.Owner.Token); err == nil && m.bulks[id] != nil {
			requested = m.bulks[id].Spec.TargetTopic
		} else if o.OriginalTopic == e.OriginalTopic {
			return true // the target of a single retry is unknown
		}
		if m.targetOf(o, requested) == m.targetOf(e, lane.Spec.TargetTopic) {
			return true
		}
	}
	return false
}

// FinalizePage is like postgres.Store.FinalizePage.
func (m *Store) FinalizePage(_ context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err != nil {
		return dlq.PageResult{}, fmt.Errorf("lane %d of bulk retry %s: %w", lane.Number, lane.Bulk, dlq.ErrFenced)
	}
	at, fenced := m.now(), state.epoch != lane.Epoch
	var result dlq.PageResult
	if !fenced {
		result = m.finalizePage(b, state, outcomes, at)
	}
	for i := range outcomes {
		if m.keepLatePage(b, state, &outcomes[i], fenced, at) {
			result.Ended++
		}
	}
	if fenced {
		return dlq.PageResult{}, fmt.Errorf("lane %d of bulk retry %s: %w", lane.Number, lane.Bulk, dlq.ErrFenced)
	}
	result.Counts = state.counts
	return result, nil
}

// keepLatePage is like keepLateSQL of package postgres.
func (m *Store) keepLatePage(b *bulk, state *laneState, o *dlq.PageOutcome, fenced bool, at time.Time) bool {
	e := m.byID[o.ID]
	if e == nil {
		return false
	}
	isCounted := fenced && !slices.Contains(state.page, e.ID) && !slices.ContainsFunc(state.waiting, func(w waiting) bool { return w.id == e.ID }) ||
		b.State.IsFinal()
	if !e.keepLate(b.Owner(), o, at) {
		return false
	}
	delete(m.outbox, e.ID)
	if !isCounted {
		state.counts.Retried++
	}
	return true
}

func (m *Store) finalizePage(b *bulk, state *laneState, outcomes []dlq.PageOutcome, at time.Time) dlq.PageResult {
	var ended int
	var processed int64
	tried := map[queueID]bool{}
	for i := range outcomes {
		o := &outcomes[i]
		e := m.byID[o.ID]
		if e == nil || !e.AwaitsResult(b.Owner(), o.Result) || e.RetryCount != o.RetryCount {
			continue
		}
		e.finish(o.Outcome, at)
		m.keepExhausted(e, o.Error, at)
		ended++
		switch {
		case o.Result == dlq.ResultWaiting:
			tried[b.requeue(state, e, o, at)] = true
			continue
		case o.Result == dlq.ResultSkipped:
			state.counts.Skipped++
			continue
		case o.Result == dlq.ResultDelivered:
			state.counts.Retried++
		case e.Status == dlq.StatusPending:
			state.counts.Failed++
		case e.Status == dlq.StatusDead:
			state.counts.Dead++
		}
		if o.Result.IsAttempt() && e.Record.Key != nil && b.Spec.Order != dlq.OrderNone {
			state.blocked[state.keyOf(e)] = true
		}
		processed++
	}
	for i := range outcomes {
		if outcomes[i].Target.Topic != "" {
			b.reopen(outcomes[i].Target, tried, at)
		}
	}
	state.page = slices.DeleteFunc(state.page, func(id dlq.ID) bool { return m.byID[id] == nil || !m.byID[id].ownedBy(b.Owner()) })
	b.UpdatedAt = at
	state.window.add(processed, b.UpdatedAt)
	return dlq.PageResult{Counts: state.counts, Ended: ended}
}
