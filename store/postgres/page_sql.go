package postgres

// The statements of a step, in the order in which the step runs them. A step is a transaction of a lane. Each statement
// finds its few rows by an index. The decisions are made in Go, by dlq.Settle and dlq.Listing.Plan.

// First, the step ends the claims of the page in hand, and reads the state of the lane and of the job.
const (
	// endPageSQL ends claims. The ids are sorted, so that two calls for the same page do not deadlock. The retry count tells
	// a claim from a later claim of the same message. A message that an operator has marked dead meanwhile changes only if it
	// was delivered. The CASE in WHERE keeps the planner from using the index of RETRYING messages. A page has few different
	// results and targets. So each result and each target is passed once, and messages name them by number. All delivered
	// messages share a row of the answer, since only their ids are needed. A trigger makes messages RESOLVED that an
	// earlier retry has delivered, after the statement.
	endPageSQL = `
WITH target AS MATERIALIZED (
	SELECT o.number, t.id, t.dlq_topic
	FROM unnest(@topics::text[], @topic_ids::uuid[]) WITH ORDINALITY AS o (topic, topic_id, number)
	JOIN dlq.dlq_targets t ON t.topic = o.topic AND t.topic_id IS NOT DISTINCT FROM o.topic_id
), ended AS (
	UPDATE dlq.dlq_messages m
	SET status = (CASE WHEN m.retry_count < m.max_retries THEN @left_statuses::text[] ELSE @none_statuses::text[] END)[o.result],
		resolution = (CASE WHEN m.retry_count < m.max_retries THEN @left_resolutions::text[] ELSE @none_resolutions::text[] END)[o.result],
		target_partition = o.target_partition, target_offset = o.target_offset,
		target_id = (SELECT t.id FROM target t WHERE t.number = o.target AND t.dlq_topic = m.dlq_topic),
		retry_count = greatest(m.retry_count + (@deltas::int[])[o.result], 0), in_page = false, updated_at = now(),
		last_retry_at = CASE WHEN (@deltas::int[])[o.result] < 0
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id) ELSE m.last_retry_at END
	FROM unnest(@ids::uuid[], @claims::int[], @results::int[], @target_partitions::int[], @target_offsets::bigint[], @targets::int[])
		AS o (id, claim, result, target_partition, target_offset, target)
	WHERE m.id = o.id AND CASE WHEN m.workflow_id = @workflow_id AND m.owner_token = @token AND m.retry_count = o.claim
			AND (m.status = 'RETRYING' OR m.status = 'DEAD' AND m.resolution = 'given_up' AND (@left_statuses::text[])[o.result] = 'RESOLVED')
		THEN true ELSE false END
	RETURNING m.id, m.seq, m.key_hash, m.original_topic,
		CASE WHEN m.status IN ('PENDING', 'DEAD') AND dlq.was_delivered(m.id) THEN 'RESOLVED' ELSE m.status END AS status,
		o.target > 0 AND m.target_id IS NULL AS is_unnamed,
		(@left_statuses::text[])[o.result] = 'RESOLVED' AS is_delivered
)
SELECT array_agg(id), CASE WHEN is_delivered THEN 0 ELSE seq END, CASE WHEN is_delivered THEN 0 ELSE key_hash END,
	CASE WHEN is_delivered THEN '' ELSE original_topic END, status, is_unnamed
FROM ended
GROUP BY 2, 3, 4, 5, 6`

	// nameTargetsSQL sets target_id in messages whose target was not in dlq_targets. noteTargetsSQL has just inserted the target.
	nameTargetsSQL = `
UPDATE dlq.dlq_messages m
SET target_id = t.id
FROM unnest(@ids::uuid[], @target_topics::text[], @target_topic_ids::uuid[]) AS o (id, topic, topic_id)
JOIN dlq.dlq_targets t ON t.topic = o.topic AND t.topic_id IS NOT DISTINCT FROM o.topic_id
WHERE m.id = o.id AND m.id = ANY (@unnamed::uuid[]) AND m.dlq_topic = t.dlq_topic`

	// lockLaneSQL locks the row of a lane, so one step of the lane runs at a time. It finds no row if a newer attempt has the
	// lane. The next statements see everything that was committed before the lock was granted, such as a pause of the job.
	lockLaneSQL = `
SELECT pages, cursor, waiting, retried, failed, dead, skipped, array_remove(page, NULL)
FROM dlq.dlq_job_lanes
WHERE job_id = @job AND lane = @lane AND epoch = @epoch
ORDER BY pages DESC
LIMIT 1
FOR UPDATE`

	// rowOfLane finds the row of a lane. Each claim increments pages, so a search from the highest number reads one version
	// of the row. max(pages) would read every version that no vacuum has removed.
	rowOfLane = `l.job_id = @job AND l.lane = @lane
		AND l.pages >= (SELECT pages FROM dlq.dlq_job_lanes WHERE job_id = @job AND lane = @lane ORDER BY pages DESC LIMIT 1)`

	// lockLimitsSQL locks the job's row if the job has a limit. The lanes of a job without limits do not wait for each other.
	lockLimitsSQL = `
SELECT FROM dlq.dlq_jobs WHERE id = @job AND (rate_limit > 0 OR step_limit IS NOT NULL) FOR NO KEY UPDATE`

	// jobOfLaneSQL reads the state and the limits of the job, whether it has queues, and whether other jobs retry messages.
	jobOfLaneSQL = `
SELECT b.state = 'RUNNING' AND b.ended_at IS NULL, b.rate_limit, b.next_at, b.step_limit, clock_timestamp(),
	EXISTS (SELECT FROM dlq.dlq_job_queues q WHERE q.job_id = b.id),
	EXISTS (SELECT FROM dlq.dlq_jobs o WHERE o.ended_at IS NULL AND o.lanes > 0 AND o.id <> b.id)
FROM dlq.dlq_jobs b
WHERE b.id = @job`

	closedTargetsSQL = `SELECT topic, partition FROM dlq.dlq_job_queues WHERE job_id = @job AND closed`

	// nextQueueSQL finds the queue of the lane that is due first. The queues of targets belong to all lanes. A generic
	// plan is often made while the queues are empty. In EXISTS, ORDER BY makes such a plan use the index with this order,
	// and OFFSET 0 keeps the planner from turning EXISTS into a join.
	nextQueueSQL = `
SELECT n.id, n.topic, n.partition, n.key_hash, n.closed, n.tries, n.due_at, n.reason, n.category
FROM (
	(SELECT q.* FROM dlq.dlq_job_queues q WHERE q.job_id = @job AND q.lane = @lane ORDER BY q.due_at LIMIT 1)
	UNION ALL
	(SELECT q.* FROM dlq.dlq_job_queues q
	WHERE q.job_id = @job AND q.lane = -1
		AND EXISTS (SELECT FROM dlq.dlq_job_waiting w WHERE w.job_id = @job AND w.queue_id = q.id AND w.lane = @lane ORDER BY w.seq OFFSET 0)
	ORDER BY q.due_at LIMIT 1)
) AS n
ORDER BY n.due_at
LIMIT 1`
)

