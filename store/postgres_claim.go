package store

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// inLane is the condition that a message is in a lane.
const inLane = ` AND m.key_hash % @of = @number`

var pageSize = strconv.Itoa(dlq.PageSize)

// searchReach is how many PENDING messages of a topic one statement looks at
// when a filter decides which of them it takes: it holds the lane's row, which a
// pause waits for.
const searchReach = "10000"

// freeSQL reads a job that has no limit. It locks nothing, so that lanes do not
// wait for each other.
var freeSQL = `
WITH job AS MATERIALIZED (
	SELECT false AS throttled, NULL::interval AS wait, ` + pageSize + `::bigint AS quota, frozen_at
	FROM dlq.dlq_bulk_retries
	WHERE id = @bulk AND state = 'RUNNING' AND rate_limit = 0 AND allowance IS NULL
)`

// throttledSQL reads a job that the transaction has locked. next_at is when the
// rate allows the next message. Of the time that nobody claimed in, at most a
// tenth of a second counts, and a claim takes at most what a tenth of a second
// allows: what goes out at once never exceeds two tenths.
var throttledSQL = `
WITH clock AS MATERIALIZED (
	SELECT *, clock_timestamp() AS moment FROM dlq.dlq_bulk_retries WHERE id = @bulk AND state = 'RUNNING'
), job AS MATERIALIZED (
	SELECT rate_limit > 0 OR allowance IS NOT NULL AS throttled, rate_limit,
		greatest(next_at, moment - interval '100 milliseconds') AS due,
		CASE WHEN rate_limit > 0 AND next_at > moment THEN next_at - moment END AS wait,
		least(` + pageSize + `, allowance, CASE WHEN rate_limit > 0 THEN greatest(rate_limit / 10, 1) END) AS quota,
		frozen_at
	FROM clock
)`

// claimPageSQL claims for a lane as far as the job allows. A message cannot be
// on both sides of a topic: then its origin would be its dead-letter topic,
// which hasOrigin refuses.
//
// The cursor comes from the lane's row, which is locked by then, so the page is
// right also when the lane had to be waited for. But the statement sees the
// messages as they were before it waited: were they given back meanwhile, it
// would pass over them. Then the lane has been rewound, and the page is left for
// the next try.
//
// The job's own failed and skipped messages still name it as their owner. Those
// that another workflow has retried since do not, so where the lane comes by for
// the second time it asks the attempts too.
func claimPageSQL(s *scope, job string) string {
	condition := " AND m.run_id <> @run AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @bound"
	reach, moved := "", "max(c.seq)"
	if s.isSearch() {
		condition += " AND m.seq < (SELECT seq FROM reach)"
		reach = `, reach AS MATERIALIZED (
	SELECT COALESCE(min(seq), @bound + 1) AS seq
	FROM ` + (&scope{}).selects("m.seq", "m.status = 'PENDING' AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @bound", "",
			" ORDER BY m.seq OFFSET "+searchReach+" LIMIT 1") + ` AS sides
)`
		moved = "CASE WHEN count(*) >= (SELECT quota FROM lane) THEN max(c.seq) ELSE (SELECT seq - 1 FROM reach) END"
	}
	hidden := inLane + untouched + ` AND (m.seq > (SELECT reached FROM lane)
			OR NOT EXISTS (SELECT FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id AND a.run_id = @run))`
	return job + `, before AS MATERIALIZED (
	SELECT rewinds FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @number
), held AS MATERIALIZED (
	SELECT cursor, reached, rewinds
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @bulk AND lane = @number AND epoch = @epoch AND NOT closed AND EXISTS (SELECT FROM job WHERE wait IS NULL AND quota > 0)
	FOR UPDATE
), lane AS MATERIALIZED (
	SELECT held.cursor, held.reached, job.quota FROM held, before, job WHERE held.rewinds = before.rewinds
)` + reach + `, candidate AS MATERIALIZED (
	SELECT id, seq
	FROM ` + s.sendable("m.id, m.seq", condition, hidden, " ORDER BY m.seq LIMIT "+pageSize) + ` AS sides
	ORDER BY seq
	LIMIT (SELECT quota FROM lane)
), free AS MATERIALIZED (
	SELECT m.id
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.id = c.id
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries` + untouched + `
	FOR UPDATE OF m SKIP LOCKED
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow, run_id = @run
	FROM free
	WHERE m.id = free.id
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.last_retry_at, m.payload
), stop AS MATERIALIZED (
	SELECT ` + moved + ` AS cursor FROM candidate c
), moved AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET cursor = stop.cursor, reached = greatest(l.reached, stop.cursor), updated_at = now()
	FROM stop, lane
	WHERE l.bulk_id = @bulk AND l.lane = @number AND stop.cursor IS NOT NULL
)`
}

