package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// claim gives a message to the owner and counts the retry.
func (e *entry) claim(owner dlq.Owner, at time.Time) {
	e.Status, e.Owner, e.LastRetryAt, e.UpdatedAt = dlq.StatusRetrying, owner, &at, at
	e.RetryCount++
}

func (e *entry) envelope() dlq.Envelope {
	return dlq.Envelope{ID: e.ID, Seq: e.Seq, OriginalTopic: e.OriginalTopic, RetryCount: e.RetryCount, Record: e.Record, TraceID: e.Failure.TraceID}
}

func (e *entry) asClaim() dlq.Claim {
	return dlq.Claim{OriginalTopic: e.OriginalTopic, RetryCount: e.RetryCount, MaxRetries: e.MaxRetries, Size: sizeOf(&e.Record)}
}

func (e *entry) ownedBy(owner dlq.Owner) bool {
	return e.Status == dlq.StatusRetrying && e.Owner == owner
}

// finish ends a retry, and stores it as an attempt if it was counted and did not deliver.
func (e *entry) finish(o dlq.Outcome, at time.Time) {
	e.Status, e.RetryCount = o.Result.After(e.RetryCount, e.MaxRetries)
	e.Resolution = dlq.ResolutionOf(o.Result, e.Status)
	e.TargetPartition, e.TargetOffset = o.Acknowledgement.Columns()
	e.delivered = o.Acknowledgement
	e.UpdatedAt = at
	if o.Result.IsUncounted() {
		e.LastRetryAt = e.lastAttempt()
		if o.Result == dlq.ResultReleased {
			e.Owner = dlq.Owner{}
		}
	}
	if o.Result.IsAttempt() {
		e.Attempts = append(e.Attempts, dlq.Attempt{Number: e.RetryCount, Owner: e.Owner, StartedAt: *e.LastRetryAt, EndedAt: at,
			Result: o.Result, Category: o.Category, Error: dlq.StorableText(o.Error)})
	}
	e.keepDelivery()
}

// lateDelivery is a delivery by an owner that had lost its claim.
type lateDelivery struct {
	owner dlq.Owner
	at    *dlq.Acknowledgement
}

// keepLate is like keepLateSQL of package postgres. It reports whether it has recorded the delivery.
func (e *entry) keepLate(owner dlq.Owner, o *dlq.PageOutcome, at time.Time) bool {
	if o.Result != dlq.ResultDelivered || e.Ended() == dlq.ResolutionDelivered && e.Owner.Token == owner.Token ||
		e.ownedBy(owner) && e.RetryCount != o.RetryCount ||
		slices.ContainsFunc(e.Attempts, func(a dlq.Attempt) bool { return a.Result == dlq.ResultDelivered && a.Owner.Token == owner.Token }) {
		return false
	}
	started, number := e.UpdatedAt, max(cmp.Or(o.RetryCount, e.RetryCount), 1)
	if e.LastRetryAt != nil {
		started = *e.LastRetryAt
	}
	partition, offset := o.Acknowledgement.Columns()
	e.Attempts = append(e.Attempts, dlq.Attempt{Number: number, Owner: owner, StartedAt: started, EndedAt: at, Result: dlq.ResultDelivered,
		TargetPartition: partition, TargetOffset: offset})
	e.late = &lateDelivery{owner, o.Acknowledgement}
	if e.ownedBy(owner) {
		e.Status = dlq.StatusPending // no other owner has claimed it
	}
	if e.Status != dlq.StatusRetrying && e.Status != dlq.StatusResolved {
		e.UpdatedAt = at
	}
	e.keepDelivery()
	return true
}

// keepDelivery is like the trigger dlq.keep_delivery.
func (e *entry) keepDelivery() {
	if e.late == nil || e.Status != dlq.StatusPending && e.Status != dlq.StatusDead {
		return
	}
	e.Status, e.Resolution, e.Owner, e.delivered = dlq.StatusResolved, dlq.ResolutionDelivered, e.late.owner, e.late.at
	e.TargetPartition, e.TargetOffset = e.late.at.Columns()
}

// lastAttempt is when the last stored attempt began.
func (e *entry) lastAttempt() (last *time.Time) {
	for _, a := range e.Attempts {
		if last == nil || a.StartedAt.After(*last) {
			last = &a.StartedAt
		}
	}
	return last
}

var errNoOwner = errors.New("an owner needs a workflow id and a token")

// Claim is like postgres.Store.Claim.
func (m *Store) Claim(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	claim, err := m.claim(id, owner)
	if o, found := dlq.OperationOf(ctx); found && err == nil {
		m.runs[o.ID] = owner.Token
	}
	return claim, err
}

func (m *Store) claim(id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	if owner.WorkflowID == "" || owner.Token == "" {
		return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errNoOwner)
	}
	e := m.byID[id]
	if e == nil {
		return dlq.Claim{}, dlq.MessageNotFound(id)
	}
	if e.Status == dlq.StatusRetrying {
		if e.Owner != owner {
			return dlq.Claim{}, &dlq.OwnedError{ID: id, Owner: e.Owner}
		}
		return e.asClaim(), nil
	}
	if err := e.CheckRetryable(); err != nil {
		return dlq.Claim{}, err
	}
	if err := m.topics.CheckOrigin(&e.Message); err != nil {
		return dlq.Claim{}, err
	}
	e.claim(owner, m.now())
	return e.asClaim(), nil
}

// Claimed is like postgres.Store.Claimed.
func (m *Store) Claimed(_ context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.claimed(id, owner)
	if err != nil {
		return dlq.Claim{}, err
	}
	return e.asClaim(), nil
}

// Envelope is like postgres.Store.Envelope.
func (m *Store) Envelope(_ context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.claimed(id, owner)
	if err != nil {
		return dlq.Envelope{}, err
	}
	return e.envelope(), nil
}

func (m *Store) claimed(id dlq.ID, owner dlq.Owner) (*entry, error) {
	e := m.byID[id]
	switch {
	case e == nil:
		return nil, dlq.MessageNotFound(id)
	case !e.ownedBy(owner):
		return nil, e.ClaimError(owner)
	}
	return e, nil
}

// Finalize is like postgres.Store.Finalize.
func (m *Store) Finalize(_ context.Context, owner dlq.Owner, o dlq.Outcome) (_ dlq.Message, ended bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[o.ID]
	if e == nil {
		return dlq.Message{}, false, dlq.MessageNotFound(o.ID)
	}
	at := m.now()
	if ended = e.AwaitsResult(owner, o.Result); ended {
		e.finish(o, at)
		m.keepExhausted(e, o.Error, at)
	} else if ended = e.keepLate(owner, &dlq.PageOutcome{Outcome: o}, at); ended {
		delete(m.outbox, e.ID)
	}
	return e.Message, ended, nil
}
