package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// claimPageSQL claims for a lane as far as the job allows, and moves the lane's
// cursor. Its parts, in their order:
//
//   - job is what the job's limits allow now. Of the time that nobody claimed in, at
//     most a tenth of a second counts, and a claim takes at most what a tenth of a
//     second allows: at most two tenths go out at once. A job with limits is read
//     only by a transaction that has locked its row (@locked).
//   - before and opened are the lane as the statement sees it and, once its row is
//     locked, as it is. The statement sees the messages as they were before it
//     waited for the lane: were they given back meanwhile, it would pass over them.
//     Then the lane has been rewound, lane is empty, and the next try takes them.
//   - reach bounds how much of the topic a search reads (@is_search) while it holds
//     the lane's row, which a pause waits for.
//   - candidate are the lane's next messages, by both names of the topic. A message
//     that has both names is refused as its own origin. updated_at must not be later
//     than the job's snapshot: every change of a status writes it, and messages that the job
//     gives back are dated back to the snapshot. A message that the job has failed or
//     skipped still carries its token, or, where another workflow has retried it
//     since, has an attempt of the job; that is asked only where the lane comes by
//     again (reached), and OFFSET 0 makes the server look it up for one message
//     instead of reading all attempts of the job.
//   - free leaves out what others are changing right now.
//
// The last SELECT gives the claim's status, and then the messages; the first row may
// carry none.
const claimPageSQL = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS moment
), job AS MATERIALIZED (
	SELECT b.frozen_at, b.rate_limit, b.rate_limit > 0 OR b.allowance IS NOT NULL AS throttled,
		greatest(b.next_at, clock.moment - interval '100 milliseconds') AS due,
		CASE WHEN b.rate_limit > 0 AND b.next_at > clock.moment THEN b.next_at - clock.moment END AS wait,
		least(100, b.allowance, CASE WHEN b.rate_limit > 0 THEN greatest(b.rate_limit / 10, 1) END) AS quota
	FROM dlq.dlq_bulk_retries b, clock
	WHERE b.id = @bulk AND b.state = 'RUNNING' AND (@locked::bool OR b.rate_limit = 0 AND b.allowance IS NULL)
), before AS MATERIALIZED (
	SELECT rewinds FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane
), opened AS MATERIALIZED (
	SELECT cursor, reached, rewinds
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @bulk AND lane = @lane AND epoch = @epoch AND NOT closed AND EXISTS (SELECT FROM job WHERE wait IS NULL AND quota > 0)
	FOR UPDATE
), lane AS MATERIALIZED (
	SELECT opened.cursor, opened.reached, job.quota FROM opened, before, job WHERE opened.rewinds = before.rewinds
), reach AS MATERIALIZED (
	SELECT COALESCE(min(seq), @bound::bigint + 1) AS seq
	FROM (
		(SELECT m.seq
		FROM dlq.dlq_messages m
		WHERE @is_search::bool AND m.dlq_topic = @topic AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @bound
		ORDER BY m.seq OFFSET 10000 LIMIT 1)
		UNION ALL
		(SELECT m.seq
		FROM dlq.dlq_messages m
		WHERE @is_search::bool AND m.original_topic = @topic AND m.dlq_topic <> @topic
			AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @bound
		ORDER BY m.seq OFFSET 10000 LIMIT 1)
	) AS beyond
), candidate AS MATERIALIZED (
	SELECT id, seq
	FROM (
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq > (SELECT cursor FROM lane) AND m.seq < (SELECT seq FROM reach)
			AND m.key_hash % @lanes::int = @lane::int
			AND m.retry_count < m.max_retries AND m.owner_token <> @token AND m.updated_at <= (SELECT frozen_at FROM job)
			AND true /* filter */
			AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
			AND (m.seq > (SELECT reached FROM lane)
				OR NOT EXISTS (SELECT FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id AND a.owner_token = @token OFFSET 0))
		ORDER BY m.seq
		LIMIT 100)
		UNION ALL
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq > (SELECT cursor FROM lane) AND m.seq < (SELECT seq FROM reach)
			AND m.key_hash % @lanes::int = @lane::int
			AND m.retry_count < m.max_retries AND m.owner_token <> @token AND m.updated_at <= (SELECT frozen_at FROM job)
			AND true /* filter */
			AND m.original_topic <> '' AND m.original_topic !~ @dead_letter_topics
			AND (m.seq > (SELECT reached FROM lane)
				OR NOT EXISTS (SELECT FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id AND a.owner_token = @token OFFSET 0))
		ORDER BY m.seq
		LIMIT 100)
	) AS sendable
	ORDER BY seq
	LIMIT (SELECT quota FROM lane)
), free AS MATERIALIZED (
	SELECT m.id
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.id = c.id
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT frozen_at FROM job)
	FOR UPDATE OF m SKIP LOCKED
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token
	FROM free
	WHERE m.id = free.id
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.payload
), stop AS MATERIALIZED (
	SELECT CASE WHEN count(*) < (SELECT quota FROM lane) THEN (SELECT seq FROM reach) - 1 ELSE max(c.seq) END AS cursor
	FROM candidate c
), moved AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET cursor = stop.cursor, reached = greatest(l.reached, stop.cursor), updated_at = now()
	FROM stop, lane
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND stop.cursor > l.cursor
), spent AS (
	UPDATE dlq.dlq_bulk_retries b
	SET allowance = b.allowance - n,
		next_at = CASE WHEN job.rate_limit > 0 THEN job.due + make_interval(secs => n::float8 / job.rate_limit) ELSE b.next_at END
	FROM job, (SELECT count(*) AS n FROM claimed) AS counted
	WHERE b.id = @bulk AND job.throttled AND n > 0
)
SELECT status.*, m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp
FROM (
	SELECT EXISTS (SELECT FROM job) AS running, EXISTS (SELECT FROM opened) AS open,
		EXISTS (SELECT FROM candidate) OR NOT EXISTS (SELECT FROM lane) OR COALESCE((SELECT cursor FROM stop) < @bound, false) AS more,
		COALESCE((SELECT throttled FROM job), false) AS throttled,
		COALESCE((SELECT quota <= 0 FROM job), false) AS spent,
		COALESCE((SELECT ceil(extract(epoch FROM wait) * 1000000)::bigint FROM job), 0) AS wait
) AS status
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// claimStatus is what a claim saw of the job and the lane.
type claimStatus struct {
	running   bool // the job may be claimed for, in the way that was asked for
	open      bool // the lane may claim
	more      bool // there is reason to try again although nothing was claimed
	throttled bool
	spent     bool
	wait      int64 // in microseconds
}

