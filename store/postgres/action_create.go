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
	SELECT id, topic FROM dlq.dlq_bulk_actions WHERE ended_at IS NULL
)
SELECT id FROM live WHERE topic = @topic
UNION ALL
SELECT live.id FROM live JOIN dlq.dlq_topic_counts c ON c.original_topic = live.topic WHERE c.dlq_topic = @topic
UNION ALL
SELECT live.id FROM live JOIN dlq.dlq_topic_counts c ON c.dlq_topic = live.topic WHERE c.original_topic = @topic
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
	args := pgx.NamedArgs{"id": uuid(a.ID), "workflow_id": a.WorkflowID, "topic": spec.Topic, "spec": spec}
	asked := creation(ctx, dlq.TargetBulkAction, a.ID, spec.Topic, a.WorkflowID)
	busy, err := s.createJob(ctx, actionConflictSQL, createActionSQL, args, asked)
	if err != nil {
		return dlq.BulkAction{}, wrap("create bulk action", err)
	}
	if busy.IsZero() {
		return s.Action(ctx, a.ID)
	}
	other, err := s.Action(ctx, busy)
	if err == nil && !other.Spec.IsSameWork(spec) {
		err = &dlq.ActionBusyError{Topic: spec.Topic, Running: busy}
	}
	return other, err
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
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */
			AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */
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

const previewActionSQL = `
SELECT status, count(*)
FROM (
	(SELECT m.status
	FROM dlq.dlq_messages m /* source */
	WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT m.status
	FROM dlq.dlq_messages m /* source */
	WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
) AS scope
GROUP BY status`

// PreviewAction returns the result that a bulk action would have if it started now. It
// changes nothing, and reads everything in one snapshot. It reads the whole scope, and has
// no time limit but that of ctx.
func (s *Store) PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	spec = spec.Storable()
	sample := dlq.ListQuery{Filter: spec.Filter, PageSize: dlq.PreviewSample, OldestFirst: true}
	sample.Statuses = spec.ChangedStatuses()
	sampleArgs := listArgs(&sample)
	sampleArgs["limit"], sampleArgs["statuses"] = dlq.PreviewSample, sample.Statuses
	byStatus := map[dlq.Status]int64{}
	var messages []dlq.Message
	batch := &pgx.Batch{}
	batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
	batch.Queue(filtered(previewActionSQL, &spec.Filter), filterArgs(&spec.Filter)).Query(func(rows pgx.Rows) error {
		var status dlq.Status
		var n int64
		_, err := pgx.ForEachRow(rows, []any{(*string)(&status), &n}, func() error {
			byStatus[status] = n
			return nil
		})
		return err
	})
	if sample.Key == nil { // keys have an index of their own
		batch.Queue(inOrderSQL)
	}
	queueQuery(batch, &messages, scanMessage, listed(listSQL, &sample), sampleArgs)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return dlq.ActionPreview{}, wrap("preview bulk action", err)
	}
	return dlq.NewActionPreview(spec.Action, byStatus, messages), nil
}
