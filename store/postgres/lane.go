package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const openLaneSQL = `
UPDATE dlq.dlq_bulk_retry_lanes l
SET epoch = epoch + 1
FROM dlq.dlq_bulk_retries b
WHERE l.bulk_id = @bulk AND l.lane = @lane AND b.id = l.bulk_id
RETURNING b.workflow_id, b.spec, b.bound, b.mixed, b.lanes, l.epoch`

// OpenLane makes the caller the newest attempt at a lane and returns the lane. It
// waits for a claim or a finalize that is under way; an older attempt can do neither
// afterwards. It returns dlq.ErrNotFound for an unknown lane.
func (s *Store) OpenLane(ctx context.Context, bulk dlq.ID, number int) (dlq.Lane, error) {
	lane, found, err := one(ctx, s, "open lane", func(row pgx.CollectableRow) (lane dlq.Lane, err error) {
		err = row.Scan(&lane.Owner.WorkflowID, &lane.Spec, &lane.Bound, &lane.Mixed, &lane.Of, &lane.Epoch)
		return lane, err
	}, openLaneSQL, pgx.NamedArgs{"bulk": uuid(bulk), "lane": number})
	if err == nil && !found {
		err = laneNotFound(bulk, number)
	}
	lane.Bulk, lane.Number, lane.Owner.Token = bulk, number, bulk.String()
	return lane, err
}

func laneNotFound(bulk dlq.ID, number int) error {
	return fmt.Errorf("lane %d of %w", number, dlq.BulkNotFound(bulk))
}

// laneArgs are the parameters that the statements of a lane share.
func laneArgs(lane *dlq.Lane) pgx.NamedArgs {
	return pgx.NamedArgs{"bulk": uuid(lane.Bulk), "lane": lane.Number, "lanes": max(lane.Of, 1), "epoch": lane.Epoch,
		"workflow_id": lane.Owner.WorkflowID, "token": lane.Owner.Token}
}

const claimedPageSQL = `
SELECT m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.status = 'RETRYING' AND m.owner_token = @token AND m.workflow_id = @workflow_id AND m.key_hash % @lanes::int = @lane::int
ORDER BY m.seq`

// ClaimedPage returns what the lane's owner has claimed and not finalized, in
// the order of arrival: what a crash left between the two.
func (s *Store) ClaimedPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	return all(ctx, s, "read claimed page", scanEnvelope, claimedPageSQL, laneArgs(&lane))
}

// blockedKeysSQL looks the bodies up one by one, which the LIMIT makes sure of: the
// planner does not know how many there are, and a join might read them all.
const blockedKeysSQL = `
SELECT b.key
FROM (
	SELECT message_id FROM dlq.dlq_retry_attempts WHERE owner_token = @token
	UNION
	SELECT id FROM dlq.dlq_messages WHERE owner_token = @token AND owner_token <> '' AND status = 'PENDING'
) AS undelivered
CROSS JOIN LATERAL (SELECT key, key_hash FROM dlq.dlq_message_bodies WHERE message_id = undelivered.message_id LIMIT 1) AS b
WHERE b.key IS NOT NULL AND b.key_hash % @lanes::int = @lane::int
GROUP BY b.key`

// BlockedKeys returns the keys of the lane's messages that the job has attempted
// and not delivered, or skipped, each once and in no order. Messages without a
// key are left out.
func (s *Store) BlockedKeys(ctx context.Context, lane dlq.Lane) ([][]byte, error) {
	return all(ctx, s, "read blocked keys", pgx.RowTo[[]byte], blockedKeysSQL, laneArgs(&lane))
}
