package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// conflictSQL finds a running job that may have messages in common with the new job. It also finds the job itself,
// if its plan was started before. A job of a kind that may run beside the new job (JobKind.Beside) does not
// conflict. A job of an unreadable kind conflicts. A running job on @topic with the same access limit conflicts.
// Any other running job conflicts if a message belongs to the topics of both jobs and is within the limits of both
// jobs. A message belongs to its dead-letter topic and to its original topic. An empty limit matches every topic. A
// limit that Principal.Within cannot have made may be an invalid expression, and counts as empty. The status of the
// message does not matter, since a job may change the status meanwhile.
const conflictSQL = `
WITH live AS MATERIALIZED (
	SELECT id, topic,
		CASE WHEN spec->>'within' ~ '^(\(\?s\))?\^\(([A-Za-z0-9_|-]|\\\.|\.\*?)*\)\$$' THEN spec->>'within' ELSE '' END AS within
	FROM dlq.dlq_jobs
	WHERE ended_at IS NULL AND NOT COALESCE(spec->>'kind' = ANY (@beside::text[]), false)
)
SELECT id FROM dlq.dlq_jobs WHERE id = @id
UNION ALL
SELECT id FROM live WHERE topic = @topic AND within = @within
UNION ALL
SELECT live.id
FROM dlq.dlq_topic_counts c
JOIN live ON live.topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ live.within
WHERE @topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ @within
LIMIT 1`

// newestSQL reads the highest seq of a PENDING message. The value of the sequence in snapshotSQL
// may be lower, after a COPY of messages that included seq.
const newestSQL = `
SELECT COALESCE(max(newest.seq), 0)
FROM (
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
	UNION ALL
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
) AS newest`

// snapshotSQL reads the last seq that the sequence has assigned, and the time. Messages that
// become PENDING after this time are not claimed.
const snapshotSQL = `
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END, clock_timestamp()
FROM dlq.dlq_messages_seq_seq`

// createJobSQL inserts the job and its lanes. Its messages are counted later.
const createJobSQL = `
WITH job AS (
	INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, spec, rate_limit, lanes, upper_bound, snapshot_at)
	VALUES (@id, @workflow_id, @topic, @spec::jsonb, @rate_limit, @lanes, @upper_bound, @snapshot_at)
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_job_lanes (job_id, lane, first_bucket, last_bucket)
SELECT job.id, n, n * 1024 / job.lanes, (n + 1) * 1024 / job.lanes - 1 FROM job, generate_series(0, job.lanes - 1) AS n`

// CreateJob inserts the row and the lanes of a job, in a few milliseconds at any size; CountJob counts the
// messages. The scope comes from the plan or a snapshot. CreateJob uses the fields ID, WorkflowID, Spec,
// Planned and, of a retry, Lanes (1 or more).
//
// If the job exists, CreateJob returns it. If a running job conflicts (conflictSQL), the error is a
// *dlq.JobBusyError. But if both jobs do the same work (JobSpec.IsSameWork) and the new job has no plan, CreateJob
// returns the running job. The error is dlq.ErrUnavailable when ingest does not release its lock in time.
func (s *Store) CreateJob(ctx context.Context, asked *dlq.Operation, j dlq.Job) (dlq.Job, error) {
	j.Spec = j.Spec.Storable()
	if j.Lanes = max(j.Lanes, 1); j.Spec.Kind != dlq.KindRetry {
		j.Lanes = 0
	}
	id, isCreated, err := s.createJob(ctx, asked, &j)
	if err != nil {
		return dlq.Job{}, err
	}
	job, err := s.Job(ctx, id)
	switch {
	case err != nil || isCreated:
		return job, err
	case !job.Spec.IsSameWork(j.Spec), j.Planned != nil && id != j.ID: // a plan has a scope of its own
		return job, &dlq.JobBusyError{Topic: j.Spec.Topic, Running: id}
	}
	return job, s.recordJoin(ctx, asked, &job)
}

// createJob takes a snapshot, inserts the row of a job and records who asked for the job. If the job exists, or a running
// job conflicts, createJob returns the id of that job.
func (s *Store) createJob(ctx context.Context, asked *dlq.Operation, j *dlq.Job) (running dlq.ID, isCreated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := pgx.NamedArgs{"id": uuid(j.ID), "workflow_id": j.WorkflowID, "topic": j.Spec.Topic, "within": j.Spec.Within, "spec": j.Spec,
		"rate_limit": j.Spec.RateLimit, "lanes": j.Lanes, "beside": j.Spec.Kind.Beside()}
	// Checked before the snapshot, so that a request that conflicts does not block the ingest.
	running, isBusy, err := queryOne(ctx, s, "create job", pgx.RowTo[dlq.ID], conflictSQL, args)
	if err != nil || isBusy {
		return running, false, err
	}
	scope := j.Planned
	if scope == nil {
		if scope, err = s.snapshot(ctx, j.Spec.Topic); err != nil {
			return dlq.ID{}, false, wrap("create job", err)
		}
	}
	args["upper_bound"], args["snapshot_at"] = scope.UpperBound, timestamptz(scope.SnapshotAt)
	created := recordOf(asked, dlq.TargetJob, dlq.OperationAccepted)
	if created != nil {
		*created = created.Created(j)
	}
	running, err = s.insertJob(ctx, args, created)
	if err == nil && running.IsZero() {
		running, isCreated = j.ID, true
		s.recorded(created)
	}
	return running, isCreated, wrap("create job", err)
}

// snapshot fixes the scope of a job on a topic. The whole transaction is sent in one batch, so the
// ingest lock is not held while the program waits for an answer.
func (s *Store) snapshot(ctx context.Context, topic string) (*dlq.Scope, error) {
	newest, _, err := queryOne(ctx, s, "find the newest message", pgx.RowTo[int64], newestSQL, pgx.NamedArgs{"topic": topic}, inOrderSQL)
	if err != nil {
		return nil, err
	}
	scope := &dlq.Scope{}
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`) // snapshotSQL must see all that was committed before the lock was granted
	queueIngestLock(batch)
	batch.Queue(snapshotSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&scope.UpperBound, instant{&scope.SnapshotAt}) })
	batch.Queue(`COMMIT`)
	err = s.pool.send(ctx, batch)
	if s.endSuspended(ctx, err); isBlocked(err) {
		return nil, fmt.Errorf("ingest did not release its lock within 2s: %w", err)
	}
	scope.UpperBound = max(scope.UpperBound, newest)
	return scope, err
}

// insertJob inserts the job and the operation, or returns the id of a running job that conflicts.
func (s *Store) insertJob(ctx context.Context, args pgx.NamedArgs, created *dlq.Operation) (busy dlq.ID, err error) {
	err = s.inTransaction(ctx, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, lockSQL, pgx.NamedArgs{"lock": createLock}); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, conflictSQL, args).Scan((*[16]byte)(&busy))
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err = tx.Exec(ctx, createJobSQL, args); err != nil {
			return err
		}
		return recordCreation(ctx, tx, created)
	})
	return busy, err
}
