package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// createLock is the advisory lock that allows a single creation of a job at a time. Two
// concurrent creations would not see each other's rows. The number is arbitrary and must
// never change.
const createLock = 7_305_011_990_414

// lockSQL takes an advisory lock for the transaction. If the program is suspended or loses
// its network while holding the lock, the server ends its session after two seconds.
const lockSQL = `SELECT set_config('idle_in_transaction_session_timeout', '2s', true), pg_advisory_xact_lock(@lock)`

// conflictSQL finds a running job of the same kind that has messages in common with @topic. A
// message belongs to its dead-letter topic and to its original topic. So a job of @topic conflicts,
// and so does a job of the other topic of any message, if the message is within the limits
// of both jobs; an empty limit matches every topic. So does a limit that Principal.Within cannot
// have made, since such a limit may be no valid expression. The status of the message does not matter,
// so the result does not change while a job changes the message.
const conflictSQL = `
WITH live AS MATERIALIZED (
	SELECT id, topic,
		CASE WHEN spec->>'within' ~ '^(\(\?s\))?\^\(([A-Za-z0-9_|-]|\\\.|\.\*?)*\)\$$' THEN spec->>'within' ELSE '' END AS within
	FROM ` + runningJobs + ` AS j
)
SELECT id FROM live WHERE topic = @topic AND within = @within
UNION ALL
SELECT live.id
FROM dlq.dlq_topic_counts c
JOIN live ON live.topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ live.within
WHERE @topic IN (c.dlq_topic, c.original_topic) AND c.dlq_topic ~ @within
LIMIT 1`

// newestSQL reads the order of arrival of the newest PENDING message. The sequence of
// snapshotSQL may be lower, after a COPY of messages that included seq.
const newestSQL = `
SELECT COALESCE(max(newest.seq), 0)
FROM (
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
	UNION ALL
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
) AS newest`

// snapshotSQL reads the last order of arrival that was assigned, and the time. Messages
// that become PENDING after this time are not claimed.
const snapshotSQL = `
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END, clock_timestamp()
FROM dlq.dlq_messages_seq_seq`

// createBulkSQL inserts the job and its lanes. Its messages are counted later.
const createBulkSQL = `
WITH job AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, spec, rate_limit, lanes, upper_bound, snapshot_at)
	VALUES (@id, @workflow_id, @topic, @spec::jsonb, @rate_limit, @lanes, @upper_bound, @snapshot_at)
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT job.id, n FROM job, generate_series(0, job.lanes - 1) AS n`

// ingestTimeoutSQL limits how long the creation of a job waits for the ingest lock.
// Transactions of the ingest that start meanwhile wait behind that call.
const ingestTimeoutSQL = `SELECT set_config('lock_timeout', '2s', true)`

// CreateBulk fixes the scope of a bulk retry by a snapshot and inserts its row and its
// lanes, in a few milliseconds at any size; CountBulk counts the messages. CreateBulk uses
// the fields ID, WorkflowID, Spec and Lanes (1 or more) of b.
//
// CreateBulk creates nothing if a running job conflicts (conflictSQL), but returns that job if both
// do the same work (BulkSpec.IsSameWork), and otherwise a *dlq.BulkBusyError. The error
// is dlq.ErrUnavailable when ingest does not release its lock in time.
func (s *Store) CreateBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	spec := b.Spec.Storable()
	args := pgx.NamedArgs{"spec": spec, "rate_limit": spec.RateLimit, "lanes": max(b.Lanes, 1)}
	running, err := s.createJob(ctx, dlq.TargetBulkRetry, b.Owner(), b.ID, createBulkSQL, &spec.Filter, args)
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	job, err := s.Bulk(ctx, running)
	switch {
	case err != nil || running == b.ID:
		return job, err
	case !job.Spec.IsSameWork(spec):
		return job, &dlq.BulkBusyError{Topic: spec.Topic, Running: running}
	}
	return job, s.recordJoin(ctx, dlq.TargetBulkRetry, job.Owner(), running, spec.Topic)
}

// createJob takes a snapshot, inserts the row of a job and records who asked for the job. The result is
// the id of the job, or of a running job that conflicts.
func (s *Store) createJob(ctx context.Context, target dlq.OperationTarget, job dlq.Owner, id dlq.ID, createSQL string,
	f *dlq.Filter, args pgx.NamedArgs) (running dlq.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	maps.Copy(args, pgx.NamedArgs{"target": target, "id": uuid(id), "workflow_id": job.WorkflowID, "topic": f.Topic, "within": f.Within})
	// Checked before the snapshot, so that a request that conflicts does not block the ingest.
	err = untilLoggedIn(ctx, func() error {
		running, err = conflictingJob(ctx, s.pool, args)
		return err
	})
	if err == nil && running.IsZero() {
		err = s.snapshot(ctx, args)
	}
	if err != nil || !running.IsZero() {
		return running, wrap("create job", err)
	}
	asked := creation(ctx, target, job, id, f.Topic)
	err = retryOnConflict(func() (err error) {
		running, err = s.insertJob(ctx, createSQL, args, asked)
		return err
	})
	if err == nil && running.IsZero() {
		running = id
		s.recorded(asked)
	}
	return running, wrap("create job", err)
}

// snapshot puts the upper bound and the time of the snapshot into args. The whole
// transaction is sent in a batch, so the ingest lock is not held for a round trip.
func (s *Store) snapshot(ctx context.Context, args pgx.NamedArgs) error {
	newest, err := s.newest(ctx, args)
	if err != nil {
		return err
	}
	var upperBound int64
	var at time.Time
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`) // snapshotSQL must see all that was committed before the lock was granted
	batch.Queue(ingestTimeoutSQL)
	batch.Queue(lockSQL, pgx.NamedArgs{"lock": int64(ingestLock)})
	batch.Queue(snapshotSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&upperBound, &at) })
	batch.Queue(`COMMIT`)
	err = s.pool.send(ctx, batch)
	if isBlocked(err) {
		s.endSuspended(ctx)
		return fmt.Errorf("ingest did not release its lock within 2s: %w", err)
	}
	args["upper_bound"], args["snapshot_at"] = max(upperBound, newest), at
	return err
}

func (s *Store) newest(ctx context.Context, args pgx.NamedArgs) (seq int64, err error) {
	err = s.batch(ctx, "find the newest message", func(batch *pgx.Batch) {
		batch.Queue(inOrderSQL)
		batch.Queue(newestSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&seq) })
	})
	return seq, err
}

// insertJob inserts the job and the operation, or returns the id of a running job that conflicts. READ
// COMMITTED lets each statement see all that was committed before the lock was granted,
// even if the database has another default.
func (s *Store) insertJob(ctx context.Context, createSQL string, args pgx.NamedArgs, asked *dlq.Operation) (busy dlq.ID, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, lockSQL, pgx.NamedArgs{"lock": int64(createLock)}); err != nil {
			return err
		}
		if busy, err = conflictingJob(ctx, tx, args); err != nil || !busy.IsZero() {
			return err
		}
		if _, err = tx.Exec(ctx, createSQL, args); err != nil {
			return err
		}
		return recordCreation(ctx, tx, asked)
	})
	return busy, err
}

// conflictingJob returns the id of a running job that conflicts with a new job of the topic
// in args, or zero.
func conflictingJob(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, args pgx.NamedArgs) (busy dlq.ID, err error) {
	err = on.QueryRow(ctx, conflictSQL, args).Scan((*[16]byte)(&busy))
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.ID{}, nil
	}
	return busy, err
}
