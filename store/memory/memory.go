// Package memory keeps dead letters in memory, for development and tests without a database. It
// ingests, lists, shows, retries, marks dead and deletes them. Everything else needs package
// postgres. The store passes the cases of package storetest that call no other methods.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dlqmanager/dlq"
)

// Store keeps dead letters in memory, and loses them when the program ends. It is safe for
// use by any number of goroutines. Returned values share memory with the store and must not
// be changed.
type Store struct {
	topics *dlq.Topics

	mu        sync.Mutex
	lastNow   time.Time // the last result of now
	lastSeq   int64
	byID      map[dlq.ID]*entry
	order     []*entry // by Seq
	positions map[dlq.Partition]dlq.Position
}

// entry is a message with all that is stored of it.
type entry struct{ dlq.Detail }

// New returns an empty store.
func New(topics *dlq.Topics) *Store {
	return &Store{topics: topics, byID: map[dlq.ID]*entry{}, positions: map[dlq.Partition]dlq.Position{}}
}

// now returns the time in microseconds, as PostgreSQL does. Each call returns a later time.
func (m *Store) now() time.Time {
	at := time.Now().UTC().Truncate(time.Microsecond)
	if !at.After(m.lastNow) {
		at = m.lastNow.Add(time.Microsecond)
	}
	m.lastNow = at
	return at
}

// Ingest is like postgres.Store.Ingest, but it does not count offsets that Kafka deleted.
func (m *Store) Ingest(_ context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range advances {
		if p, found := m.positions[a.Partition]; !found || p.Next != a.From.Next {
			return nil, fmt.Errorf("store: store arrivals: %w", dlq.ErrPositionMoved)
		}
	}
	for _, a := range advances {
		m.positions[a.Partition] = a.To
	}
	at := m.now()
	for _, a := range arrivals {
		if m.byID[a.ID] != nil {
			continue
		}
		m.lastSeq++
		a = a.Storable()
		if previous := m.byID[a.PreviousID]; !a.PreviousID.IsZero() && (previous == nil || !a.CameBack(previous.DLQTopic, previous.OriginalTopic)) {
			a.RetryCount = 0
		}
		e := newEntry(a, m.lastSeq, at)
		m.byID[a.ID] = e
		m.order = append(m.order, e)
		stored = append(stored, a.ID)
	}
	return stored, nil
}

// Positions is like postgres.Store.Positions.
func (m *Store) Positions(_ context.Context, partitions []dlq.Partition) ([]dlq.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	positions := make([]dlq.Position, len(partitions))
	for i, p := range partitions {
		if _, found := m.positions[p]; !found {
			m.positions[p] = dlq.Start
		}
		positions[i] = m.positions[p]
	}
	return positions, nil
}

// Pending is like postgres.Store.Pending.
func (m *Store) Pending(_ context.Context, dlqTopics []string) (counts []int64, all int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts = make([]int64, len(dlqTopics))
	for _, e := range m.order {
		if e.Status != dlq.StatusPending {
			continue
		}
		all++
		if i := slices.Index(dlqTopics, e.DLQTopic); i >= 0 {
			counts[i]++
		}
	}
	return counts, all, nil
}

func newEntry(a dlq.Arrival, seq int64, created time.Time) *entry {
	e := &entry{}
	e.Message = dlq.Message{ID: a.ID, Seq: seq, OriginalTopic: a.Origin.Topic, DLQTopic: a.DLQTopic,
		ErrorMessage: a.ErrorMessage, ErrorClass: a.ErrorClass, RetryCount: a.RetryCount, MaxRetries: a.MaxRetries,
		// A payload that JSONB refuses is dropped, as in package postgres.
		Payload: bytes.Clone(dlq.PayloadOf(a.Payload)),
		Status:  a.Status(), CreatedAt: created, UpdatedAt: created, PreviousID: a.PreviousID,
		Resolution: a.Resolution(), Suspicious: a.Suspicion != ""}
	e.Source, e.Failure = a.Source, a.Failure
	e.Schema, e.DecodeError = a.Schema, a.DecodeError
	e.Record = dlq.Record{Key: bytes.Clone(a.Record.Key), Value: bytes.Clone(a.Record.Value), Timestamp: a.Record.Timestamp}
	for _, h := range a.Record.Headers {
		e.Record.Headers = append(e.Record.Headers, dlq.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return e
}

// find returns dlq.ErrNotFound for an unknown id.
func (m *Store) find(id dlq.ID) (*entry, error) {
	if e := m.byID[id]; e != nil {
		return e, nil
	}
	return nil, dlq.MessageNotFound(id)
}

// Message is like postgres.Store.Message.
func (m *Store) Message(_ context.Context, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(id)
	if err != nil {
		return dlq.Message{}, err
	}
	return e.Message, nil
}

// Details is like postgres.Store.Details, with all payloads. No message is archived.
func (m *Store) Details(_ context.Context, q dlq.DetailQuery) (found []dlq.Detail, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range q.IDs {
		if e := m.byID[id]; e != nil && !q.Archived {
			d := e.Detail
			d.Attempts = slices.Clone(d.Attempts)
			found = append(found, d)
		}
	}
	return found, nil
}

// Weigh is like postgres.Store.Weigh.
func (m *Store) Weigh(ctx context.Context, q dlq.DetailQuery) ([]dlq.Weight, error) {
	details, err := m.Details(ctx, q)
	weights := make([]dlq.Weight, len(details))
	for i := range details {
		e := &entry{details[i]}
		binary := int64(len(e.Record.Key) + len(e.Record.Value))
		weights[i] = dlq.Weight{ID: e.ID, DLQTopic: e.DLQTopic, Binary: binary, Payload: int64(len(e.Payload)),
			Long:  e.size() - binary + int64(len(e.ErrorMessage)+len(e.Failure.StackTrace)),
			Short: 1024 + int64(len(e.ErrorClass))}
		for j := range e.Attempts {
			weights[i].Short += int64(e.Attempts[j].ListSize())
		}
	}
	return weights, err
}

// Delete is like postgres.Store.Delete.
func (m *Store) Delete(_ context.Context, _ *dlq.Operation, id dlq.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(id)
	if err != nil {
		return err
	}
	if e.Status == dlq.StatusRetrying {
		return &dlq.OwnedError{ID: id, Owner: e.Owner}
	}
	delete(m.byID, id)
	if i, found := slices.BinarySearchFunc(m.order, e.Seq, func(e *entry, seq int64) int { return cmp.Compare(e.Seq, seq) }); found {
		m.order = slices.Delete(m.order, i, i+1)
	}
	return nil
}

// MarkDead is like postgres.Store.MarkDead.
func (m *Store) MarkDead(_ context.Context, _ *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(id)
	switch {
	case err != nil:
		return dlq.Message{}, err
	case e.Status == dlq.StatusResolved:
		return e.Message, e.CheckRetryable()
	case e.Status == dlq.StatusDead:
		return e.Message, nil
	case e.Status != dlq.StatusRetrying:
		e.Owner = dlq.Owner{} // a RETRYING message keeps its owner, whose delivery is still recorded
	}
	e.Status, e.Resolution, e.UpdatedAt = dlq.StatusDead, dlq.ResolutionGivenUp, m.now()
	return e.Message, nil
}