// spendSQL takes what was claimed off the job's limits.
const spendSQL = `, spent AS (
	UPDATE dlq.dlq_bulk_retries b
	SET allowance = b.allowance - n,
		next_at = CASE WHEN job.rate_limit > 0 THEN job.due + make_interval(secs => n::float8 / job.rate_limit) ELSE b.next_at END
	FROM job, (SELECT count(*) AS n FROM claimed) AS counted
	WHERE b.id = @bulk AND n > 0
)`

// pageSQL gives what scanLook reads and then the messages; the first row may
// carry none.
const pageSQL = `
SELECT look.*, m.id IS NOT NULL, ` + envelopeColumns + `
FROM (
	SELECT EXISTS (SELECT FROM job) AS running, EXISTS (SELECT FROM held) AS open,
		EXISTS (SELECT FROM candidate) OR NOT EXISTS (SELECT FROM lane)
			OR COALESCE((SELECT cursor FROM stop) < @bound, false) AS more,
		COALESCE((SELECT throttled FROM job), false) AS throttled,
		COALESCE((SELECT quota <= 0 FROM job), false) AS spent,
		COALESCE((SELECT ceil(extract(epoch FROM wait) * 1000000)::bigint FROM job), 0) AS wait
) AS look
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// look is what a claim saw of the job and the lane.
type look struct {
	running   bool // the job, in the way that the statement was made for
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
func (p *Postgres) ClaimPage(ctx context.Context, lane dlq.Lane) (dlq.LaneClaim, error) {
	if key := lane.Spec.Filter.Key; key != nil && int(dlq.KeyHash(key, dlq.ID{}))%max(lane.Of, 1) != lane.Number {
		return dlq.LaneClaim{}, nil // the key is another lane's
	}
	s := p.laneScope(lane)
	free := claimPageSQL(s, freeSQL) + pageSQL
	for {
		seen, page, err := p.claim(ctx, s, free, false)
		if err != nil {
			return dlq.LaneClaim{}, failed("claim page", err)
		}
		if !seen.running {
			seen, page, err = p.claim(ctx, s, claimPageSQL(s, throttledSQL)+spendSQL+pageSQL, true)
			if err != nil {
				return dlq.LaneClaim{}, failed("claim page", err)
			}
		}
		claim := dlq.LaneClaim{Envelopes: page, Throttled: seen.throttled, Spent: seen.spent,
			Wait: time.Duration(seen.wait) * time.Microsecond}
		claim.Closed = !seen.running || !seen.open && claim.Wait == 0 && !claim.Spent
		// Only when every candidate was taken by others, or when nothing matched
		// as far as it looked, is there a reason to go on.
		if len(page) > 0 || claim.Spent || claim.Wait > 0 || !seen.open || !seen.more {
			return claim, nil
		}
	}
}

// lanePlanSQL settles how the next statement of its transaction is planned: once
// for a connection, and by index. Left to itself the server plans a claim anew for
// each page, which takes a fifth of its time, or keeps for long a plan that it made
// when the tables were small.
const lanePlanSQL = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// claim runs one statement; after locking the job's row, all in one round trip,
// when it is to be throttled.
func (p *Postgres) claim(ctx context.Context, s *scope, sql string, locked bool) (seen look, page []dlq.Envelope, err error) {
	err = again(func() error {
		batch := &pgx.Batch{} // which is one transaction
		batch.Queue(lanePlanSQL)
		if locked {
			batch.Queue(`SELECT FROM dlq.dlq_bulk_retries WHERE id = $1 FOR UPDATE`, s.args["bulk"])
		}
		batch.Queue(sql, s.args).Query(func(rows pgx.Rows) (err error) {
			seen, page, err = collectPage(rows)
			return err
		})
		return p.pool.SendBatch(ctx, batch).Close()
	})
	return seen, page, err
}

func (p *Postgres) laneScope(lane dlq.Lane) *scope {
	s := p.scope(lane.Spec)
	s.args["bulk"], s.args["number"], s.args["of"], s.args["bound"] = uuid(lane.Bulk), lane.Number, max(lane.Of, 1), lane.Bound
	s.args["epoch"] = lane.Epoch
	s.args["workflow"], s.args["run"] = lane.Owner.WorkflowID, lane.Owner.RunID
	return s
}

// collectPage reads rows of pageSQL.
func collectPage(rows pgx.Rows) (seen look, page []dlq.Envelope, err error) {
	page, err = collectBehind(rows, scanEnvelope, &seen.running, &seen.open, &seen.more, &seen.throttled, &seen.spent, &seen.wait)
	return seen, page, err
}
