package memory

import (
	"context"

	"dlqmanager/dlq"
)

// Replace is like postgres.Store.Replace.
func (m *Store) Replace(ctx context.Context, id dlq.ID, edited dlq.Arrival) (dlq.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	switch {
	case e == nil:
		return dlq.Message{}, dlq.MessageNotFound(id)
	case e.Ended() == dlq.ResolutionReplaced && !e.Edits.By.IsZero():
		return dlq.Message{}, dlq.ReplacedError(&e.Message, e.Edits.By)
	case e.Status == dlq.StatusRetrying:
		return dlq.Message{}, &dlq.OwnedError{ID: id, Owner: e.Owner}
	}
	if err := e.CheckRetryable(); err != nil {
		return dlq.Message{}, err
	}
	if err := m.topics.CheckOrigin(&e.Message); err != nil {
		return dlq.Message{}, err
	}
	at := m.now()
	edited = edited.Storable()
	edited.RetryCount, edited.MaxRetries = e.RetryCount, e.MaxRetries
	m.lastSeq++
	c := newEntry(edited, m.lastSeq, at)
	c.GroupID, c.Edits.From = e.GroupID, id
	m.byID[c.ID], m.knownIDs[c.ID] = c, true
	m.order = append(m.order, c)
	e.Status, e.Resolution, e.UpdatedAt, e.Edits.By = dlq.StatusResolved, dlq.ResolutionReplaced, at, c.ID
	e.TargetPartition, e.TargetOffset = nil, nil
	m.replacedBy[id] = c.ID
	m.record(ctx, dlq.TargetMessage, id, e.DLQTopic)
	return c.Message, nil
}
