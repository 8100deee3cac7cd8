package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// claimQueueSQL claims messages of the queue of the lane that has been due for longest.
// Of a target that is closed it takes one message, which asks whether it is open
// again: the first of a key, and another one each time, in case that the message
// itself is what is refused. Its parts, in their order:
//
//   - probe locks the queue of a closed target: of all lanes that find it due at the
//     same time, one asks.
//   - candidate are the first messages of the queue.
//   - free are those that can be claimed: unchanged since the job's snapshot, or last
//     changed by the job itself, which gave them back.
//   - others are the keys that other bulk retries have in hand, as for a scan.
//   - judged says of each whether it is gone, since somebody else has dealt with it;
//     whether somebody else retries an earlier message of its key; and in which other
//     queue an earlier message of its key waits (elsewhere). It moves there.
//   - held are the keys that are blocked, from which message on. From the queue of a
//     target they move into that of their key, and make room for others.
//   - postponed lets a queue rest of which nothing could be claimed, and, while its one
//     message is on its way, one whose target is closed. How often the first message of
//     a key was tried is the caller's to remember now: the next one begins anew.
const claimQueueSQL = `
WITH clock AS MATERIALIZED (
	SELECT clock_timestamp() AS moment
), job AS MATERIALIZED (
	SELECT b.snapshot_at, b.target, b.rate_limit, b.rate_limit > 0 OR b.step_limit IS NOT NULL AS throttled,
		greatest(b.next_at, clock.moment - interval '100 milliseconds') AS due,
		CASE WHEN b.rate_limit > 0 AND b.next_at > clock.moment THEN b.next_at - clock.moment END AS wait,
		least(100, b.step_limit, CASE WHEN b.rate_limit > 0 THEN greatest(b.rate_limit / 10, 1) END) AS quota
	FROM dlq.dlq_bulk_retries b, clock
	WHERE b.id = @bulk AND b.state = 'RUNNING' AND (@locked::bool OR b.rate_limit = 0 AND b.step_limit IS NULL)
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
), free AS MATERIALIZED (
	SELECT m.id, CASE WHEN m.size > 0 THEN m.size
				ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id),
					octet_length(m.payload::text), 0) END AS size
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.id = c.id
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries
		AND (m.updated_at <= (SELECT snapshot_at FROM job) OR m.owner_token = @token)
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
	FOR UPDATE OF m SKIP LOCKED
), rival AS MATERIALIZED (
	SELECT b.id
	FROM job
	JOIN dlq.dlq_bulk_retries b ON b.ended_at IS NULL AND b.id <> @bulk AND (b.target = job.target OR b.target IS NULL OR job.target IS NULL)
	WHERE @ordered::bool
), others AS MATERIALIZED (
	SELECT (m.key_hash # hashtext(m.original_topic)) & 2147483647 AS key_hash, min(m.seq) AS seq
	FROM rival
	JOIN dlq.dlq_bulk_retry_lanes_now l ON l.bulk_id = rival.id
	CROSS JOIN unnest(l.page) AS p (id)
	JOIN dlq.dlq_messages m ON m.id = p.id
	WHERE CASE WHEN m.status = 'RETRYING' THEN (m.key_hash # hashtext(m.original_topic)) & 2147483647 = ANY (ARRAY(SELECT key_hash FROM candidate)) END
	GROUP BY 1
), judged AS MATERIALIZED (
	SELECT c.id, c.seq, c.key_hash, free.size, free.id IS NOT NULL AS is_free,
		free.id IS NULL AND NOT COALESCE(m.status = 'RETRYING' AND m.owner_token <> @token
			OR m.status = 'PENDING' AND m.retry_count < m.max_retries
				AND (m.updated_at <= (SELECT snapshot_at FROM job) OR m.owner_token = @token)
				AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics, false) AS gone,
		@ordered::bool AND EXISTS (
			SELECT FROM dlq.dlq_messages o
			WHERE o.status = 'RETRYING' AND o.workflow_id NOT LIKE 'retry-all-%' AND o.key_hash = m.key_hash
				AND o.original_topic = m.original_topic AND o.seq < c.seq
			ORDER BY o.seq OFFSET 0)
			OR EXISTS (SELECT FROM others o WHERE o.key_hash = c.key_hash AND o.seq < c.seq) AS retried,
		CASE WHEN @ordered::bool THEN (
			SELECT w.queue_id FROM dlq.dlq_bulk_retry_waiting w
			WHERE w.bulk_id = @bulk AND w.key_hash = c.key_hash AND w.seq < c.seq AND w.queue_id <> queue.id
			ORDER BY w.seq LIMIT 1) END AS elsewhere
	FROM candidate c
	CROSS JOIN queue
	LEFT JOIN dlq.dlq_messages m ON m.id = c.id
	LEFT JOIN free ON free.id = c.id
), held AS MATERIALIZED (
	SELECT key_hash, min(seq) AS seq FROM judged WHERE NOT gone AND (NOT is_free OR retried OR elsewhere IS NOT NULL) GROUP BY key_hash
), sendable AS MATERIALIZED (
	SELECT j.id, j.size, row_number() OVER (ORDER BY j.seq) - 1 AS n, count(*) OVER () AS many, sum(j.size) OVER (ORDER BY j.seq) AS bytes
	FROM judged j, queue
	WHERE j.is_free AND NOT j.retried AND j.elsewhere IS NULL
		AND NOT EXISTS (SELECT FROM held h WHERE @ordered::bool AND h.key_hash = j.key_hash AND h.seq < j.seq)
		AND NOT (queue.closed AND EXISTS (SELECT FROM judged e WHERE e.key_hash = j.key_hash AND e.seq < j.seq AND NOT e.gone))
), taken AS MATERIALIZED (
	SELECT s.id, s.size
	FROM sendable s, queue, lane
	WHERE CASE WHEN queue.closed THEN s.n = queue.tries % s.many ELSE s.n < lane.quota AND (s.bytes <= @page_bytes OR s.n = 0) END
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token
	FROM taken
	WHERE m.id = taken.id
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.payload, (m.key_hash # hashtext(m.original_topic)) & 2147483647 AS key_hash
), left_queue AS (
	DELETE FROM dlq.dlq_bulk_retry_waiting w
	WHERE w.bulk_id = @bulk AND w.queue_id = (SELECT id FROM queue) AND w.lane = @lane
		AND w.seq = ANY (ARRAY(SELECT j.seq FROM judged j WHERE j.gone OR EXISTS (SELECT FROM taken WHERE taken.id = j.id)))
	RETURNING 1
), key_queue AS (
	INSERT INTO dlq.dlq_bulk_retry_queues AS q (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
	SELECT DISTINCT ON (j.key_hash) @bulk, @lane, queue.topic, -1, j.key_hash, false, 0, clock_timestamp() + interval '1 second',
		'an earlier message of the key is being retried or changed by somebody else', ''
	FROM judged j, queue
	WHERE queue.key_hash = -1 AND NOT j.gone AND j.elsewhere IS NULL AND (NOT j.is_free OR j.retried)
	ORDER BY j.key_hash
	ON CONFLICT ON CONSTRAINT uq_dlq_bulk_retry_queues DO UPDATE SET due_at = EXCLUDED.due_at
	RETURNING q.id, q.key_hash
), leaving AS MATERIALIZED (
	SELECT j.seq, COALESCE(j.elsewhere, k.id) AS queue_id
	FROM judged j
	LEFT JOIN held h ON h.key_hash = j.key_hash AND h.seq <= j.seq
	LEFT JOIN key_queue k ON k.key_hash = h.key_hash
	WHERE NOT j.gone AND COALESCE(j.elsewhere, k.id) IS NOT NULL AND NOT EXISTS (SELECT FROM taken WHERE taken.id = j.id)
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
	SET due_at = CASE WHEN queue.key_hash >= 0 AND EXISTS (SELECT FROM taken) THEN q.due_at
			ELSE clock_timestamp() + CASE WHEN queue.closed AND EXISTS (SELECT FROM taken) THEN interval '20 seconds' ELSE interval '1 second' END END,
		tries = CASE WHEN queue.key_hash >= 0 AND EXISTS (SELECT FROM taken) THEN 0 ELSE q.tries END
	FROM queue
	WHERE q.id = queue.id AND NOT EXISTS (SELECT FROM emptied)
		AND (queue.closed AND EXISTS (SELECT FROM taken)
			OR queue.key_hash >= 0 AND q.tries > 0 AND EXISTS (SELECT FROM taken)
			OR queue.key_hash >= 0 AND NOT EXISTS (SELECT FROM taken) AND EXISTS (SELECT FROM judged WHERE NOT gone AND elsewhere IS NULL))
), counted AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET pages = l.pages + 1, page = l.page || ARRAY(SELECT id FROM claimed),
		waiting = greatest(l.waiting - (SELECT count(*) FROM left_queue), 0), updated_at = now()
	FROM lane
	WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
), spent AS (
	UPDATE dlq.dlq_bulk_retries b
	SET step_limit = b.step_limit - n,
		next_at = CASE WHEN job.rate_limit > 0 THEN job.due + make_interval(secs => n::float8 / job.rate_limit) ELSE b.next_at END
	FROM job, (SELECT count(*) AS n FROM claimed) AS counted
	WHERE b.id = @bulk AND job.throttled AND n > 0
)
SELECT EXISTS (SELECT FROM lane), COALESCE((SELECT throttled FROM job), false), load.bytes,
	queue.topic, queue.partition, queue.key_hash >= 0, queue.tries, queue.reason, queue.category,
	CASE WHEN queue.id IS NOT NULL THEN 0 END::bigint, m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN load.bytes > @page_bytes THEN NULL WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END,
	CASE WHEN load.bytes <= @page_bytes THEN b.headers END, b.record_timestamp,
	CASE WHEN (SELECT failed FROM lane) > 0 THEN EXISTS (
		SELECT FROM dlq.dlq_bulk_retry_blocked_keys k
		WHERE k.bulk_id = @bulk AND k.key_hash = m.key_hash AND k.topic = m.original_topic AND k.key = b.key OFFSET 0) ELSE false END
FROM (SELECT COALESCE(sum(size), 0)::bigint AS bytes FROM taken) AS load
LEFT JOIN queue ON true
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// queueAgain is how soon a lane asks again whose queue gave nothing: what could not be
// claimed has been put off, and other queues may be due.
const queueAgain = time.Millisecond

// claimQueue claims from a queue that is due. args are those of a claim that found it.
func (s *Store) claimQueue(ctx context.Context, args pgx.NamedArgs, closed []dlq.Target) (claim dlq.LaneClaim, err error) {
	var open bool
	var queue nullableQueue
	err = s.batch(ctx, "claim from queue", func(batch *pgx.Batch) {
		queueClaim(batch, args)
		batch.Queue(claimQueueSQL, args).Query(func(rows pgx.Rows) (err error) {
			claim.Page, err = collectAfter(rows, scanPageEnvelope, append([]any{&open, &claim.Limited, &claim.Bytes}, queue.columns()...)...)
			return err
		})
	})
	if err != nil {
		return dlq.LaneClaim{}, err
	}
	claim.Queue, claim.Closed = queue.queue(), closed
	if len(claim.Page) == 0 {
		claim.Wait = queueAgain
	}
	return claim, nil
}

func scanPageEnvelope(row pgx.CollectableRow) (e dlq.PageEnvelope, err error) {
	e.Envelope, err = scanEnvelope(withLast{row, &e.Blocked})
	return e, err
}

// withLast is a row whose last column goes to a place of its own.
type withLast struct {
	pgx.CollectableRow
	last any
}

// Scan reads the last column too.
func (r withLast) Scan(targets ...any) error {
	return r.CollectableRow.Scan(append(targets, r.last)...)
}
