package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// bulksSQL reads bulk retries with the sum of their lanes. The rate includes each lane's
// current window of ten seconds, and the part of the previous window that is not older than
// ten seconds. The statement subtracts epochs, because infinite times, which were written by hand,
// cannot be subtracted. A running job shows the reason of any of its queues, preferably
// the reason of a closed target. No index has the order of the closed queues, so these few are
// sorted and the planner does not read all queues.
const bulksSQL = `
SELECT b.id, b.workflow_id, b.spec, b.rate_limit, b.state,
	CASE WHEN b.state = 'RUNNING' AND l.waiting > 0 THEN COALESCE(
		(SELECT q.reason FROM dlq.dlq_bulk_retry_queues q WHERE q.bulk_id = b.id AND q.closed ORDER BY q.partition, q.topic LIMIT 1),
		(SELECT q.reason FROM dlq.dlq_bulk_retry_queues q WHERE q.bulk_id = b.id ORDER BY q.lane DESC, q.due_at DESC LIMIT 1),
		b.reason) ELSE b.reason END,
	b.lanes, b.upper_bound, b.matched, NOT b.counted, b.multi_target,
	b.came_back, l.retried, l.failed, l.dead, b.skipped + l.skipped, CASE WHEN b.ended_at IS NULL THEN l.waiting ELSE 0 END,
	l.recent / least(10, greatest(1, extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM b.started_at)::float8)),
	b.started_at, greatest(b.updated_at, l.updated_at), b.ended_at
FROM dlq.dlq_bulk_retries b
CROSS JOIN LATERAL (
	SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
		COALESCE(sum(dead), 0)::bigint AS dead, COALESCE(sum(skipped), 0)::bigint AS skipped,
		COALESCE(sum(waiting), 0)::bigint AS waiting, max(updated_at) AS updated_at,
		COALESCE(sum(CASE
			WHEN age < 10 THEN window_count + previous_count * (1 - age / 10)
			WHEN age < 20 THEN window_count * (2 - age / 10)
			ELSE 0 END), 0) AS recent
	FROM dlq.dlq_bulk_retry_lanes_now,
	LATERAL (SELECT greatest(0, extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM window_started_at)::float8) AS age) AS w
	WHERE bulk_id = b.id
) AS l
WHERE b.ended_at IS NULL /* condition */
ORDER BY b.started_at DESC, b.id DESC
LIMIT @limit`

// bulks reads the bulk retries that meet a condition on b, the newest first. A nil limit
// reads all of them.
func (s *Store) bulks(ctx context.Context, operation, condition string, args pgx.NamedArgs) ([]dlq.BulkRetry, error) {
	return queryAll(ctx, s, operation, scanBulk, strings.Replace(bulksSQL, "b.ended_at IS NULL /* condition */", condition, 1), args)
}

// decodeSpec refuses fields that this version does not know. A filter of another version would
// otherwise be ignored, and the job would take every message of the topic.
func decodeSpec[S any](encoded []byte) (spec S, err error) {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil {
		return *new(S), fmt.Errorf("%w: %w", dlq.ErrSpecUnreadable, err)
	}
	return spec, nil
}

func scanBulk(row pgx.CollectableRow) (dlq.BulkRetry, error) {
	var b dlq.BulkRetry
	var rate int
	var spec []byte
	err := row.Scan((*[16]byte)(&b.ID), &b.WorkflowID, &spec, &rate, (*string)(&b.State), &b.Reason, &b.Lanes, &b.UpperBound, &b.Matched,
		&b.Counting, &b.MultiTarget, &b.CameBack, &b.Counts.Retried, &b.Counts.Failed, &b.Counts.Dead, &b.Counts.Skipped, &b.Waiting, &b.RecentPerSecond,
		instant{&b.StartedAt}, instant{&b.UpdatedAt}, optionalInstant{&b.EndedAt})
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	var specErr error
	if b.Spec, specErr = decodeSpec[dlq.BulkSpec](spec); specErr != nil { // an unreadable row must not hide the others
		b.Reason = specErr.Error()
	}
	b.Spec.RateLimit = rate // the specification has the limit of the request
	return b, nil
}

// Bulk returns a bulk retry with the sum of its lanes, or dlq.ErrNotFound.
func (s *Store) Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	bulks, err := s.bulks(ctx, "read bulk retry", "b.id = @id", pgx.NamedArgs{"id": uuid(id), "limit": 1})
	if err == nil && len(bulks) == 0 {
		err = dlq.BulkNotFound(id)
	}
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return bulks[0], nil
}

// Bulks returns the newest bulk retries, the newest first, of the topics that match an
// expression; empty for all.
func (s *Store) Bulks(ctx context.Context, within string, limit int) ([]dlq.BulkRetry, error) {
	return s.bulks(ctx, "list bulk retries", "(@within = '' OR b.topic ~ @within)", pgx.NamedArgs{"limit": max(limit, 0), "within": within})
}

// RunningBulks returns every bulk retry that has not ended, the newest first.
func (s *Store) RunningBulks(ctx context.Context) ([]dlq.BulkRetry, error) {
	return s.bulks(ctx, "list running bulk retries", "b.ended_at IS NULL", pgx.NamedArgs{"limit": nil})
}
