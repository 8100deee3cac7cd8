package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dlqmanager/dlq"
)

var errNoOwner = errors.New("an owner needs a workflow id and a token")

// Claim is like postgres.Store.Claim.
func (m *Store) Claim(_ context.Context, id dlq.ID, owner dlq.Owner, _ dlq.ID) (dlq.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if owner.WorkflowID == "" || owner.Token == "" {
		return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errNoOwner)
	}
	e, err := m.find(id)
	if err != nil {
		return dlq.Claim{}, err
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
	at := m.now()
	e.Status, e.Owner, e.LastRetryAt, e.UpdatedAt = dlq.StatusRetrying, owner, &at, at
	e.RetryCount++
	return e.asClaim(), nil
}

func (e *entry) asClaim() dlq.Claim {
	return dlq.Claim{OriginalTopic: e.OriginalTopic, RetryCount: e.RetryCount, MaxRetries: e.MaxRetries, Size: e.size()}
}

// size is the size of the record in bytes.
func (e *entry) size() int64 {
	size := len(e.Record.Key) + len(e.Record.Value)
	for _, h := range e.Record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return int64(size)
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
	return dlq.Envelope{ID: e.ID, Seq: e.Seq, OriginalTopic: e.OriginalTopic, RetryCount: e.RetryCount, Record: e.Record,
		TraceID: e.Failure.TraceID}, nil
}

func (m *Store) claimed(id dlq.ID, owner dlq.Owner) (*entry, error) {
	e, err := m.find(id)
	switch {
	case err != nil:
		return nil, err
	case !e.ownedBy(owner):
		return nil, e.ClaimError(owner)
	}
	return e, nil
}

func (e *entry) ownedBy(owner dlq.Owner) bool {
	return e.Status == dlq.StatusRetrying && e.Owner == owner
}

// Finalize is like postgres.Store.Finalize, but it records no delivery of an owner that has lost
// its claim.
func (m *Store) Finalize(_ context.Context, owner dlq.Owner, o dlq.Outcome) (_ dlq.Message, ended bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(o.ID)
	if err != nil {
		return dlq.Message{}, false, err
	}
	if ended = e.AwaitsResult(owner, o.Result); ended {
		e.finish(o, m.now())
	}
	return e.Message, ended, nil
}

// Release is like postgres.Store.Release.
func (m *Store) Release(_ context.Context, owner dlq.Owner, reason string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now()
	var released int64
	for _, e := range m.order {
		if e.ownedBy(owner) {
			e.finish(dlq.Outcome{Result: dlq.ResultFailed, Category: dlq.CategoryTransient, Error: reason}, at)
			released++
		}
	}
	return released, nil
}

// finish ends a retry, and stores it as an attempt if it was counted and did not deliver.
func (e *entry) finish(o dlq.Outcome, at time.Time) {
	e.Status, e.RetryCount = o.Result.After(e.RetryCount, e.MaxRetries)
	e.Resolution = dlq.ResolutionOf(o.Result, e.Status)
	e.UpdatedAt = at
	switch {
	case o.Result.IsUncounted():
		e.LastRetryAt = nil
		if n := len(e.Attempts); n > 0 {
			e.LastRetryAt = &e.Attempts[n-1].StartedAt
		}
		e.Owner = dlq.Owner{}
	case o.Result.IsAttempt():
		e.Attempts = append(e.Attempts, dlq.Attempt{Number: e.RetryCount, Owner: e.Owner, StartedAt: *e.LastRetryAt, EndedAt: at,
			Result: o.Result, Category: o.Category, Error: dlq.StorableText(o.Error)})
	}
}
