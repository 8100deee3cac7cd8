package memory

import (
	"context"

	"dlqmanager/dlq"
)

// usedKey is an idempotency key with the ids of its messages.
type usedKey struct {
	dlq.IdempotencyKey
	ids []dlq.ID
}

// HandIn is like postgres.Store.HandIn. It never forgets a key.
func (m *Store) HandIn(ctx context.Context, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key != nil {
		if used, found := m.keys[key.Key]; found && used.Request != key.Request {
			return nil, false, dlq.ErrKeyReused
		} else if found {
			return used.ids, true, nil
		}
	}
	if ids, err = m.ingest(arrivals, nil); err != nil {
		return nil, false, err
	}
	if key != nil {
		m.keys[key.Key] = usedKey{*key, ids}
	}
	if o, found := dlq.StoredOperation(ctx, dlq.TargetMessage, dlq.OperationDone); found {
		m.append(o)
	}
	return ids, false, nil
}
