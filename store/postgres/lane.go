package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// openLaneSQL makes an attempt the newest of its lane, unless a newer attempt has the lane.
// Temporal may give an attempt to a worker that is suspended and continues after another
// worker has taken over. Without an attempt, the statement only fences the present attempt.
const openLaneSQL = `
UPDATE dlq.dlq_bulk_retry_lanes l
SET epoch = epoch + 1, scheduled_at = COALESCE(@scheduled_at::timestamptz, l.scheduled_at), attempt = COALESCE(@attempt::int, l.attempt)
FROM dlq.dlq_bulk_retries b
WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
	AND b.id = l.bulk_id
	AND (@attempt::int IS NULL OR (l.scheduled_at, l.attempt) <= (@scheduled_at::timestamptz, @attempt::int))
RETURNING b.workflow_id, b.spec, b.upper_bound, b.multi_target, b.state, b.lanes, l.epoch`

const laneExistsSQL = `SELECT true FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane LIMIT 1`

// OpenLane makes an attempt the newest of a lane and returns the lane. OpenLane waits for a
// running claim or finalize; after that an older attempt can do neither. It returns
// dlq.ErrFenced when a newer attempt has the lane, and dlq.ErrNotFound for an unknown lane.
// When the job's specification cannot be parsed, the error is dlq.ErrSpecUnreadable together
// with the lane.
func (s *Store) OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error) {
	return s.openLane(ctx, bulk, number, &attempt.Scheduled, &attempt.Number)
}

// fenceLane fences every attempt at a lane.
func (s *Store) fenceLane(ctx context.Context, bulk dlq.ID, number int) (dlq.Lane, error) {
	return s.openLane(ctx, bulk, number, nil, nil)
}

func (s *Store) openLane(ctx context.Context, bulk dlq.ID, number int, scheduled *time.Time, attempt *int) (dlq.Lane, error) {
	args := pgx.NamedArgs{"bulk": uuid(bulk), "lane": number, "scheduled_at": scheduled, "attempt": attempt}
	var specErr error
	lane, found, err := queryOne(ctx, s, "open lane", func(row pgx.CollectableRow) (lane dlq.Lane, err error) {
		var spec []byte
		defer func() { lane.Spec, specErr = decodeSpec[dlq.BulkSpec](spec) }()
		err = row.Scan(&lane.Owner.WorkflowID, &spec, &lane.UpperBound, &lane.MultiTarget, (*string)(&lane.State), &lane.Total, &lane.Epoch)
		return lane, err
	}, openLaneSQL, args)
	if err == nil && !found {
		_, found, err = queryOne(ctx, s, "open lane", pgx.RowTo[bool], laneExistsSQL, args)
		switch {
		case err == nil && found:
			err = fmt.Errorf("lane %d of bulk retry %s: %w", number, bulk, dlq.ErrFenced)
		case err == nil:
			err = fmt.Errorf("lane %d of %w", number, dlq.BulkNotFound(bulk))
		}
	}
	lane.Bulk, lane.Number, lane.Owner.Token = bulk, number, bulk.String()
	return lane, cmp.Or(err, specErr)
}

// laneArgs are the parameters that the statements of a lane share.
func laneArgs(lane *dlq.Lane) pgx.NamedArgs {
	first, last := lane.Buckets()
	return pgx.NamedArgs{"bulk": uuid(lane.Bulk), "lane": lane.Number, "lanes": max(lane.Total, 1), "epoch": lane.Epoch,
		"first_bucket": first, "last_bucket": last,
		"workflow_id": lane.Owner.WorkflowID, "token": lane.Owner.Token, "ordered": lane.Spec.Order != dlq.OrderNone,
		"skip_suspicious": !lane.Spec.IncludeSuspicious}
}

// claimedPageSQL looks the messages of a page up by id, the first of them up to
// @page_bytes, and at least the first.
const claimedPageSQL = `
WITH claimed AS MATERIALIZED (
	SELECT m.id, m.seq, m.original_topic, m.retry_count, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash,
		CASE WHEN m.size > 0 THEN m.size
				ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id),
					octet_length(m.payload::text), 0) END AS size
	FROM dlq.dlq_bulk_retry_lanes l
	CROSS JOIN LATERAL unnest(l.page) AS p (id)
	JOIN dlq.dlq_messages m ON m.id = p.id
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
		AND l.epoch = @epoch
		AND CASE WHEN m.status = 'RETRYING' AND m.owner_token = @token AND m.workflow_id = @workflow_id THEN true ELSE false END
), part AS MATERIALIZED (
	SELECT c.*
	FROM (SELECT claimed.*, sum(size) OVER (ORDER BY seq) AS bytes FROM claimed) AS c
	WHERE c.bytes <= @page_bytes OR c.bytes = c.size
), load AS MATERIALIZED (
	SELECT sum(size)::bigint AS bytes FROM part
)
SELECT load.bytes, p.id, p.seq, p.original_topic, p.retry_count,
	b.key, CASE WHEN load.bytes > @page_bytes THEN NULL
		WHEN b.message_id IS NULL THEN (SELECT convert_to(m.payload::text, 'UTF8') FROM dlq.dlq_messages m WHERE m.id = p.id)
		ELSE b.value END,
	CASE WHEN load.bytes <= @page_bytes THEN b.headers END, b.record_timestamp,
	EXISTS (SELECT FROM dlq.dlq_bulk_retry_blocked_keys k
		WHERE k.bulk_id = @bulk AND k.key_hash = p.key_hash AND k.topic = p.original_topic /* target */ AND k.key = b.key OFFSET 0)
FROM load
CROSS JOIN part p
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = p.id
ORDER BY p.seq`

// ClaimedPage returns the messages that the lane has claimed and not finalized, in the
// order of arrival: the first of them up to the given size in bytes, and at
// least a message. A single larger message comes without its value and headers. The page is empty
// when there are none.
func (s *Store) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (claim dlq.LaneClaim, err error) {
	args := laneArgs(&lane)
	args["page_bytes"] = bytes
	s.addTargets(args, &lane.Spec)
	err = s.batch(ctx, "read claimed page", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		queueQuery(batch, &claim.Page, func(row pgx.CollectableRow) (dlq.PageEnvelope, error) {
			return scanPageEnvelope(withFirst{row, &claim.Bytes})
		}, s.targeted(claimedPageSQL, &lane.Spec), args)
	})
	return claim, err
}

// withFirst is a row whose first column is scanned into first.
type withFirst struct {
	pgx.CollectableRow
	first any
}

// Scan scans the first column into first and the rest into targets.
func (r withFirst) Scan(targets ...any) error {
	return r.CollectableRow.Scan(append([]any{r.first}, targets...)...)
}