// ClaimPage claims the lane's next messages for its owner, at most dlq.PageSize
// in the order of arrival and not more than the job's rate limit and allowance
// let through now, and moves the lane's cursor past them in the same
// transaction. Messages that someone else is changing right now are passed over.
// An empty page without Wait, Spent or Closed means that the lane is done.
func (s *Store) ClaimPage(ctx context.Context, lane dlq.Lane) (dlq.LaneClaim, error) {
	f := &lane.Spec.Filter
	if f.Key != nil && int(dlq.KeyHash(f.Key, dlq.ID{}))%max(lane.Of, 1) != lane.Number {
		return dlq.LaneClaim{}, nil // the key is another lane's
	}
	sql, args := filtered(claimPageSQL, f), s.claimArgs(&lane)
	for {
		// Lanes of a job without limits do not wait for each other at its row.
		status, page, err := s.claimPage(ctx, sql, args, false)
		if err == nil && !status.running {
			status, page, err = s.claimPage(ctx, sql, args, true)
		}
		if err != nil {
			return dlq.LaneClaim{}, err
		}
		claim := dlq.LaneClaim{Envelopes: page, Throttled: status.throttled, Spent: status.spent,
			Wait: time.Duration(status.wait) * time.Microsecond}
		claim.Closed = !status.running || !status.open && claim.Wait == 0 && !claim.Spent
		// Only when every candidate was taken by others, or when nothing matched as
		// far as it looked, is there a reason to go on.
		if len(page) > 0 || claim.Spent || claim.Wait > 0 || !status.open || !status.more {
			return claim, nil
		}
	}
}

func (s *Store) claimArgs(lane *dlq.Lane) pgx.NamedArgs {
	args := s.bulkArgs(&lane.Spec)
	maps.Copy(args, laneArgs(lane))
	args["bound"], args["is_search"] = lane.Bound, isSearch(&lane.Spec.Filter)
	return args
}

func (s *Store) claimPage(ctx context.Context, sql string, args pgx.NamedArgs, locked bool) (status claimStatus, page []dlq.Envelope, err error) {
	args["locked"] = locked
	err = s.batch(ctx, "claim page", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		if locked {
			batch.Queue(lockBulkSQL, pgx.NamedArgs{"id": args["bulk"]})
		}
		batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
			page, err = collectAfter(rows, scanEnvelope,
				&status.running, &status.open, &status.more, &status.throttled, &status.spent, &status.wait)
			return err
		})
	})
	return status, page, err
}
