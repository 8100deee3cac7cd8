package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// createLock is the advisory lock that lets one bulk retry be created at a time: of
// two at once, neither would see the other. The number is arbitrary and must never
// change.
const createLock = 7_305_011_990_414

// lockSQL takes an advisory lock for the transaction. A program that freezes or
// loses its network while it holds the lock loses its session too: nobody waits for
// it longer than that.
const lockSQL = `SELECT set_config('idle_in_transaction_session_timeout', '2s', true), pg_advisory_xact_lock(@lock)`

// busySQL finds a job under way that has messages in common with a topic. Two topics
// have them where one is the dead-letter topic of the other. It does not matter which
// status the messages have, so that the answer does not change while a job sends
// them.
const busySQL = `
WITH live AS MATERIALIZED (
	SELECT id, topic FROM dlq.dlq_bulk_retries WHERE ended_at IS NULL
)
SELECT id FROM live WHERE topic = @topic
UNION ALL
SELECT live.id FROM live JOIN dlq.dlq_topic_counts c ON c.original_topic = live.topic WHERE c.dlq_topic = @topic
UNION ALL
SELECT live.id FROM live JOIN dlq.dlq_topic_counts c ON c.dlq_topic = live.topic WHERE c.original_topic = @topic
LIMIT 1`

// newestSQL is the order of arrival of the newest PENDING message. The sequence may be
// behind it where messages were copied by hand.
const newestSQL = `
SELECT COALESCE(max(newest.seq), 0)
FROM (
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
	UNION ALL
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
) AS newest`

// snapshotSQL is the last number that was given out for the order of arrival, and the
// time. Messages that become PENDING later are not taken anyway.
const snapshotSQL = `
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END, clock_timestamp()
FROM dlq.dlq_messages_seq_seq`

// createBulkSQL writes the job with its lanes. Its messages are not counted yet.
const createBulkSQL = `
WITH job AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, spec, rate_limit, lanes, upper_bound, snapshot_at)
	VALUES (@id, @workflow_id, @topic, @spec::jsonb, @rate_limit, @lanes, @upper_bound, @snapshot_at)
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT job.id, n FROM job, generate_series(0, job.lanes - 1) AS n`

// ingestTimeoutSQL bounds how long the creation of a job waits for the ingest that is
// under way, and so how long the ingest behind it waits for the creation.
const ingestTimeoutSQL = `SELECT set_config('lock_timeout', '2s', true)`

// CreateBulk freezes the scope of a bulk retry and writes its row and its lanes. It
// takes a few milliseconds at any size, and leaves it to CountBulk to say how many
// messages match. Of b it takes ID, WorkflowID, Spec and Lanes (at least one).
//
// While another job that has not ended takes messages of the same topic, perhaps
// under its other name, it creates nothing: it returns that job where it asks for
// the same (BulkSpec.IsSameWork), and else a *dlq.BulkBusyError. When ingest does not
// pause for a moment in time it is dlq.ErrUnavailable.
func (s *Store) CreateBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	spec := b.Spec.Storable()
	args := pgx.NamedArgs{"id": uuid(b.ID), "workflow_id": b.WorkflowID, "topic": spec.Topic, "spec": spec,
		"rate_limit": spec.RateLimit, "lanes": max(b.Lanes, 1)}
	// One that cannot be created does not stop ingest either.
	busy, err := s.busyWith(ctx, s.pool, spec.Topic)
	if err == nil && busy.IsZero() {
		err = s.snapshot(ctx, args)
	}
	if err == nil && busy.IsZero() {
		err = again(func() (err error) {
			busy, err = s.createBulk(ctx, spec.Topic, args)
			return err
		})
	}
	if err != nil {
		return dlq.BulkRetry{}, failed("create bulk retry", err)
	}
	if busy.IsZero() {
		return s.Bulk(ctx, b.ID)
	}
	other, err := s.Bulk(ctx, busy)
	if err == nil && !other.Spec.IsSameWork(spec) {
		err = &dlq.BulkBusyError{Topic: spec.Topic, Running: busy}
	}
	return other, err
}

// snapshot reads what bounds the scope, between two ingests, into args. It is a
// transaction of its own, which ends without hearing from us again: no ingest waits
// for this program or its network.
func (s *Store) snapshot(ctx context.Context, args pgx.NamedArgs) error {
	newest, err := s.newest(ctx, args)
	if err != nil {
		return err
	}
	var bound int64
	var at time.Time
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`) // so that the bound is read as it is once the lock is granted
	batch.Queue(ingestTimeoutSQL)
	batch.Queue(lockSQL, pgx.NamedArgs{"lock": int64(ingestLock)})
	batch.Queue(snapshotSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&bound, &at) })
	batch.Queue(`COMMIT`)
	err = s.pool.SendBatch(ctx, batch).Close()
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == lockNotAvailable {
		return fmt.Errorf("ingest has stored without a pause for 2s: %w", err)
	}
	args["upper_bound"], args["snapshot_at"] = max(bound, newest), at
	return err
}

func (s *Store) newest(ctx context.Context, args pgx.NamedArgs) (seq int64, err error) {
	err = s.batch(ctx, "find the newest message", func(batch *pgx.Batch) {
		batch.Queue(inOrderSQL)
		batch.Queue(newestSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&seq) })
	})
	return seq, err
}

// createBulk writes the job unless another is in its way, whose id it returns then.
// Each statement has to see what was committed before the lock was granted, whatever
// the database's default is.
func (s *Store) createBulk(ctx context.Context, topic string, args pgx.NamedArgs) (busy dlq.ID, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, lockSQL, pgx.NamedArgs{"lock": int64(createLock)}); err != nil {
			return err
		}
		if busy, err = s.busyWith(ctx, tx, topic); err != nil || !busy.IsZero() {
			return err
		}
		_, err = tx.Exec(ctx, createBulkSQL, args)
		return err
	})
	return busy, err
}

// busyWith returns the id of a job that is in the way of another on the topic, or
// zero.
func (s *Store) busyWith(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, topic string) (busy dlq.ID, err error) {
	err = on.QueryRow(ctx, busySQL, pgx.NamedArgs{"topic": topic}).Scan((*[16]byte)(&busy))
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.ID{}, nil
	}
	return busy, err
}
