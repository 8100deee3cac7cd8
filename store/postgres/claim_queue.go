package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// claimQueueSQL claims messages from the queue of the lane that has been due the longest.
// From the queue of a closed target it claims one message, to find out whether the target
// is open again. It is the first message of a key, and each time of another key, in case
// the target refuses only one message. Its CTEs, in their order:
//
//   - probe locks the queue of a closed target, so that only one lane tries the target.
//   - candidate are the first messages of the queue.
//   - unlocked are the messages that can be claimed: unchanged since the job's snapshot, or last
//     changed by the job itself, which requeued them.
//   - claimed_elsewhere are the keys in the pages of other bulk retries, as in
//     claimPageSQL.
//   - checked adds three columns: obsolete, when another client has changed or finished the
//     message; retried, when an earlier message of its key is being retried; and elsewhere,
//     the other queue in which an earlier message of its key waits, into which it moves.
//   - blocked_from has each blocked key and its first blocked message. Blocked messages
//     move from the queue of a target into the queue of their key, and make room for
//     others.
//   - postponed delays a queue from which nothing could be claimed, and the queue of a
//     closed target while its one message is in flight. It also resets the tries of a key's
//     queue, because the caller now keeps the number for the claimed message.
const claimQueueSQL = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS moment
), job AS MATERIALIZED (
	SELECT b.snapshot_at, b.target, b.rate_limit, b.rate_limit > 0 OR b.step_limit IS NOT NULL AS limited,
		greatest(b.next_at, clock.moment - interval '100 milliseconds') AS due,
		CASE WHEN b.rate_limit > 0 AND b.next_at > clock.moment THEN b.next_at - clock.moment END AS wait,
		least(100, b.step_limit, CASE WHEN b.rate_limit > 0 THEN greatest(b.rate_limit / 10, 1) END) AS quota
	FROM dlq.dlq_bulk_retries b, clock
	WHERE b.id = @bulk AND b.state = 'RUNNING' AND b.ended_at IS NULL AND (@locked::bool OR b.rate_limit = 0 AND b.step_limit IS NULL)
), lane AS MATERIALIZED (
	SELECT l.failed + l.dead AS failed, job.quota
	FROM dlq.dlq_bulk_retry_lanes l, job
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
		AND l.epoch = @epoch AND job.wait IS NULL AND job.quota > 0
), next AS MATERIALIZED (
	SELECT due.*
	FROM lane, (
		(SELECT q.* FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.lane = @lane AND q.due_at <= (SELECT moment FROM clock)
		ORDER BY q.due_at LIMIT 1)
		UNION ALL
		(SELECT q.* FROM dlq.dlq_bulk_retry_queues q
		WHERE q.bulk_id = @bulk AND q.lane = -1 AND q.due_at <= (SELECT moment FROM clock)
			AND EXISTS (SELECT FROM dlq.dlq_bulk_retry_waiting w WHERE w.bulk_id = @bulk AND w.queue_id = q.id AND w.lane = @lane ORDER BY w.seq OFFSET 0)
		ORDER BY q.due_at LIMIT 1)
	) AS due
	ORDER BY due.due_at
	LIMIT 1
), probe AS MATERIALIZED (
	SELECT q.id
	FROM next
	JOIN dlq.dlq_bulk_retry_queues q ON q.id = next.id
	WHERE next.closed AND q.due_at <= (SELECT moment FROM clock)
	FOR NO KEY UPDATE OF q SKIP LOCKED
), queue AS MATERIALIZED (
	SELECT * FROM next WHERE NOT closed OR EXISTS (SELECT FROM probe)
), candidate AS MATERIALIZED (
	SELECT w.message_id AS id, w.seq, w.key_hash
	FROM dlq.dlq_bulk_retry_waiting w
	WHERE w.bulk_id = @bulk AND w.queue_id = (SELECT id FROM queue) AND w.lane = @lane
	ORDER BY w.seq
	LIMIT 100
), unlocked AS MATERIALIZED (
	SELECT m.id, CASE WHEN m.size > 0 THEN m.size
				ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id),
					octet_length(m.payload::text), 0) END AS size
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.id = c.id
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries
		AND (m.updated_at <= (SELECT snapshot_at FROM job) OR m.owner_token = @token)
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
	FOR UPDATE OF m SKIP LOCKED
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
	SELECT c.id, c.seq, c.key_hash, unlocked.size, unlocked.id IS NOT NULL AS is_unlocked,
		unlocked.id IS NULL AND NOT COALESCE(m.status = 'RETRYING' AND m.owner_token <> @token
			OR m.status = 'PENDING' AND m.retry_count < m.max_retries
				AND (m.updated_at <= (SELECT snapshot_at FROM job) OR m.owner_token = @token)
				AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics, false) AS obsolete,
		@ordered::bool AND EXISTS (
			SELECT FROM dlq.dlq_messages o
			WHERE o.status = 'RETRYING' AND NOT o.in_page AND o.workflow_id NOT LIKE 'retry-all-%' AND o.key_hash = m.key_hash
				AND o.original_topic = m.original_topic AND o.seq < c.seq
			ORDER BY o.seq OFFSET 0)
			OR EXISTS (SELECT FROM claimed_elsewhere o WHERE o.key_hash = c.key_hash AND o.seq < c.seq) AS retried,
		CASE WHEN @ordered::bool THEN (
			SELECT w.queue_id FROM dlq.dlq_bulk_retry_waiting w
			WHERE w.bulk_id = @bulk AND w.key_hash = c.key_hash AND w.seq < c.seq AND w.queue_id <> queue.id
			ORDER BY w.seq LIMIT 1) END AS elsewhere
	FROM candidate c
	CROSS JOIN queue
	LEFT JOIN dlq.dlq_messages m ON m.id = c.id
	LEFT JOIN unlocked ON unlocked.id = c.id
), blocked_from AS MATERIALIZED (
	SELECT key_hash, min(seq) AS seq FROM checked WHERE NOT obsolete AND (NOT is_unlocked OR retried OR elsewhere IS NOT NULL) GROUP BY key_hash
), sendable AS MATERIALIZED (
	SELECT c.id, c.size, row_number() OVER (ORDER BY c.seq) - 1 AS n, count(*) OVER () AS total, sum(c.size) OVER (ORDER BY c.seq) AS bytes
	FROM checked c, queue
	WHERE c.is_unlocked AND NOT c.retried AND c.elsewhere IS NULL
		AND NOT EXISTS (SELECT FROM blocked_from b WHERE @ordered::bool AND b.key_hash = c.key_hash AND b.seq < c.seq)
		AND NOT (queue.closed AND EXISTS (SELECT FROM checked e WHERE e.key_hash = c.key_hash AND e.seq < c.seq AND NOT e.obsolete))
), chosen AS MATERIALIZED (
	SELECT s.id, s.size
	FROM sendable s, queue, lane
	WHERE CASE WHEN queue.closed THEN s.n = queue.tries % s.total ELSE s.n < lane.quota AND (s.bytes <= @page_bytes OR s.n = 0) END
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token, in_page = true
	FROM chosen
	WHERE m.id = chosen.id
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.payload, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash
), left_queue AS (
	DELETE FROM dlq.dlq_bulk_retry_waiting w
	WHERE w.bulk_id = @bulk AND w.queue_id = (SELECT id FROM queue) AND w.lane = @lane
		AND w.seq = ANY (ARRAY(SELECT c.seq FROM checked c WHERE c.obsolete OR EXISTS (SELECT FROM chosen WHERE chosen.id = c.id)))
	RETURNING 1
), key_queue AS (
	INSERT INTO dlq.dlq_bulk_retry_queues AS q (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
	SELECT DISTINCT ON (c.key_hash) @bulk, @lane, queue.topic, -1, c.key_hash, false, 0, clock_timestamp() + interval '1 second',
		'an earlier message of the key is being retried or changed by another client', ''
	FROM checked c, queue
	WHERE queue.key_hash = -1 AND NOT c.obsolete AND c.elsewhere IS NULL AND (NOT c.is_unlocked OR c.retried)
	ORDER BY c.key_hash
	ON CONFLICT ON CONSTRAINT uq_dlq_bulk_retry_queues DO UPDATE SET due_at = EXCLUDED.due_at
	RETURNING q.id, q.key_hash
), leaving AS MATERIALIZED (
	SELECT c.seq, COALESCE(c.elsewhere, k.id) AS queue_id
	FROM checked c
	LEFT JOIN blocked_from b ON b.key_hash = c.key_hash AND b.seq <= c.seq
	LEFT JOIN key_queue k ON k.key_hash = b.key_hash
	WHERE NOT c.obsolete AND COALESCE(c.elsewhere, k.id) IS NOT NULL AND NOT EXISTS (SELECT FROM chosen WHERE chosen.id = c.id)
), moved AS (
	UPDATE dlq.dlq_bulk_retry_waiting w
	SET queue_id = (SELECT l.queue_id FROM leaving l WHERE l.seq = w.seq)
	WHERE w.bulk_id = @bulk AND w.queue_id = (SELECT id FROM queue) AND w.lane = @lane
		AND w.seq = ANY (ARRAY(SELECT l.seq FROM leaving l))
	RETURNING 1
), emptied AS (
	DELETE FROM dlq.dlq_bulk_retry_queues q
	USING queue
	WHERE q.id = queue.id AND queue.key_hash >= 0
		AND (SELECT count(*) FROM candidate) < 100
		AND (SELECT count(*) FROM candidate) = (SELECT count(*) FROM left_queue) + (SELECT count(*) FROM moved)
	RETURNING q.id
), postponed AS (
	UPDATE dlq.dlq_bulk_retry_queues q
	SET due_at = CASE WHEN queue.key_hash >= 0 AND EXISTS (SELECT FROM chosen) THEN q.due_at
			ELSE clock_timestamp() + CASE WHEN queue.closed AND EXISTS (SELECT FROM chosen) THEN interval '20 seconds' ELSE interval '1 second' END END,
		tries = CASE WHEN queue.key_hash >= 0 AND EXISTS (SELECT FROM chosen) THEN 0 ELSE q.tries END
	FROM queue
	WHERE q.id = queue.id AND NOT EXISTS (SELECT FROM emptied)
		AND (queue.closed AND EXISTS (SELECT FROM chosen)
			OR queue.key_hash >= 0 AND q.tries > 0 AND EXISTS (SELECT FROM chosen)
			OR queue.key_hash >= 0 AND NOT EXISTS (SELECT FROM chosen) AND EXISTS (SELECT FROM checked WHERE NOT obsolete AND elsewhere IS NULL))
), counted AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET pages = l.pages + 1, page = l.page || ARRAY(SELECT id FROM claimed),
		waiting = greatest(l.waiting - (SELECT count(*) FROM left_queue), 0), updated_at = now()
	FROM lane
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
), charged AS (
	UPDATE dlq.dlq_bulk_retries b
	SET step_limit = b.step_limit - n,
		next_at = CASE WHEN job.rate_limit > 0 THEN job.due + make_interval(secs => n::float8 / job.rate_limit) ELSE b.next_at END
	FROM job, (SELECT count(*) AS n FROM claimed) AS counted
	WHERE b.id = @bulk AND job.limited AND n > 0
)
SELECT EXISTS (SELECT FROM lane), COALESCE((SELECT limited FROM job), false), load.bytes,
	queue.topic, queue.partition, queue.key_hash >= 0, queue.tries, queue.reason, queue.category,
	CASE WHEN queue.id IS NOT NULL THEN 0 END::bigint, COALESCE((SELECT max(total) FROM sendable), 0), m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN load.bytes > @page_bytes THEN NULL WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END,
	CASE WHEN load.bytes <= @page_bytes THEN b.headers END, b.record_timestamp,
	CASE WHEN (SELECT failed FROM lane) > 0 THEN EXISTS (
		SELECT FROM dlq.dlq_bulk_retry_blocked_keys k
		WHERE k.bulk_id = @bulk AND k.key_hash = m.key_hash AND k.topic = m.original_topic /* target */ AND k.key = b.key OFFSET 0) ELSE false END
