package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const createActionSQL = `
INSERT INTO dlq.dlq_bulk_actions (id, workflow_id, topic, spec, upper_bound, snapshot_at)
VALUES (@id, @workflow_id, @topic, @spec::jsonb, @upper_bound, @snapshot_at)`

// CreateAction fixes the scope of a bulk action by a snapshot and inserts its row, in
// a few milliseconds at any size; CountAction counts the messages. CreateAction uses the fields ID,
// WorkflowID and Spec of a.
//
// CreateAction creates nothing if a running bulk action has messages in common with the topic, but
// returns that job if both do the same work (ActionSpec.IsSameWork), and otherwise a
// *dlq.ActionBusyError. The error is dlq.ErrUnavailable when ingest does not release its
// lock in time.
func (s *Store) CreateAction(ctx context.Context, a dlq.BulkAction) (dlq.BulkAction, error) {
	spec := a.Spec.Storable()
	running, err := s.createJob(ctx, dlq.TargetBulkAction, a.Owner(), a.ID, createActionSQL, &spec.Filter, pgx.NamedArgs{"spec": spec})
	if err != nil {
		return dlq.BulkAction{}, err
	}
	job, err := s.Action(ctx, running)
	switch {
	case err != nil || running == a.ID:
		return job, err
	case !job.Spec.IsSameWork(spec):
		return job, &dlq.ActionBusyError{Topic: spec.Topic, Running: running}
	}
	return job, s.recordJoin(ctx, dlq.TargetBulkAction, job.Owner(), running, spec.Topic)
}

// countActionSQL counts the messages that the job will change, by the same conditions, and
// takes no locks meanwhile.
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
// changes nothing, nor does a call for a job that has ended. CountAction reads the whole scope, and
// nothing is changed before. The result is the bulk action, dlq.ErrNotFound, or
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
