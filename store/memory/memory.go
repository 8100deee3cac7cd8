// Package memory keeps dead letters in memory, for development without a database and for
// tests. It passes the same contract tests (package storetest) as package postgres.
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
	// Outbox is like postgres.Store.Outbox.
	Outbox bool
	// Audit is like postgres.Store.Audit. It must not call the store.
	Audit func(dlq.Operation)
	// MaxGroups is like postgres.Store.MaxGroups.
	MaxGroups int
	// Targets is like postgres.Store.Targets.
	Targets *dlq.Targets
	// VerifyGroups is like postgres.Store.VerifyGroups.
	VerifyGroups *dlq.VerifyGroups

	mu       sync.Mutex
	lastNow  time.Time // the last result of now
	lastSeq  int64
	byID     map[dlq.ID]*entry
	order    []*entry // by Seq, without archived ones
	archive  map[dlq.ID]*entry
	knownIDs map[dlq.ID]bool // of all messages neither deleted nor purged
	// replacedBy has the edited copies of messages, also of those that were deleted.
	replacedBy map[dlq.ID]dlq.ID
	offsets    map[dlq.Partition]position
	bulks      map[dlq.ID]*bulk
	bulkList   []*bulk   // oldest first
	actions    []*action // oldest first
	// operations is the audit, oldest first.
	operations []dlq.Operation
	// runs are the tokens of the owners that act for an operation.
	runs map[dlq.ID]string
	// outbox has the exhausted messages that must still be published.
	outbox     map[dlq.ID]exhausted
	publishing bool
	groups     map[dlq.ID]*group
	marks      watermarks
	keys       map[[32]byte]usedKey
}

// entry is a message with all that is stored of it.
type entry struct {
	dlq.Detail
	keyHash int32
	// delivered is where the last retry has delivered the message; nil otherwise.
	delivered *dlq.Acknowledgement
	// late is the last delivery by an owner that had lost its claim; nil without.
	late *lateDelivery
}

// New returns an empty store.
func New(topics *dlq.Topics) *Store {
	return &Store{
		topics:   topics,
		byID:     map[dlq.ID]*entry{},
		archive:  map[dlq.ID]*entry{},
		knownIDs: map[dlq.ID]bool{}, replacedBy: map[dlq.ID]dlq.ID{},
		offsets: map[dlq.Partition]position{},
		bulks:   map[dlq.ID]*bulk{},
		outbox:  map[dlq.ID]exhausted{},
		runs:    map[dlq.ID]string{},
		groups:  map[dlq.ID]*group{},
		keys:    map[[32]byte]usedKey{},
	}
}

// Ping always succeeds.
func (m *Store) Ping(context.Context) error { return nil }

// now is the time of a call, in microseconds like PostgreSQL's. It is later at each call,
// because the snapshot of a bulk retry separates changes before and after it.
func (m *Store) now() time.Time {
	at := time.Now().UTC().Truncate(time.Microsecond)
	if !at.After(m.lastNow) {
		at = m.lastNow.Add(time.Microsecond)
	}
	m.lastNow = at
	return at
}

// position is a row of dlq_ingest_offsets.
type position struct {
	dlq.Position
	topic  string
	lost   int64
	lostAt time.Time
}

// StoreArrivals is like postgres.Store.StoreArrivals.
func (m *Store) StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	ids, err := m.Ingest(ctx, arrivals, nil)
	return len(ids), err
}

// Ingest is like postgres.Store.Ingest.
func (m *Store) Ingest(_ context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ingest(arrivals, advances)
}

