package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// useKeySQL stores a key, unless the key was used before. It waits for another transaction that uses the same key.
const useKeySQL = `
INSERT INTO dlq.dlq_idempotency_keys (key, request, message_ids)
VALUES (@key, @request, @ids)
ON CONFLICT (key) DO NOTHING`

const usedKeySQL = `SELECT request, message_ids FROM dlq.dlq_idempotency_keys WHERE key = @key`

// forgetKeysSQL deletes some old keys whenever a new key is used, so their number stays bounded.
const forgetKeysSQL = `
DELETE FROM dlq.dlq_idempotency_keys
WHERE key = ANY (ARRAY(
	SELECT key FROM dlq.dlq_idempotency_keys
	WHERE used_at < now() - interval '48 hours'
	ORDER BY used_at
	LIMIT 10
	FOR UPDATE SKIP LOCKED))`

// errKeyUsed ends a transaction whose idempotency key was used before.
var errKeyUsed = errors.New("the idempotency key was used before")

// HandIn stores arrivals that do not come from Kafka, all in one transaction, and returns their ids. key may be
// nil. For at least 24 hours, a repeated call with the same key returns the ids of the first call, even if the
// messages were deleted. The error is dlq.ErrKeyReused if the first call was for another request.
func (s *Store) HandIn(ctx context.Context, asked *dlq.Operation, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error) {
	o := recordOf(asked, dlq.TargetMessage, dlq.OperationDone)
	in := newIngest(arrivals, nil, s.Outbox)
	ids = idsOf(in.rows) // in the order of the arrivals; the transaction sorts the rows
	in.begin = func(ctx context.Context, tx pgx.Tx) error {
		if key != nil {
			args := pgx.NamedArgs{"key": key.Key[:], "request": key.Request[:], "ids": uuids(ids)}
			used, err := tx.Exec(ctx, useKeySQL, args)
			if err != nil {
				return err
			}
			if used.RowsAffected() == 0 {
				return errKeyUsed
			}
			if _, err := tx.Exec(ctx, forgetKeysSQL); err != nil {
				return err
			}
		}
		return recordCreation(ctx, tx, o)
	}
	_, err = s.storeBatch(ctx, in)
	switch {
	case errors.Is(err, errKeyUsed):
		ids, err = s.usedKey(ctx, key)
		return ids, true, err
	case err != nil:
		return nil, false, err
	}
	s.recorded(o)
	return ids, false, nil
}

// usedKey returns the ids of the first call with a key.
func (s *Store) usedKey(ctx context.Context, key *dlq.IdempotencyKey) ([]dlq.ID, error) {
	type usedKey struct {
		Request []byte
		IDs     []dlq.ID
	}
	used, found, err := queryOne(ctx, s, "find idempotency key", pgx.RowToStructByPos[usedKey], usedKeySQL, pgx.NamedArgs{"key": key.Key[:]})
	switch {
	case err != nil:
		return nil, err
	case !found: // the key was forgotten just now
		return nil, fmt.Errorf("idempotency key: %w", dlq.ErrUnavailable)
	case !bytes.Equal(used.Request, key.Request[:]):
		return nil, dlq.ErrKeyReused
	}
	return used.IDs, nil
}