// Then the lane lists the messages that it may claim next.
const (
	// listNextSQL lists the next messages of the dead-letter topic @topic: a page of 100, and one message more. The index
	// contains the bucket, so the lane reads no rows of other lanes. Every change of a status sets updated_at, so messages
	// that changed after the job's snapshot are left out. A row whose xmax is 0 was never locked. The comparison with a regular
	// expression takes as long as all other conditions together, so the topic is compared with @usual_topic first.
	listNextSQL = nextOfLane + `
	AND m.dlq_topic = @topic AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic
	AND (m.original_topic = @usual_topic OR m.original_topic !~ @dead_letter_topics)
ORDER BY m.seq
LIMIT 101`

	// listNextOfOriginalSQL does the same for the original topic @topic.
	listNextOfOriginalSQL = nextOfLane + `
	AND m.original_topic = @topic AND m.dlq_topic <> @topic AND @topic <> '' AND @topic !~ @dead_letter_topics
ORDER BY m.seq
LIMIT 101`

	nextOfLane = laneNow + `
SELECT m.id, m.seq, m.key_hash, m.original_topic,` + messageSize + `, m.ctid, m.xmax = '0'::xid
FROM dlq.dlq_messages m /* source */
WHERE m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
	AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @end` + inBuckets + `
	AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM dlq.dlq_jobs WHERE id = @job)
	AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */`

	// laneNow reads the cursor and the buckets from the lane's row, so they fit together. In a restored database, the row may
	// have older buckets than dlq.Lane.
	laneNow = `
WITH lane AS MATERIALIZED (
	SELECT cursor, first_bucket, last_bucket FROM dlq.dlq_job_lanes WHERE job_id = @job AND lane = @lane ORDER BY pages DESC LIMIT 1
)`
	inBuckets = `
	AND (m.key_hash & 1023) BETWEEN (SELECT first_bucket FROM lane) AND (SELECT last_bucket FROM lane)`

	// messageSize is the size of a message. A row that another program inserted has no size, and may have no body.
	messageSize = `
	CASE WHEN m.size > 0 THEN m.size
		ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id), octet_length(m.payload::text), 0) END`

	// scanEndSQL finds the 10,001st message after the cursor, of the dead-letter topic and of the original topic @topic. A
	// bounded lane stops before these messages: see step.isBounded.
	scanEndSQL = laneNow + `
(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic` + scanEnd + `)
UNION ALL
(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic` + scanEnd + `)`

	scanEnd = `
	AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @upper_bound` + inBuckets + `
ORDER BY m.seq
OFFSET 10000 LIMIT 1`

	// tryQueueSQL locks the queue of a closed target, so one lane at a time tries the target.
	tryQueueSQL = `SELECT FROM dlq.dlq_job_queues WHERE id = @queue AND due_at <= clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED`

	// listQueueSQL lists the first messages of a queue. With @is_shared, it then lists the messages of other key queues that are
	// due and were not tried yet. The joins keep the order of the queues, and the order of the messages in each queue. A
	// deleted message has only id and seq. The last column says whether a message has left the scope. A message that another
	// owner retries has not: it stays in its queue.
	listQueueSQL = `
SELECT w.message_id, w.seq, m.key_hash, m.original_topic,` + messageSize + `, q.id,
	NOT COALESCE(m.status = 'RETRYING' AND m.owner_token <> @token OR true` + claimable + `, false)
FROM (
	SELECT @queue::bigint AS id
	UNION ALL
	SELECT o.id
	FROM (
		SELECT q.id, q.tries FROM dlq.dlq_job_queues q
		WHERE q.job_id = @job AND q.lane = @lane AND q.due_at <= @now AND @is_shared::bool
		ORDER BY q.due_at LIMIT 100
	) AS o
	WHERE o.tries <= 0 AND o.id <> @queue
) AS q
CROSS JOIN LATERAL (
	SELECT w.message_id, w.seq FROM dlq.dlq_job_waiting w
	WHERE w.job_id = @job AND w.queue_id = q.id AND w.lane = @lane
	ORDER BY w.seq LIMIT 100
) AS w
LEFT JOIN dlq.dlq_messages m ON m.id = w.message_id
LIMIT 100`
)

