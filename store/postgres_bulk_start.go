package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

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
			ORDER BY m.seq DESC LIMIT 1)
		UNION ALL
		(SELECT m.dlq_topic FROM dlq.dlq_messages m
			WHERE m.original_topic = @topic AND m.status = s.status
				AND CASE WHEN m.dlq_topic = ANY (ARRAY(SELECT topic FROM live)) THEN true ELSE false END
			ORDER BY m.seq DESC LIMIT 1)
	) AS name
	WHERE EXISTS (SELECT FROM live)
)
SELECT id FROM live WHERE topic = @topic
UNION ALL
(SELECT live.id FROM other JOIN live USING (topic) LIMIT 1)
LIMIT 1`

// startBulkSQL fixes the scope and writes the job with its lanes. The bound looks
// at the end of each status on each side: eight short index probes, however
// large the table. Topics are compared byte by byte, which is all that it takes
// to tell whether there are two.
func startBulkSQL(s *scope) string {
	return `
WITH bound AS MATERIALIZED (
	SELECT COALESCE(max(newest.seq), 0) AS seq
	FROM unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) AS s (status),
	LATERAL (
		(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = s.status ORDER BY m.seq DESC LIMIT 1)
		UNION ALL
		(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = s.status ORDER BY m.seq DESC LIMIT 1)
	) AS newest
), matched AS MATERIALIZED (
	SELECT count(*) AS n, COALESCE(min(target) <> max(target), false) AS mixed
	FROM ` + s.sendable(`m.original_topic COLLATE "C" AS target`, " AND m.seq <= (SELECT seq FROM bound)", "", "") + ` AS sides
), started AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, spec, rate_limit, lanes, bound, matched, mixed)
	SELECT @id, @workflow, @topic, @spec::jsonb, @rate, @lanes, bound.seq, matched.n, matched.mixed FROM bound, matched
	ON CONFLICT (id) DO NOTHING
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT started.id, n FROM started, generate_series(0, started.lanes - 1) AS n`
}

// StartBulk fixes the scope of a bulk retry and writes its lanes. Of b it takes
// ID, WorkflowID, Spec and Lanes (at least one). Starting one that was started
// before returns it as it stands. While another that has not ended takes
// messages of the same topic, perhaps under its other name, the answer is a
// *dlq.BulkBusyError; filters are not compared.
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
	s := p.scope(spec)
	s.args["id"], s.args["workflow"], s.args["spec"] = uuid(b.ID), b.WorkflowID, encoded
	s.args["rate"], s.args["lanes"] = spec.RateLimit, max(b.Lanes, 1)
	err = again(func() error { return p.startBulk(ctx, s) })
	var busy *dlq.BulkBusyError
	switch {
	case errors.As(err, &busy):
		return dlq.BulkRetry{}, busy
	case err != nil:
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	return p.Bulk(ctx, b.ID)
}

// startBulk starts one unless another is in its way. Each statement has to see
// what was committed before the lock was granted, whatever the database's
// default is.
func (p *Postgres) startBulk(ctx context.Context, s *scope) error {
	return pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(startLock)); err != nil {
			return err
		}
		busy := dlq.BulkBusyError{Topic: s.spec.Topic}
		err := tx.QueryRow(ctx, busySQL, pgx.NamedArgs{"id": s.args["id"], "topic": s.args["topic"]}).Scan((*[16]byte)(&busy.Running))
		switch {
		case err == nil:
			return &busy
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		_, err = tx.Exec(ctx, startBulkSQL(s), s.args)
		return err
	})
}
