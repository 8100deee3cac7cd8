package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// lockLaneSQL lets one claim of a lane run at a time. It is a separate statement before the
// claim, so the claim's snapshot includes all that was committed before the lock was
// granted, such as a pause of the job.
const lockLaneSQL = `
SELECT FROM dlq.dlq_bulk_retry_lanes
WHERE bulk_id = @bulk AND lane = @lane AND pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
FOR UPDATE`

// claimPageSQL claims a page for a lane, within the limits of the job, and moves the lane's
// cursor. While a queue of the lane is due it claims nothing, unless @scan_first is set.
// Its CTEs in their order, without the obvious ones:
//
//   - job is empty unless the job is running, and was not ended by hand. quota is how many messages may be claimed
//     now: at most a page, the step limit, and a tenth of rate_limit (but one at least).
//     wait is how long the rate limit allows none. At most a tenth of a second of unused
//     time counts (due), so at most two tenths of rate_limit go out at once. A job with
//     limits is read only after its row was locked (@locked).
//   - opened is empty when a newer attempt has the lane. lane.due is set when a queue is due.
//   - unfinished is a message of the lane that is not finalized, against @finalized. Then
//     nothing is claimed.
//   - scan_end bounds how many messages a claim reads (@bounded).
//   - listed are the next messages of the lane: those whose dead-letter topic is @topic, and
//     those whose original topic is. These are not read when @topic is a dead-letter topic,
//     since none could be sent. The index contains the bucket, so a claim reads no rows of
//     other lanes. Every change of a status sets updated_at, so messages that changed
//     after the job's snapshot are left out.
//     place is where the row is in the table, so that locking and changing it need no index.
//   - candidate are the first of these, up to @page_bytes, and at least one.
//   - unlocked are the candidates that no other transaction has locked or changed. found
//     are all candidates, with a mark on the unlocked ones. Normally the two counts are
//     equal, and the anti-join is not executed.
//   - claimed_elsewhere are the keys in the pages of other bulk retries (other_job) that
//     send to the same target. The order of a key is kept for each target, so key_hash
//     includes the target; see targeted.
//   - checked adds whether each message may be sent. With the order of keys it may not while
//     an earlier message of its key waits in a queue (queue_id), belongs to a single retry,
//     or is in claimed_elsewhere.
//   - claimed also removes the ballast, which has moved the payload out of line when the
//     message was stored. So this change and the next one copy less.
//   - blocked_from has the first blocked message of each blocked key. This message and the
//     later ones go into the queue of the key. Keys are compared by their hash, so another
//     key with the same hash waits too, for a short time.
//
// The last SELECT returns the status of the claim in every row, and a message if there is
// one. A message larger than a page comes without its value and headers.
//
// The generic plan is often made while the queues are empty and used when they are long. An
// ORDER BY makes it use the index with that order, and an OFFSET 0 keeps an EXISTS from
// becoming a join.
const claimPageSQL = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS moment
), job AS MATERIALIZED (
	SELECT b.snapshot_at, b.target, b.rate_limit, b.rate_limit > 0 OR b.step_limit IS NOT NULL AS limited,
		greatest(b.next_at, clock.moment - interval '100 milliseconds') AS due,
		CASE WHEN b.rate_limit > 0 AND b.next_at > clock.moment THEN b.next_at - clock.moment END AS wait,
		least(100, b.step_limit, CASE WHEN b.rate_limit > 0 THEN greatest(b.rate_limit / 10, 1) END) AS quota
	FROM dlq.dlq_bulk_retries b, clock
	WHERE b.id = @bulk AND b.state = 'RUNNING' AND b.ended_at IS NULL AND (@locked::bool OR b.rate_limit = 0 AND b.step_limit IS NULL)
), opened AS MATERIALIZED (
	SELECT cursor, waiting, failed + dead AS failed, page
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @bulk AND lane = @lane AND pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
		AND epoch = @epoch
), unfinished AS MATERIALIZED (
	SELECT p.id
	FROM opened
	CROSS JOIN unnest(opened.page) AS p (id)
	WHERE @finalized::bool AND EXISTS (
		SELECT FROM dlq.dlq_messages m
		WHERE m.id = p.id AND CASE WHEN m.status = 'RETRYING' AND m.owner_token = @token AND m.workflow_id = @workflow_id THEN true ELSE false END
		OFFSET 0)
	LIMIT 1
), lane AS MATERIALIZED (
	SELECT opened.*, job.quota, opened.waiting > 0 AND (
		(SELECT q.id FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.lane = @lane AND q.due_at <= (SELECT moment FROM clock)
		ORDER BY q.due_at LIMIT 1) IS NOT NULL
		OR (SELECT q.id FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.lane = -1 AND q.due_at <= (SELECT moment FROM clock)
			AND EXISTS (SELECT FROM dlq.dlq_bulk_retry_waiting w WHERE w.bulk_id = @bulk AND w.queue_id = q.id AND w.lane = @lane ORDER BY w.seq OFFSET 0)
		ORDER BY q.due_at LIMIT 1) IS NOT NULL) AS due
	FROM opened, job
	WHERE job.wait IS NULL AND job.quota > 0 AND NOT EXISTS (SELECT FROM unfinished)
), scan AS MATERIALIZED (
	SELECT cursor, waiting, quota FROM lane WHERE @scan::bool AND (@scan_first::bool OR NOT due)
), scan_end AS MATERIALIZED (
	SELECT COALESCE(min(seq), @upper_bound::bigint + 1) AS seq
	FROM (
		(SELECT m.seq
		FROM dlq.dlq_messages m
		WHERE @bounded::bool AND m.dlq_topic = @topic AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM scan) AND m.seq <= @upper_bound
			AND (m.key_hash & 1023) BETWEEN @first_bucket::int AND @last_bucket::int
		ORDER BY m.seq OFFSET 10000 LIMIT 1)
		UNION ALL
		(SELECT m.seq
		FROM dlq.dlq_messages m
		WHERE @bounded::bool AND m.original_topic = @topic AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM scan) AND m.seq <= @upper_bound
			AND (m.key_hash & 1023) BETWEEN @first_bucket::int AND @last_bucket::int
		ORDER BY m.seq OFFSET 10000 LIMIT 1)
	) AS beyond
), listed AS MATERIALIZED (
	SELECT id, place, seq, key_hash, original_topic, record_hash, size
	FROM (
		(SELECT m.id, m.ctid AS place, m.seq, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash,
			m.original_topic, m.key_hash AS record_hash,
			CASE WHEN m.size > 0 THEN m.size
				ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id),
					octet_length(m.payload::text), 0) END AS size
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq > (SELECT cursor FROM scan) AND m.seq < (SELECT seq FROM scan_end)
			AND (m.key_hash & 1023) BETWEEN @first_bucket::int AND @last_bucket::int
			AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
			AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
			AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
		ORDER BY m.seq
		LIMIT 100)
		UNION ALL
		(SELECT m.id, m.ctid AS place, m.seq, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash,
			m.original_topic, m.key_hash AS record_hash,
			CASE WHEN m.size > 0 THEN m.size
				ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id),
					octet_length(m.payload::text), 0) END AS size
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq > (SELECT cursor FROM scan) AND m.seq < (SELECT seq FROM scan_end)
			AND (m.key_hash & 1023) BETWEEN @first_bucket::int AND @last_bucket::int
			AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
			AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
			AND @topic <> '' AND @topic !~ @dead_letter_topics
		ORDER BY m.seq
		LIMIT 100)
	) AS sendable
	ORDER BY seq
	LIMIT (SELECT quota FROM scan)
), candidate AS MATERIALIZED (
	SELECT l.id, l.place, l.seq, l.key_hash, l.original_topic, l.record_hash, l.size
	FROM (SELECT listed.*, sum(size) OVER (ORDER BY seq) AS bytes FROM listed) AS l
	WHERE l.bytes <= @page_bytes OR l.bytes = l.size
), unlocked AS MATERIALIZED (
	SELECT c.*
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.ctid = c.place
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
	FOR UPDATE OF m SKIP LOCKED
), found AS MATERIALIZED (
	SELECT unlocked.*, true AS is_unlocked FROM unlocked
	UNION ALL
	SELECT c.*, false
	FROM candidate c
	WHERE (SELECT count(*) FROM candidate) > (SELECT count(*) FROM unlocked) AND NOT EXISTS (SELECT FROM unlocked WHERE unlocked.id = c.id)
), other_job AS MATERIALIZED (
	SELECT b.id, b.spec->>'target_topic' AS target_topic
	FROM job
	JOIN dlq.dlq_bulk_retries b ON b.ended_at IS NULL AND b.id <> @bulk AND (b.target = job.target OR b.target IS NULL OR job.target IS NULL)
	WHERE @ordered::bool
), claimed_elsewhere AS MATERIALIZED (
	SELECT (m.key_hash # hashtext(COALESCE(other_job.target_topic, m.original_topic /* route */))) & 2147483647 AS key_hash, min(m.seq) AS seq
	FROM other_job
	JOIN dlq.dlq_bulk_retry_lanes_now l ON l.bulk_id = other_job.id
	CROSS JOIN unnest(l.page) AS p (id)
	JOIN dlq.dlq_messages m ON m.id = p.id
	WHERE CASE WHEN m.status = 'RETRYING'
		THEN (m.key_hash # hashtext(COALESCE(other_job.target_topic, m.original_topic /* route */))) & 2147483647
			= ANY (ARRAY(SELECT key_hash FROM candidate)) END
	GROUP BY 1
), checked AS MATERIALIZED (
	SELECT c.id, c.place, c.seq, c.key_hash, c.original_topic, c.size,
		CASE WHEN @ordered::bool AND (SELECT waiting FROM scan) > 0 THEN (
			SELECT w.queue_id FROM dlq.dlq_bulk_retry_waiting w
			WHERE w.bulk_id = @bulk AND w.key_hash = c.key_hash ORDER BY w.seq DESC LIMIT 1) END AS queue_id,
		c.is_unlocked AND NOT (@ordered::bool AND EXISTS (
			SELECT FROM dlq.dlq_messages o
			WHERE o.status = 'RETRYING' AND NOT o.in_page AND o.workflow_id NOT LIKE 'retry-all-%' AND o.key_hash = c.record_hash
				AND o.original_topic = c.original_topic AND o.seq < c.seq
			ORDER BY o.seq OFFSET 0))
			AND NOT EXISTS (SELECT FROM claimed_elsewhere o WHERE o.key_hash = c.key_hash AND o.seq < c.seq) AS may_send
	FROM found c
), blocked_from AS MATERIALIZED (
	SELECT key_hash, min(seq) AS seq FROM checked WHERE queue_id IS NOT NULL OR NOT may_send GROUP BY key_hash
), chosen AS MATERIALIZED (
	SELECT c.id, c.place, c.size
	FROM checked c
	WHERE c.queue_id IS NULL AND c.may_send
		AND NOT EXISTS (SELECT FROM blocked_from b WHERE @ordered::bool AND b.key_hash = c.key_hash AND b.seq < c.seq)
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token, in_page = true, ballast = NULL
	FROM chosen
	WHERE m.ctid = chosen.place
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.payload, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash
), queue AS (
	INSERT INTO dlq.dlq_bulk_retry_queues AS q (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
	SELECT DISTINCT ON (c.key_hash) @bulk, @lane, c.original_topic /* target */, -1, c.key_hash, false, 0, clock_timestamp() + interval '1 second',
		'an earlier message of the key is being retried or changed by another client', ''
	FROM checked c
	JOIN blocked_from b ON b.key_hash = c.key_hash AND b.seq <= c.seq
	WHERE c.queue_id IS NULL
	ORDER BY c.key_hash, c.seq
	ON CONFLICT ON CONSTRAINT uq_dlq_bulk_retry_queues DO UPDATE SET due_at = EXCLUDED.due_at
	RETURNING q.id, q.key_hash
), waiting AS (
	INSERT INTO dlq.dlq_bulk_retry_waiting (bulk_id, queue_id, lane, seq, message_id, key_hash)
	SELECT @bulk, COALESCE(c.queue_id, queue.id), @lane, c.seq, c.id, c.key_hash
	FROM checked c
	LEFT JOIN queue ON queue.key_hash = c.key_hash
	WHERE (SELECT count(*) FROM checked) > (SELECT count(*) FROM chosen) AND NOT EXISTS (SELECT FROM chosen WHERE chosen.id = c.id)
	RETURNING 1
), scanned AS MATERIALIZED (
	SELECT CASE WHEN count(*) < (SELECT quota FROM scan) AND count(*) = (SELECT count(*) FROM listed) THEN (SELECT seq FROM scan_end) - 1
		ELSE max(c.seq) END AS cursor
	FROM candidate c
), moved AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET cursor = scanned.cursor, pages = l.pages + 1, page = l.page || ARRAY(SELECT id FROM claimed),
		waiting = l.waiting + (SELECT count(*) FROM waiting), updated_at = now()
	FROM scanned, scan
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
		AND scanned.cursor > l.cursor
), charged AS (
	UPDATE dlq.dlq_bulk_retries b
	SET step_limit = b.step_limit - n,
		next_at = CASE WHEN job.rate_limit > 0 THEN job.due + make_interval(secs => n::float8 / job.rate_limit) ELSE b.next_at END
	FROM job, (SELECT count(*) AS n FROM claimed) AS counted
	WHERE b.id = @bulk AND job.limited AND n > 0
), next AS MATERIALIZED (
	SELECT n.topic, n.partition, n.key_hash >= 0 AS of_key, n.tries, n.reason, n.category,
		greatest(ceil(extract(epoch FROM n.due_at - clock.moment) * 1000000)::bigint, 0) AS due
	FROM clock, (
		(SELECT q.* FROM dlq.dlq_bulk_retry_queues q WHERE q.bulk_id = @bulk AND q.lane = @lane ORDER BY q.due_at LIMIT 1)
		UNION ALL
		(SELECT q.* FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.lane = -1
			AND EXISTS (SELECT FROM dlq.dlq_bulk_retry_waiting w WHERE w.bulk_id = @bulk AND w.queue_id = q.id AND w.lane = @lane ORDER BY w.seq OFFSET 0)
		ORDER BY q.due_at LIMIT 1)
	) AS n
	WHERE (SELECT waiting FROM lane) > 0 AND NOT EXISTS (SELECT FROM chosen)
	ORDER BY n.due_at
	LIMIT 1
)
SELECT status.*, next.topic, next.partition, next.of_key, next.tries, next.reason, next.category, next.due, m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN status.bytes > @page_bytes THEN NULL WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END,
	CASE WHEN status.bytes <= @page_bytes THEN b.headers END, b.record_timestamp,
	CASE WHEN (SELECT failed FROM lane) > 0 THEN EXISTS (
		SELECT FROM dlq.dlq_bulk_retry_blocked_keys k
		WHERE k.bulk_id = @bulk AND k.key_hash = m.key_hash AND k.topic = m.original_topic /* target */ AND k.key = b.key OFFSET 0) ELSE false END
FROM (
	SELECT EXISTS (SELECT FROM job) AS running, EXISTS (SELECT FROM opened) AS open, EXISTS (SELECT FROM unfinished) AS unfinished,
		COALESCE((SELECT due FROM lane), false) AS due,
		EXISTS (SELECT FROM candidate) OR COALESCE((SELECT cursor FROM scanned) < @upper_bound, false) AS more,
		COALESCE((SELECT limited FROM job), false) AS limited,
		COALESCE((SELECT quota <= 0 FROM job), false) AS step_limit_reached,
		COALESCE((SELECT ceil(extract(epoch FROM wait) * 1000000)::bigint FROM job), 0) AS wait,
		closed.topics, closed.partitions, (SELECT COALESCE(sum(size), 0)::bigint FROM chosen) AS bytes
	FROM (
		SELECT array_agg(q.topic::text) AS topics, array_agg(q.partition) AS partitions
		FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.closed
	) AS closed
) AS status
LEFT JOIN next ON true
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// claimStatus is the state of the job and the lane that a claim found.
type claimStatus struct {
	running          bool // the job is running, and its row was locked if it has limits
	open             bool // this attempt is the newest of the lane
	unfinished       bool // messages of the lane are not finalized, and nothing was claimed
	due              bool // a queue of the lane is due
	more             bool // messages may follow the cursor, although the page is empty
	limited          bool
	stepLimitReached bool
	wait             int64 // in microseconds
	closed           []dlq.Target
	bytes            int64
	next             *dlq.LaneQueue
}

// ClaimPage claims messages of the lane for its owner: at most dlq.PageSize in the order of
// arrival, and at most the number that the rate limit and the step limit allow now. A queue
// that is due comes first. Otherwise, if scan is set, ClaimPage claims the next messages of
// the scope and moves the lane's cursor past them in the same transaction. Messages that
// another transaction has locked go into a queue, and so do the later messages of their
// keys.
//
// With scan, the lane is done when the claim is empty: no page, no Wait, no Next, and
// neither StepLimitReached nor Stopped nor Unfinished. The error is dlq.ErrBlocked when another
// transaction does not release a lock in time.
func (s *Store) ClaimPage(ctx context.Context, lane dlq.Lane, scan bool) (dlq.LaneClaim, error) {
	f := &lane.Spec.Filter
	if f.Key != nil && !lane.Has(dlq.KeyHash(f.Key, dlq.ID{})) {
		return dlq.LaneClaim{}, nil // another lane has the key
	}
	sql, args := s.targeted(filtered(claimPageSQL, f), &lane.Spec), s.claimArgs(&lane)
	args["scan"], args["scan_first"] = scan, lane.ScanFirst
	for began := time.Now(); ; {
		status, page, err := s.claimPage(ctx, sql, args)
		if err != nil {
			return dlq.LaneClaim{}, err
		}
		if status.due && len(page) == 0 {
			return s.claimQueue(ctx, &lane.Spec, args, status.closed)
		}
		claim := dlq.LaneClaim{Page: page, Bytes: status.bytes, Closed: status.closed, Next: status.next,
			Limited: status.limited, StepLimitReached: status.stepLimitReached,
			Wait: time.Duration(status.wait) * time.Microsecond, Stopped: !status.running || !status.open, Unfinished: status.unfinished}
		// With an empty page the scan continues if messages may follow: every candidate
		// went into a queue, or none of the messages that were read matched the filter.
		if len(page) > 0 || claim.Stopped || claim.Unfinished || claim.StepLimitReached || claim.Wait > 0 || !scan || !status.more {
			return claim, nil
		}
		if time.Since(began) > maxScanTime {
			claim.Wait = queueRetryDelay
			return claim, nil
		}
	}
}

// maxScanTime is how long ClaimPage scans without a result before it returns.
const maxScanTime = time.Second

func (s *Store) claimArgs(lane *dlq.Lane) pgx.NamedArgs {
	args := s.bulkArgs(&lane.Spec)
	maps.Copy(args, laneArgs(lane))
	args["page_bytes"] = dlq.PageBytes
	args["upper_bound"], args["bounded"], args["finalized"] = lane.UpperBound, lane.Bounded || isSearch(&lane.Spec.Filter), lane.Finalized
	return args
}

// claimPage runs a claim. The first try does not lock the job's row, so that the lanes of
// a job without limits do not wait for each other. If the job has limits, this try claims
// nothing, and the second one locks the row.
func (s *Store) claimPage(ctx context.Context, sql string, args pgx.NamedArgs) (status claimStatus, page []dlq.PageEnvelope, err error) {
	for _, locked := range []bool{false, true} {
		status, page = claimStatus{}, nil
		args["locked"] = locked
		err = s.batch(ctx, "claim page", func(batch *pgx.Batch) {
			queueClaimLocks(batch, args)
			batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
				var topics []string
				var partitions []int32
				var next nullableQueue
				page, err = collectAfter(rows, scanPageEnvelope, append([]any{&status.running, &status.open, &status.unfinished, &status.due, &status.more,
					&status.limited, &status.stepLimitReached, &status.wait, &topics, &partitions, &status.bytes}, next.columns()...)...)
				status.closed, status.next = targetsOf(topics, partitions), next.queue()
				return err
			})
		})
		if err != nil || status.running {
			break
		}
	}
	return status, page, err
}