// Then the lane locks the listed messages, and reads the facts that the decision needs.
const (
	// lockListedSQL locks the listed messages that can be claimed and that no other transaction has locked.
	lockListedSQL = `
SELECT m.id, m.ctid
FROM dlq.dlq_messages m
WHERE m.id = ANY (@ids::uuid[])` + claimable + `
FOR UPDATE SKIP LOCKED`

	// claimable is the condition that a message is in the job's scope, or that the job itself has put the message into a
	// queue. It compares original topics with dead-letter topics only for messages of queues: listNextSQL has compared the rest.
	claimable = `
	AND m.status = 'PENDING' AND m.retry_count < m.max_retries
	AND (m.updated_at <= (SELECT snapshot_at FROM dlq.dlq_jobs WHERE id = @job) OR m.owner_token = @token AND @from_queue::bool)
	AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic
	AND NOT (@from_queue::bool AND m.original_topic ~ @dead_letter_topics)`

	// earlierWaitingSQL finds, for each candidate, the last earlier message of its key that waits in a queue other than
	// @queues. It compares the lane too, since a key of another lane may have the same key_hash. Without OFFSET 0, a plan
	// that was made while there were no queues would read all queues.
	earlierWaitingSQL = `
SELECT k.key, w.seq, q.topic, q.partition, q.key_hash
FROM unnest(@keys::int[], @seqs::bigint[]) AS k (key, seq)
CROSS JOIN LATERAL (
	SELECT w.seq, w.queue_id
	FROM dlq.dlq_job_waiting w
	WHERE w.job_id = @job AND w.key_hash = k.key AND w.lane = @lane AND w.seq < k.seq AND w.queue_id <> ALL (@queues::bigint[])
	ORDER BY w.seq DESC
	LIMIT 1
) AS w
CROSS JOIN LATERAL (SELECT q.topic, q.partition, q.key_hash FROM dlq.dlq_job_queues q WHERE q.id = w.queue_id OFFSET 0) AS q`

	// retriedSinglySQL finds, for each record key, the first message that a single retry has claimed.
	retriedSinglySQL = `
SELECT o.key_hash, o.original_topic, min(o.seq), @requested::text` + singleRetries + `
GROUP BY o.key_hash, o.original_topic`

	singleRetries = `
FROM dlq.dlq_messages o
WHERE o.status = 'RETRYING' AND NOT o.in_page AND o.key_hash = ANY (@key_hashes::int[]) AND o.workflow_id NOT LIKE 'retry-all-%'`

	// retriedByJobsSQL finds the messages of these record keys that are in the pages of other jobs. It also reads the
	// target that the other job names.
	retriedByJobsSQL = `
SELECT m.key_hash, m.original_topic, m.seq, COALESCE(o.spec->>'target_topic', '')
FROM dlq.dlq_jobs b
JOIN dlq.dlq_jobs o ON o.ended_at IS NULL AND o.lanes > 0 AND o.id <> b.id AND (o.target = b.target OR o.target IS NULL OR b.target IS NULL)
JOIN dlq.dlq_job_lanes_now l ON l.job_id = o.id
CROSS JOIN unnest(l.page) AS p (id)
JOIN dlq.dlq_messages m ON m.id = p.id
WHERE b.id = @job AND CASE WHEN m.status = 'RETRYING' THEN m.key_hash = ANY (@key_hashes::int[]) END`

	// failedKeysSQL finds the messages whose key has an earlier message that failed in this job.
	failedKeysSQL = `
SELECT c.id
FROM unnest(@ids::uuid[], @keys::int[], @targets::text[]) AS c (id, key, target)
JOIN dlq.dlq_message_bodies b ON b.message_id = c.id
WHERE EXISTS (SELECT FROM dlq.dlq_job_blocked_keys k
	WHERE k.job_id = @job AND k.key_hash = c.key AND k.topic = c.target AND k.key = b.key OFFSET 0)`
)