FROM (SELECT COALESCE(sum(size), 0)::bigint AS bytes FROM chosen) AS load
LEFT JOIN queue ON true
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// queueRetryDelay is how soon a lane claims again after an empty claim. The queue that gave
// nothing has been postponed, and another one may be due.
const queueRetryDelay = time.Millisecond

// claimQueue claims from a queue that is due. args are the parameters of the claim that found it.
func (s *Store) claimQueue(ctx context.Context, spec *dlq.BulkSpec, args pgx.NamedArgs, closed []dlq.Target) (claim dlq.LaneClaim, err error) {
	var open bool
	var queue nullableQueue
	var keys int
	err = s.batch(ctx, "claim from queue", func(batch *pgx.Batch) {
		queueClaimLocks(batch, args)
		batch.Queue(s.targeted(claimQueueSQL, spec), args).Query(func(rows pgx.Rows) (err error) {
			columns := append([]any{&open, &claim.Limited, &claim.Bytes}, append(queue.columns(), &keys)...)
			claim.Page, err = collectAfter(rows, scanPageEnvelope, columns...)
			return err
		})
	})
	if err != nil {
		return dlq.LaneClaim{}, err
	}
	claim.Queue, claim.Closed = queue.queue(), closed
	if claim.Queue != nil && !claim.Queue.OfKey {
		claim.Queue.Keys = keys
	}
	if len(claim.Page) == 0 {
		claim.Wait = queueRetryDelay
	}
	return claim, nil
}

func scanPageEnvelope(row pgx.CollectableRow) (e dlq.PageEnvelope, err error) {
	e.Envelope, err = scanEnvelope(withLast{row, &e.Blocked})
	return e, err
}

// withLast is a row whose last column is scanned into last.
type withLast struct {
	pgx.CollectableRow
	last any
}

// Scan scans the first columns into targets and the last one into last.
func (r withLast) Scan(targets ...any) error {
	return r.CollectableRow.Scan(append(targets, r.last)...)
}
