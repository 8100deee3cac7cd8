package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// startLock is the advisory lock that lets one bulk retry start at a time: of
// two that start at once, neither would see the other. The number is arbitrary
// and must never change.
const startLock = 7_305_011_990_414

// busySQL finds a job under way that has messages in common with the one to
// start. Two topics have them where one is the dead-letter topic of the other;
// what status the messages have does not matter, so that the answer does not
// change while a job sends them. It reads messages only while other jobs are
// under way, and then at worst the topic's own, once for all of those: the CASE
// hides from the planner what might tempt it to read the whole table. A job that
// has been started has nobody in its way.
const busySQL = `
WITH live AS MATERIALIZED (
	SELECT id, topic
	FROM dlq.dlq_bulk_retries
	WHERE state IN ('RUNNING', 'PAUSED') AND id <> @id AND NOT EXISTS (SELECT FROM dlq.dlq_bulk_retries WHERE id = @id)
), other AS MATERIALIZED (
	SELECT name.topic
	FROM unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) AS s (status),
	LATERAL (
		(SELECT m.original_topic AS topic FROM dlq.dlq_messages m
			WHERE m.dlq_topic = @topic AND m.status = s.status
				AND CASE WHEN m.original_topic = ANY (ARRAY(SELECT topic FROM live)) THEN true ELSE false END
			ORDER BY m.created_at DESC, m.seq DESC LIMIT 1)
		UNION ALL
		(SELECT m.dlq_topic FROM dlq.dlq_messages m
			WHERE m.original_topic = @topic AND m.status = s.status
				AND CASE WHEN m.dlq_topic = ANY (ARRAY(SELECT topic FROM live)) THEN true ELSE false END
			ORDER BY m.created_at DESC, m.seq DESC LIMIT 1)
	) AS name
	WHERE EXISTS (SELECT FROM live)
)
SELECT id FROM live WHERE topic = @topic
UNION ALL
(SELECT live.id FROM other JOIN live USING (topic) LIMIT 1)
LIMIT 1`

// ingestLock is the advisory lock that ingest shares while it stores, and that a
// start takes alone to read the bound. The order of arrival is given out before
// it is committed: without the lock, a message below the bound could become
// visible after it was counted. A program that inserts messages by hand is not
// covered unless it takes the lock too. The number is arbitrary and must never
// change.
const ingestLock = 7_305_011_990_415

// freezePatience bounds how long a start waits for the ingest that is under way,
// and so how long the ingest behind it waits for the start.
const freezePatience = 2 * time.Second

// boundSQL looks for the newest message that may be taken: two index probes, which
// only have to pass over what has been taken since the table was vacuumed. What
// becomes PENDING later is not taken anyway.
const boundSQL = `
SELECT COALESCE(max(newest.seq), 0), clock_timestamp()
FROM (
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
	UNION ALL
	(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = 'PENDING' ORDER BY m.seq DESC LIMIT 1)
) AS newest`

// startBulkSQL writes the job with its lanes. What it matches is not counted yet.
const startBulkSQL = `
WITH started AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, spec, rate_limit, lanes, bound, frozen_at, matched, counted)
	VALUES (@id, @workflow, @topic, @spec::jsonb, @rate, @lanes, @bound, @frozen, 0, false)
	ON CONFLICT (id) DO NOTHING
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT started.id, n FROM started, generate_series(0, started.lanes - 1) AS n`

