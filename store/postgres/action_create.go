package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// actionConflictSQL finds a running bulk action that has messages in common with @topic,
// like conflictSQL for bulk retries.
const actionConflictSQL = `
WITH live AS MATERIALIZED (
	SELECT id, topic,
		CASE WHEN spec->>'within' ~ '^(\(\?s\))?\^\(([A-Za-z0-9_|-]|\\\.|\.\*?)*\)\$$' THEN spec->>'within' ELSE '' END AS within
	FROM dlq.dlq_bulk_actions
	WHERE ended_at IS NULL
)
SELECT id FROM live WHERE topic = @topic AND within = @within
UNION ALL
SELECT live.id
FROM dlq.dlq_topic_counts c
JOIN live ON live.topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ live.within
WHERE @topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ @within
LIMIT 1`

const createActionSQL = `
INSERT INTO dlq.dlq_bulk_actions (id, workflow_id, topic, spec, upper_bound, snapshot_at)
VALUES (@id, @workflow_id, @topic, @spec::jsonb, @upper_bound, @snapshot_at)`

// CreateAction fixes the scope of a bulk action by a snapshot and inserts its row. It takes
// a few milliseconds at any size; CountAction counts the messages. It uses the fields ID,
// WorkflowID and Spec of a.
//
// It creates nothing if a running bulk action has messages in common with the topic. It
// returns that job if it does the same work (ActionSpec.IsSameWork), and otherwise a
// *dlq.ActionBusyError. The error is dlq.ErrUnavailable when ingest does not release its
// lock in time.
func (s *Store) CreateAction(ctx context.Context, a dlq.BulkAction) (dlq.BulkAction, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	spec := a.Spec.Storable()
	args := pgx.NamedArgs{"id": uuid(a.ID), "workflow_id": a.WorkflowID, "topic": spec.Topic, "within": spec.Within, "spec": spec}
	asked := creation(ctx, dlq.TargetBulkAction, a.Owner(), a.ID, spec.Topic)
	busy, err := s.createJob(ctx, actionConflictSQL, createActionSQL, args, asked)
	if err != nil {
		return dlq.BulkAction{}, wrap("create bulk action", err)
	}
	if busy.IsZero() {
		return s.Action(ctx, a.ID)
	}
	other, err := s.Action(ctx, busy)
	switch {
	case err != nil:
		return other, err
	case !other.Spec.IsSameWork(spec):
		return other, &dlq.ActionBusyError{Topic: spec.Topic, Running: busy}
	}
	return other, s.recordJoin(ctx, dlq.TargetBulkAction, other.Owner(), busy, spec.Topic)
}

// countActionSQL counts the messages that the job will change, by the same conditions. It
// takes no locks while it reads.
const countActionSQL = `
WITH job AS MATERIALIZED (
	SELECT upper_bound, snapshot_at FROM dlq.dlq_bulk_actions WHERE id = @id
), matched AS MATERIALIZED (
	SELECT count(*) AS n
	FROM (
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
			AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
			AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */
			AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
	) AS scope
)
UPDATE dlq.dlq_bulk_actions a
SET matched = matched.n, counted = true, updated_at = clock_timestamp()
FROM matched
WHERE a.id = @id AND NOT a.counted`

// CountAction counts the messages in the scope of a bulk action, once. A second call
// changes nothing, nor does a call for a job that has ended. It reads the whole scope, and
// nothing is changed before. It returns the bulk action, dlq.ErrNotFound, or
// dlq.ErrSpecUnreadable.
func (s *Store) CountAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	a, err := s.Action(ctx, id)
	if err == nil {
		err = checkReadable(&a)
	}
	if err != nil {
		return dlq.BulkAction{}, err
	}
	if !a.Counting {
		return a, nil
	}
	args := actionArgs(&a.Spec)
	args["id"] = uuid(id)
	err = s.batch(ctx, "count bulk action", func(batch *pgx.Batch) {
		batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
		batch.Queue(byIndexSQL) // a generic plan may expect few messages of many topics
		batch.Queue(filtered(countActionSQL, &a.Spec.Filter), args)
	})
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return s.Action(ctx, id)
}

// actionArgs are the parameters of the scope of a bulk action.
func actionArgs(spec *dlq.ActionSpec) pgx.NamedArgs {
	args := filterArgs(&spec.Filter)
	args["statuses"] = spec.ChangedStatuses()
	return args
}
