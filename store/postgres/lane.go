package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// openLaneSQL makes an attempt the newest of its lane. It changes nothing if a newer attempt has the lane, because the
// worker of this attempt was suspended. Without an attempt, the statement only fences the present attempt.
const openLaneSQL = `
UPDATE dlq.dlq_job_lanes l
SET epoch = epoch + 1, scheduled_at = COALESCE(@scheduled_at::timestamptz, l.scheduled_at), attempt = COALESCE(@attempt::int, l.attempt)
FROM dlq.dlq_jobs b
WHERE ` + rowOfLane + ` AND b.id = l.job_id
	AND (@attempt::int IS NULL OR (l.scheduled_at, l.attempt) <= (@scheduled_at::timestamptz, @attempt::int))
RETURNING b.workflow_id, b.spec, b.upper_bound, b.multi_target, b.state, l.first_bucket, l.last_bucket, l.epoch`

const laneExistsSQL = `SELECT true FROM dlq.dlq_job_lanes WHERE job_id = @job AND lane = @lane LIMIT 1`

// OpenLane makes an attempt the newest of a lane and returns the lane. OpenLane waits for a running claim or finalize.
// Then older attempts can neither claim nor finalize. It returns dlq.ErrFenced when a newer attempt has the lane, and
// dlq.ErrNotFound for an unknown lane. When the job's specification cannot be parsed, the error is
// dlq.ErrSpecUnreadable together with the lane.
func (s *Store) OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error) {
	return s.openLane(ctx, bulk, number, &attempt.Scheduled, &attempt.Number)
}

// openLane without an attempt fences every attempt.
func (s *Store) openLane(ctx context.Context, bulk dlq.ID, number int, scheduled *time.Time, attempt *int) (dlq.Lane, error) {
	args := pgx.NamedArgs{"job": uuid(bulk), "lane": number, "scheduled_at": scheduled, "attempt": attempt}
	var specErr error
	lane, found, err := queryOne(ctx, s, "open lane", func(row pgx.CollectableRow) (lane dlq.Lane, err error) {
		var spec []byte
		err = row.Scan(&lane.Owner.WorkflowID, &spec, &lane.UpperBound, &lane.MultiTarget, (*string)(&lane.State),
			&lane.Buckets.First, &lane.Buckets.Last, &lane.Epoch)
		lane.Spec, specErr = decodeSpec(spec)
		return lane, err
	}, openLaneSQL, args)
	if err == nil && !found {
		missing := fmt.Errorf("lane %d of %w", number, dlq.JobNotFound(bulk))
		if _, err = queryExisting(ctx, s, "open lane", missing, pgx.RowTo[bool], laneExistsSQL, args); err == nil {
			err = fmt.Errorf("lane %d of bulk retry %s: %w", number, bulk, dlq.ErrFenced)
		}
	}
	lane.Job, lane.Number, lane.Owner.Token = bulk, number, bulk.String()
	return lane, cmp.Or(err, specErr)
}