func (m *Store) ingest(arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	for _, a := range advances {
		if p, found := m.offsets[a.Partition]; !found || p.Next != a.From.Next {
			return nil, fmt.Errorf("store: store arrivals: %w", dlq.ErrPositionMoved)
		}
	}
	at := m.now()
	for _, a := range advances {
		p := m.offsets[a.Partition]
		p.Position, p.topic, p.lost = a.To, a.Topic, p.lost+a.Lost
		if a.Lost > 0 {
			p.lostAt = at
		}
		m.offsets[a.Partition] = p
	}
	for _, a := range arrivals {
		if m.knownIDs[a.ID] {
			continue
		}
		m.lastSeq++
		a = a.Storable()
		cameBack := m.cameBack(&a)
		if !a.PreviousID.IsZero() && !cameBack {
			a.RetryCount = 0
		}
		e := newEntry(a, m.lastSeq, at)
		e.GroupID = m.join(&a, at)
		m.knownIDs[a.ID] = true
		m.byID[a.ID] = e
		m.order = append(m.order, e)
		if cameBack {
			m.countCameBack(a.PreviousID)
		}
		m.keepExhausted(e, e.ErrorMessage, at)
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
		if _, found := m.offsets[p]; !found {
			m.offsets[p] = position{Position: dlq.Start}
		}
		positions[i] = m.offsets[p].Position
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

// cameBack reports whether an arrival is the message that it names.
func (m *Store) cameBack(a *dlq.Arrival) bool {
	e := cmp.Or(m.byID[a.PreviousID], m.archive[a.PreviousID])
	if e == nil {
		return false
	}
	requested := ""
	if b := m.jobOf(e); e.delivered != nil {
		requested = e.delivered.Topic
	} else if b != nil {
		requested = b.Spec.TargetTopic
	}
	return a.CameBack(e.DLQTopic, m.targetOf(e, requested))
}

// jobOf is the bulk retry that sent the message last, or nil.
func (m *Store) jobOf(e *entry) *bulk {
	id, _ := dlq.ParseID(e.Owner.Token)
	return m.bulks[id]
}

// countCameBack counts a message that came back, for the bulk retry that sent it last.
func (m *Store) countCameBack(previous dlq.ID) {
	if b := m.jobOf(cmp.Or(m.byID[previous], m.archive[previous])); b != nil {
		b.CameBack++
	}
}

func newEntry(a dlq.Arrival, seq int64, created time.Time) *entry {
	e := &entry{keyHash: dlq.KeyHash(a.Record.Key, a.ID)}
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

// indexOf is the index of a Seq in order, or the index at which it would be inserted.
func indexOf(order []*entry, seq int64) (int, bool) {
	return slices.BinarySearchFunc(order, seq, func(e *entry, seq int64) int { return cmp.Compare(e.Seq, seq) })
}

// remove deletes an entry that is not archived.
func (m *Store) remove(e *entry) {
	delete(m.byID, e.ID)
	delete(m.outbox, e.ID)
	if i, found := indexOf(m.order, e.Seq); found {
		m.order = slices.Delete(m.order, i, i+1)
	}
}

// Message is like postgres.Store.Message.
func (m *Store) Message(_ context.Context, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return dlq.Message{}, dlq.MessageNotFound(id)
	}
	return e.Message, nil
}

// Detail is like postgres.Store.Detail.
func (m *Store) Detail(_ context.Context, id dlq.ID) (dlq.Detail, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return detailOf(m.byID[id], id)
}

// ArchivedDetail is like postgres.Store.ArchivedDetail.
func (m *Store) ArchivedDetail(_ context.Context, id dlq.ID) (dlq.Detail, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return detailOf(m.archive[id], id)
}

// Weigh is like postgres.Store.Weigh.
func (m *Store) Weigh(_ context.Context, id dlq.ID, isArchived bool) (dlq.Weight, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if isArchived {
		e = m.archive[id]
	}
	if e == nil {
		return dlq.Weight{}, dlq.MessageNotFound(id)
	}
	w := dlq.Weight{DLQTopic: e.DLQTopic, Binary: int64(len(e.Record.Key) + len(e.Record.Value)), Payload: int64(len(e.Payload)),
		Text: int64(len(e.ErrorMessage) + len(e.ErrorClass) + len(e.Failure.StackTrace))}
	for _, h := range e.Record.Headers {
		w.Text += int64(len(h.Key) + len(h.Value))
	}
	for _, a := range e.Attempts {
		w.Text += int64(1024 + len(a.Error))
	}
	return w, nil
}

func detailOf(e *entry, id dlq.ID) (dlq.Detail, error) {
	if e == nil {
		return dlq.Detail{}, dlq.MessageNotFound(id)
	}
	d := e.Detail
	d.Attempts = slices.Clone(d.Attempts)
	return d, nil
}

// Delete is like postgres.Store.Delete.
func (m *Store) Delete(ctx context.Context, id dlq.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return dlq.MessageNotFound(id)
	}
	if e.Status == dlq.StatusRetrying {
		return &dlq.OwnedError{ID: id, Owner: e.Owner}
	}
	_ = m.act(dlq.ActionDelete, e)
	m.record(ctx, dlq.TargetMessage, id, e.DLQTopic)
	return nil
}

// MarkDead is like postgres.Store.MarkDead.
func (m *Store) MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	switch {
	case e == nil:
		return dlq.Message{}, dlq.MessageNotFound(id)
	case e.Status == dlq.StatusResolved:
		return e.Message, e.CheckRetryable()
	case e.Status != dlq.StatusDead:
		_ = m.act(dlq.ActionDead, e)
		m.record(ctx, dlq.TargetMessage, id, e.DLQTopic)
	}
	return e.Message, nil
}

// Revive is like postgres.Store.Revive.
func (m *Store) Revive(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	switch {
	case e == nil:
		return dlq.Message{}, dlq.MessageNotFound(id)
	case e.Status != dlq.StatusDead, e.mayBeOnItsWay(m.now()):
		return e.Message, e.NotDead()
	}
	_ = m.act(dlq.ActionRevive, e)
	m.record(ctx, dlq.TargetMessage, id, e.DLQTopic)
	return e.Message, nil
}

// mayBeOnItsWay tells whether a publish of the message may not have ended.
func (e *entry) mayBeOnItsWay(at time.Time) bool {
	return e.WasMarkedWhileSent() && at.Sub(e.UpdatedAt) < dlq.ReviveAfter
}

// ArchiveBatch is like postgres.Store.ArchiveBatch.
func (m *Store) ArchiveBatch(_ context.Context, olderThan time.Duration, limit int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cutoff := m.now().Add(-olderThan)
	var moved int64
	m.order = slices.DeleteFunc(m.order, func(e *entry) bool {
		if moved == int64(limit) || !e.Status.IsFinal() || !e.UpdatedAt.Before(cutoff) {
			return false
		}
		delete(m.byID, e.ID)
		m.archive[e.ID] = e
		moved++
		return true
	})
	return moved, nil
}

// RecordArchiveRuns records nothing: messages in memory have no schedule for the archive.
func (m *Store) RecordArchiveRuns(context.Context, string) error { return nil }

// PurgeBatch is like postgres.Store.PurgeBatch.
func (m *Store) PurgeBatch(_ context.Context, olderThan time.Duration, limit int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cutoff := m.now().Add(-olderThan)
	var purged int64
	for id, e := range m.archive {
		if purged == int64(limit) {
			break
		}
		if e.UpdatedAt.Before(cutoff) {
			delete(m.archive, id)
			delete(m.outbox, id)
			delete(m.knownIDs, e.ID)
			purged++
		}
	}
	return purged, nil
}