// StartBulk fixes the scope of a bulk retry and writes its lanes; it takes a few
// milliseconds at any size, and leaves it to CountBulk to say how many messages
// match. Of b it takes ID, WorkflowID, Spec and Lanes (at least one). Starting one
// that was started before returns it as it stands. While another that has not
// ended takes messages of the same topic, perhaps under its other name, the answer
// is a *dlq.BulkBusyError; filters are not compared. When ingest does not come to
// a moment of rest in time it is dlq.ErrUnavailable.
func (p *Postgres) StartBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	known, err := p.Bulk(ctx, b.ID)
	if !errors.Is(err, dlq.ErrNotFound) {
		return known, err
	}
	spec := normalizedSpec(b.Spec)
	encoded, err := encodeSpec(spec)
	if err != nil {
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	args := pgx.NamedArgs{"id": uuid(b.ID), "workflow": b.WorkflowID, "topic": spec.Topic, "spec": encoded,
		"rate": spec.RateLimit, "lanes": max(b.Lanes, 1)}
	// One that cannot start does not stop ingest either.
	err = again(func() error { return busyWith(ctx, p.pool, spec.Topic, args) })
	if err == nil {
		err = again(func() error { return p.freeze(ctx, args) })
	}
	if err == nil {
		err = again(func() error { return p.startBulk(ctx, spec.Topic, args) })
	}
	var busy *dlq.BulkBusyError
	switch {
	case errors.As(err, &busy):
		return dlq.BulkRetry{}, busy
	case err != nil:
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	return p.Bulk(ctx, b.ID)
}

// freeze reads what bounds the scope, between two ingests, into args. It is a
// transaction of its own, which ends without hearing from us again: no ingest
// waits for this program or its network.
func (p *Postgres) freeze(ctx context.Context, args pgx.NamedArgs) error {
	var bound int64
	var at time.Time
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`) // so that the bound is read as it is once the lock is granted
	batch.Queue(`SET LOCAL lock_timeout = ` + strconv.FormatInt(freezePatience.Milliseconds(), 10))
	batch.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(ingestLock))
	batch.Queue(walkSQL)
	batch.Queue(boundSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&bound, &at) })
	batch.Queue(`COMMIT`)
	err := p.pool.SendBatch(ctx, batch).Close()
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == lockNotAvailable {
		return fmt.Errorf("ingest has stored without a pause for %s: %w", freezePatience, err)
	}
	args["bound"], args["frozen"] = bound, at
	return err
}

// startBulk starts one unless another is in its way. Each statement has to see
// what was committed before the lock was granted, whatever the database's
// default is.
func (p *Postgres) startBulk(ctx context.Context, topic string, args pgx.NamedArgs) error {
	return pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(startLock)); err != nil {
			return err
		}
		if err := busyWith(ctx, tx, topic, args); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, startBulkSQL, args)
		return err
	})
}

// busyWith returns a *dlq.BulkBusyError when another job is in the way.
func busyWith(ctx context.Context, on querier, topic string, args pgx.NamedArgs) error {
	busy := dlq.BulkBusyError{Topic: topic}
	batch := &pgx.Batch{}
	batch.Queue(walkSQL)
	batch.Queue(busySQL, args).QueryRow(func(row pgx.Row) error {
		return row.Scan((*[16]byte)(&busy.Running))
	})
	err := on.SendBatch(ctx, batch).Close()
	switch {
	case err == nil:
		return &busy
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	}
	return err
}

// countBulkSQL counts what the lanes will find, by the conditions that they claim
// by. It locks nothing while it reads.
func countBulkSQL(s *scope) string {
	return `
WITH job AS MATERIALIZED (
	SELECT bound, frozen_at FROM dlq.dlq_bulk_retries WHERE id = @id
), matched AS MATERIALIZED (
	SELECT count(*) AS n, COALESCE(min(target) <> max(target), false) AS mixed
	FROM ` + s.sendable(`m.original_topic COLLATE "C" AS target`, " AND m.seq <= (SELECT bound FROM job)", untouched, "") + ` AS sides
)
UPDATE dlq.dlq_bulk_retries b
SET matched = matched.n, mixed = matched.mixed, counted = true, updated_at = clock_timestamp()
FROM matched
WHERE b.id = @id AND NOT b.counted`
}

// patientSQL lets the statements of its transaction take as long as a patience: what
// reads a whole scope is of no use half done.
const patientSQL = `SELECT set_config('statement_timeout', $1, true)`

// patience is as long as ctx allows, and a second, in milliseconds: the server ends
// a statement by itself when the program that wants to end it is gone.
func patience(ctx context.Context) string {
	deadline, limited := ctx.Deadline()
	if !limited {
		return "0" // no end
	}
	return strconv.FormatInt((max(time.Until(deadline), 0) + time.Second).Milliseconds(), 10)
}

// CountBulk counts what a bulk retry matches, once: again changes nothing, nor
// does counting one that has ended. It reads the whole scope, and nobody has to
// wait for it; nothing may be claimed before. It returns the bulk retry, or
// dlq.ErrNotFound.
func (p *Postgres) CountBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	b, err := p.Bulk(ctx, id)
	if err != nil || !b.Counting {
		return b, err
	}
	s := p.scope(b.Spec)
	s.args["id"] = uuid(id)
	err = again(func() error {
		batch := &pgx.Batch{} // which is one transaction
		batch.Queue(patientSQL, patience(ctx))
		batch.Queue(countBulkSQL(s), s.args)
		return p.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return dlq.BulkRetry{}, failed("count bulk retry", err)
	}
	return p.Bulk(ctx, id)
}
