package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// Now is like postgres.Store.Now.
func (m *Store) Now(context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now(), nil
}

// Owners is like postgres.Store.Owners.
func (m *Store) Owners(_ context.Context, claimedBefore time.Time) ([]dlq.Owner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := map[dlq.Owner]bool{}
	for _, e := range m.order {
		if e.Status == dlq.StatusRetrying && e.LastRetryAt.Before(claimedBefore) {
			owners[e.Owner] = true
		}
	}
	return slices.SortedFunc(maps.Keys(owners), func(a, b dlq.Owner) int {
		return cmp.Or(cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.Token, b.Token))
	}), nil
}

// BulkOwners is like postgres.Store.BulkOwners.
func (m *Store) BulkOwners(_ context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var owners []dlq.Owner
	for _, b := range m.bulkList {
		if !b.State.IsFinal() && b.StartedAt.Before(startedBefore) {
			owners = append(owners, b.Owner())
		}
	}
	return owners, nil
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
			m.keepExhausted(e, reason, at)
			released++
		}
	}
	return released, nil
}

// FoldCounts does nothing, because this store keeps no counts.
func (m *Store) FoldCounts(context.Context) error { return nil }
