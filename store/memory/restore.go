package memory

import (
	"context"

	"dlqmanager/dlq"
)

// Restore is like postgres.Store.Restore.
func (m *Store) Restore(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.archive[id]
	if e == nil {
		return dlq.Message{}, dlq.MessageNotFound(id)
	}
	if err := m.act(dlq.ActionRestore, e); err != nil {
		return dlq.Message{}, err
	}
	m.record(ctx, dlq.TargetMessage, id, e.DLQTopic)
	return m.byID[dlq.RestoredID(id)].Message, nil
}

// restore copies an archived message.
func (m *Store) restore(e *entry) error {
	id := dlq.RestoredID(e.ID)
	switch {
	case e.Ended() == dlq.ResolutionReplaced:
		return dlq.ReplacedError(&e.Message, e.Edits.By)
	case !m.replacedBy[id].IsZero():
		return dlq.ReplacedError(&e.Message, m.replacedBy[id])
	case m.knownIDs[id]:
		return dlq.RestoredError(&e.Message)
	}
	m.lastSeq++
	c := *e
	c.delivered, c.late = nil, nil
	at := m.now()
	c.Message = dlq.Message{ID: id, Seq: m.lastSeq, OriginalTopic: e.OriginalTopic, DLQTopic: e.DLQTopic,
		ErrorMessage: e.ErrorMessage, ErrorClass: e.ErrorClass, MaxRetries: max(e.MaxRetries, 1), Payload: e.Payload,
		Status: dlq.StatusPending, CreatedAt: at, UpdatedAt: at, PreviousID: e.ID, Suspicious: e.Suspicious, GroupID: e.GroupID}
	c.Source, c.Attempts, c.Edits = dlq.Source{}, nil, dlq.Edits{}
	m.byID[id], m.knownIDs[id] = &c, true
	m.order = append(m.order, &c)
	return nil
}
