package memory

import (
	"bytes"
	"context"
	"fmt"
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

func inLaneOf(e *entry, lane dlq.Lane) bool {
	return int(e.keyHash)%max(lane.Of, 1) == lane.Number
}

// OpenLane is like postgres.Store.OpenLane.
func (m *Store) OpenLane(_ context.Context, id dlq.ID, number int) (dlq.Lane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(dlq.Lane{Bulk: id, Number: number})
	if err != nil {
		return dlq.Lane{}, err
	}
	state.epoch++
	return dlq.Lane{Bulk: id, Number: number, Of: b.Lanes, Owner: b.Owner(), Spec: b.Spec.Storable(),
		Bound: b.Bound, Mixed: b.Mixed, Epoch: state.epoch}, nil
}

// ClaimedPage is like postgres.Store.ClaimedPage.
func (m *Store) ClaimedPage(_ context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []dlq.Envelope
	for _, e := range m.order {
		if e.ownedBy(lane.Owner) && inLaneOf(e, lane) {
			page = append(page, e.envelope())
		}
	}
	return page, nil
}

// burst is how much of the time that nobody claimed in counts, and how much one
// claim takes.
const burst = 100 * time.Millisecond

// quota is how many messages the job may claim now, or how long to wait.
func (b *bulk) quota(at time.Time) (quota int, wait time.Duration) {
	quota = dlq.PageSize
	if rate := b.Spec.RateLimit; rate > 0 {
		quota = min(quota, max(rate/10, 1))
		wait = max(b.nextAt.Sub(at), 0)
	}
	if b.allowance != nil {
		quota = int(min(int64(quota), *b.allowance))
	}
	return quota, wait
}

// spend takes what was claimed off the job's limits.
func (b *bulk) spend(n int, at time.Time) {
	if rate := b.Spec.RateLimit; rate > 0 && n > 0 {
		due := at.Add(-burst)
		if b.nextAt.After(due) {
			due = b.nextAt
		}
		b.nextAt = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
	}
	if b.allowance != nil {
		*b.allowance -= int64(n)
	}
}

// ClaimPage is like postgres.Store.ClaimPage.
func (m *Store) ClaimPage(_ context.Context, lane dlq.Lane) (dlq.LaneClaim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err != nil || b.State != dlq.BulkRunning || state.epoch != lane.Epoch {
		return dlq.LaneClaim{Closed: true}, nil // as in Postgres, a lane that does not exist has nothing to claim
	}
	at := m.now()
	quota, wait := b.quota(at)
	claim := dlq.LaneClaim{Wait: wait, Spent: quota == 0, Throttled: b.Spec.RateLimit > 0 || b.allowance != nil}
	if claim.Wait > 0 || claim.Spent {
		return claim, nil
	}
	start, _ := m.place(state.cursor + 1)
	for _, e := range m.order[start:] {
		if len(claim.Envelopes) == quota || e.Seq > lane.Bound {
			break
		}
		if inLaneOf(e, lane) && !state.tried[e.ID] && m.retryable(e, b) {
			e.claim(lane.Owner, at)
			claim.Envelopes = append(claim.Envelopes, e.envelope())
			state.cursor, b.UpdatedAt = e.Seq, e.UpdatedAt
		}
	}
	b.spend(len(claim.Envelopes), at)
	return claim, nil
}

// FinalizePage is like postgres.Store.FinalizePage.
func (m *Store) FinalizePage(_ context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (dlq.PageResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err != nil {
		return dlq.PageResult{}, err
	}
	if state.epoch != lane.Epoch {
		return dlq.PageResult{Counts: state.counts}, nil
	}
	at := m.now()
	var ended int
	var processed int64
	for _, o := range outcomes {
		e := m.byID[o.ID]
		if e == nil || !e.ownedBy(lane.Owner) {
			continue
		}
		e.finish(o, at)
		ended++
		state.tried[e.ID] = o.Result != dlq.ResultReturned
		switch {
		case o.Result == dlq.ResultReturned:
			b.takeBack(e)
			continue
		case o.Result == dlq.ResultSkipped:
			state.counts.Skipped++
			continue
		case o.Result == dlq.ResultDelivered:
			state.counts.Retried++
		case e.Status == dlq.StatusPending:
			state.counts.Failed++
		default:
			state.counts.Dead++
		}
		processed++
	}
	b.UpdatedAt = at
	state.window.add(processed, b.UpdatedAt)
	return dlq.PageResult{Counts: state.counts, Ended: ended}, nil
}

// takeBack lets a returned message be claimed again.
func (b *bulk) takeBack(e *entry) {
	e.UpdatedAt = b.frozenAt
	state := &b.lanes[int(e.keyHash)%len(b.lanes)]
	state.cursor = min(state.cursor, e.Seq-1)
	if b.allowance != nil {
		*b.allowance++
	}
}

// BlockedKeys is like postgres.Store.BlockedKeys.
func (m *Store) BlockedKeys(_ context.Context, lane dlq.Lane) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys [][]byte
	seen := map[string]bool{}
	block := func(e *entry) {
		if e.Record.Key == nil || !inLaneOf(e, lane) || seen[string(e.Record.Key)] {
			return
		}
		if e.Status == dlq.StatusPending && e.Owner.Token == lane.Owner.Token {
			seen[string(e.Record.Key)] = true
			keys = append(keys, bytes.Clone(e.Record.Key))
			return
		}
		for _, a := range e.Attempts {
			if a.Owner.Token == lane.Owner.Token {
				seen[string(e.Record.Key)] = true
				keys = append(keys, bytes.Clone(e.Record.Key))
				return
			}
		}
	}
	for _, e := range m.order {
		block(e)
	}
	for _, e := range m.archive {
		block(e)
	}
	return keys, nil
}