// queueClaimLocks adds the statements that precede every claim: the planner's settings, the
// lock of the job's row, and the lock of the lane's row.
func queueClaimLocks(batch *pgx.Batch, args pgx.NamedArgs) {
	batch.Queue(lanePlanSQL)
	if args["locked"] == true {
		batch.Queue(lockBulkSQL, pgx.NamedArgs{"id": args["bulk"]})
	}
	batch.Queue(lockLaneSQL, args)
}

func targetsOf(topics []string, partitions []int32) []dlq.Target {
	var targets []dlq.Target
	for i := range topics {
		targets = append(targets, dlq.Target{Topic: topics[i], Partition: partitions[i]})
	}
	return targets
}

// nullableQueue receives the columns of a queue from an outer join.
type nullableQueue struct {
	topic, reason, category *string
	partition               *int32
	ofKey                   *bool
	tries                   *int
	due                     *int64 // in microseconds
}

func (q *nullableQueue) columns() []any {
	return []any{&q.topic, &q.partition, &q.ofKey, &q.tries, &q.reason, &q.category, &q.due}
}

func (q *nullableQueue) queue() *dlq.LaneQueue {
	if q.topic == nil {
		return nil
	}
	return &dlq.LaneQueue{Target: dlq.Target{Topic: *q.topic, Partition: *q.partition}, OfKey: *q.ofKey, Tries: *q.tries,
		Due: time.Duration(*q.due) * time.Microsecond, Reason: *q.reason, Category: dlq.Category(*q.category)}
}