// Last, the lane writes the decision.
const (
	// claimListedSQL claims messages. It also removes the ballast, which made PostgreSQL store the payload out of line (see
	// migration 002). So this update and the next update copy less. A message that has changed since it was listed has another
	// ctid, or no longer meets the conditions. The statement then fails, unless the messages were locked before the decision:
	// see failsUnless.
	claimListedSQL = `
WITH claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token, in_page = true, ballast = NULL
	WHERE m.ctid = ANY (@places::tid[]) AND m.status = 'PENDING'
		AND (m.updated_at <= (SELECT snapshot_at FROM dlq.dlq_jobs WHERE id = @job) OR @from_queue::bool)
	RETURNING m.id, m.retry_count
)
SELECT array_agg(id), array_agg(retry_count),` + failsUnless + `@is_locked::bool OR array_agg(id ORDER BY id) = @sorted_ids::uuid[]` + elseOvertaken + `
FROM claimed`

	// noSingleRetrySQL fails if a single retry has claimed a message of the record keys.
	noSingleRetrySQL = `SELECT` + failsUnless + `NOT EXISTS (SELECT` + singleRetries + `)` + elseOvertaken

	// failsUnless makes a statement fail if a condition does not hold: PostgreSQL cannot cast the text of elseOvertaken to bool.
	// So the transaction does not commit, although its COMMIT is sent before the result is known. The step then runs again, and
	// locks the messages before the decision.
	failsUnless   = ` (CASE WHEN `
	elseOvertaken = ` THEN 'true' ELSE 'another transaction has changed a message of the page, which is claimed again' END)::bool`

	noteAttemptsSQL = `
INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
SELECT m.id, m.retry_count, m.workflow_id, m.owner_token, COALESCE(m.last_retry_at, m.updated_at), o.result, o.category, o.error
FROM unnest(@ids::uuid[], @results::text[], @categories::text[], @errors::text[]) AS o (id, result, category, error)
JOIN dlq.dlq_messages m ON m.id = o.id`

	noteExhaustedSQL = `
INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
SELECT m.dlq_topic, m.seq, m.id, m.retry_count, m.max_retries, o.error
FROM unnest(@ids::uuid[], @errors::text[]) AS o (id, error)
JOIN dlq.dlq_messages m ON m.id = o.id
WHERE m.resolution = 'exhausted' AND m.dlq_topic <> ''
ON CONFLICT (dlq_topic, seq, message_id) DO UPDATE
SET ended_at = now(), retry_count = EXCLUDED.retry_count, max_retries = EXCLUDED.max_retries, error = EXCLUDED.error`

	noteFailedKeysSQL = `
INSERT INTO dlq.dlq_job_blocked_keys (job_id, key_hash, topic, key)
SELECT @job, o.key, o.target, b.key
FROM unnest(@ids::uuid[], @keys::int[], @targets::text[]) AS o (id, key, target)
JOIN dlq.dlq_message_bodies b ON b.message_id = o.id
WHERE b.key IS NOT NULL`

	// noteQueuesSQL inserts queues and updates the queues that were tried. Other existing queues keep their state.
	noteQueuesSQL = `
INSERT INTO dlq.dlq_job_queues AS q (job_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
SELECT @job, CASE WHEN o.key = -1 THEN -1 ELSE @lane::int END, o.topic, o.partition, o.key, o.closed, o.tries,
	clock_timestamp() + make_interval(secs => o.wait), o.reason, o.category
FROM unnest(@topics::text[], @partitions::int[], @keys::int[], @closed::bool[], @tries::int[], @waits::float8[], @reasons::text[],
	@categories::text[]) AS o (topic, partition, key, closed, tries, wait, reason, category)
ON CONFLICT ON CONSTRAINT uq_dlq_job_queues DO UPDATE
SET closed = EXCLUDED.closed, tries = EXCLUDED.tries, due_at = EXCLUDED.due_at, reason = EXCLUDED.reason, category = EXCLUDED.category
WHERE EXCLUDED.tries > 0`

	// leaveQueueSQL removes messages from their queues. It runs before waitSQL, which may put some of them into another queue.
	// Without OFFSET 0, a plan that was made before the first ANALYZE compares each message with all that wait in the lane.
	// BETWEEN and ORDER BY make a plan use the primary key.
	leaveQueueSQL = `
DELETE FROM dlq.dlq_job_waiting w
USING unnest(@left_queues::bigint[], @seqs::bigint[], @ids::uuid[]) AS l (queue, seq, id)
CROSS JOIN LATERAL (
	SELECT x.ctid FROM dlq.dlq_job_waiting x
	WHERE x.job_id = @job AND x.queue_id = l.queue AND x.lane = @lane AND x.seq BETWEEN l.seq AND l.seq AND x.message_id = l.id
	ORDER BY x.seq OFFSET 0
) AS x
WHERE w.ctid = x.ctid`

	// waitSQL puts messages into queues. ORDER BY makes a plan use the index uq_dlq_job_queues, even if the plan was made
	// while there were no queues.
	waitSQL = `
INSERT INTO dlq.dlq_job_waiting (job_id, queue_id, lane, seq, message_id, key_hash)
SELECT @job, q.id, @lane, w.seq, w.id, w.key
FROM unnest(@ids::uuid[], @seqs::bigint[], @keys::int[], @topics::text[], @partitions::int[], @queue_keys::int[])
	AS w (id, seq, key, topic, partition, queue_key)
CROSS JOIN LATERAL (
	SELECT q.id FROM dlq.dlq_job_queues q
	WHERE q.job_id = @job AND q.topic = w.topic AND q.partition = w.partition AND q.key_hash BETWEEN w.queue_key AND w.queue_key
	ORDER BY q.key_hash LIMIT 1
) AS q`

	deleteEmptyQueuesSQL = `
DELETE FROM dlq.dlq_job_queues q
WHERE q.id = ANY (@queues::bigint[]) AND NOT EXISTS (SELECT FROM dlq.dlq_job_waiting w WHERE w.job_id = @job AND w.queue_id = q.id AND w.lane = @lane)`

	postponeQueuesSQL = `
UPDATE dlq.dlq_job_queues SET due_at = clock_timestamp() + make_interval(secs => @wait) WHERE id = ANY (@queues::bigint[])`

	// untriedQueueSQL resets the tries of a queue whose first message is sent. LaneClaim.Queue keeps the old number of tries.
	untriedQueueSQL = `UPDATE dlq.dlq_job_queues SET tries = 0 WHERE id = @queue`

	openTargetsSQL = `
UPDATE dlq.dlq_job_queues q
SET closed = false, tries = 0, due_at = clock_timestamp()
FROM unnest(@topics::text[], @partitions::int[]) AS o (topic, partition)
WHERE q.job_id = @job AND q.closed AND q.topic = o.topic AND q.partition = o.partition AND q.key_hash = -1`

	saveLaneSQL = `
UPDATE dlq.dlq_job_lanes
SET pages = @pages, cursor = @cursor, page = @page, waiting = @waiting,
	retried = @retried, failed = @failed, dead = @dead, skipped = @skipped, updated_at = now()
WHERE job_id = @job AND lane = @lane AND pages = @known_pages`

	chargeJobSQL = `UPDATE dlq.dlq_jobs SET step_limit = @step_limit, next_at = @next_at WHERE id = @job`

	// recordsSQL reads the records of messages. A row that another program inserted may have no body.
	recordsSQL = `
SELECT c.id, b.key, CASE WHEN b.message_id IS NULL THEN (SELECT convert_to(m.payload::text, 'UTF8') FROM dlq.dlq_messages m WHERE m.id = c.id)
	ELSE b.value END, b.headers, b.record_timestamp
FROM unnest(@ids::uuid[]) AS c (id)
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = c.id
WHERE b.message_id IS NOT NULL OR EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = c.id OFFSET 0)`
)

// ownedSQL reads the messages that the lane has claimed and not finalized.
const ownedSQL = `
SELECT m.id, m.seq, m.key_hash, m.original_topic,` + messageSize + `, m.retry_count
FROM dlq.dlq_job_lanes l
CROSS JOIN LATERAL unnest(l.page) AS p (id)
JOIN dlq.dlq_messages m ON m.id = p.id
WHERE ` + rowOfLane + ` AND l.epoch = @epoch
	AND CASE WHEN m.status = 'RETRYING' AND m.owner_token = @token AND m.workflow_id = @workflow_id THEN true ELSE false END`
