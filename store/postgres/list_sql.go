package postgres

// The parts that statements about the messages of a topic share. In them, m is a message.
const (
	// listedColumns are the columns of scanListed. p is the payload of withPayload: payloads larger than
	// dlq.ListPayload are not sent, and payloads of records of more than @inlined bytes are not read.
	listedColumns = `
	m.id, m.seq, m.original_topic, m.dlq_topic, left(m.error_message, 16384), m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(p.payload) <= 65536 THEN p.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	CASE WHEN m.payload IS NOT NULL THEN COALESCE(octet_length(p.payload), m.size) END`

	// withPayload converts each payload to text. OFFSET makes the server convert a payload once.
	withPayload = `
CROSS JOIN LATERAL (SELECT CASE WHEN m.size <= @inlined::int THEN m.payload::text END AS payload OFFSET 0) AS p`

	// retryingOfTopic finds RETRYING messages. They are few, and the indexes leave them out; dlq_retrying has their ids.
	retryingOfTopic = `
		FROM dlq.dlq_messages m /* source */
		WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */`

	// ofTopicInAnyOrder lets the planner choose how to read the messages of a topic.
	ofTopicInAnyOrder = `(
		(SELECT m.*
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */)
		UNION ALL
		(SELECT m.*
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */)
		UNION ALL
		(SELECT m.*` + retryingOfTopic + `)
	) AS m`

	// nextOfTopic has the next messages of wanted.status in the order of a list, as many as a page of @look messages
	// may need. It reads one index range of the dead-letter topic @topic, and one of the original topic @topic. A message
	// whose two topics are the same is in both ranges. UNION drops its second row. With a condition that excludes such
	// messages from one range, the server would read all of them for each page.
	nextOfTopic = `(
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @look)
		UNION
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @look)
		UNION` + nextRetrying + `
	) AS m`

	nextRetrying = `
		(SELECT m.id, m.created_at, m.seq` + retryingOfTopic + ` AND wanted.status = 'RETRYING' AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @look)`

	// nextOfGroup has the next messages of a group, and reads the index of groups, which is ordered like the indexes of
	// topics. Most groups have messages of one topic only. The filter has the group too.
	nextOfGroup = `(
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m
		WHERE m.group_id = @group AND m.status = wanted.status AND m.status <> 'RETRYING'
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @look)
		UNION` + nextRetrying + `
	) AS m`

	// nextOfGranted has the next messages for a caller who may see some dead-letter topics only. It reads one index range
	// for each of these topics. The index range of the original topic also has the messages of all other dead-letter topics.
	nextOfGranted = `(
		SELECT m.id, m.created_at, m.seq
		FROM unnest(@granted::text[]) AS granted (topic)
		CROSS JOIN LATERAL (
			SELECT m.id, m.created_at, m.seq
			FROM dlq.dlq_messages m
			WHERE m.dlq_topic = granted.topic AND (m.dlq_topic = @topic OR m.original_topic = @topic)
				AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */ AND true /* after */
			ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
			LIMIT @look
		) AS m
		UNION ALL` + nextRetrying + `
	) AS m`

	// ofPossibleGroups are the messages of the groups of possibleGroupsSQL, and the messages without a group. Each
	// OFFSET makes the server find messages by their group and not by their topic.
	ofPossibleGroups = `(
		(SELECT m.id, m.created_at, m.seq
		FROM unnest(@groups::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE group_id = p.id AND status <> 'RETRYING' OFFSET 0) AS m
		WHERE (m.dlq_topic = @topic OR m.original_topic = @topic) AND m.status = ANY (@statuses::text[]) AND true /* filter */)
		UNION ALL
		(SELECT m.id, m.created_at, m.seq
		FROM (SELECT * FROM dlq.dlq_messages WHERE group_id IS NULL AND status <> 'RETRYING' OFFSET 0) AS m
		WHERE (m.dlq_topic = @topic OR m.original_topic = @topic) AND m.status = ANY (@statuses::text[]) AND true /* filter */)
		UNION ALL
		(SELECT m.id, m.created_at, m.seq` + retryingOfTopic + `)
	) AS m`
)

// Statements of lists. They merge the next messages of each status, and select one message more than the page holds.
// They select ids first, so that skipped rows are not read in full.
const (
	listSQL        = listStart + nextOfTopic + listEnd
	listGroupSQL   = listStart + nextOfGroup + listEnd
	listGrantedSQL = listStart + nextOfGranted + listEnd

	listStart = `
SELECT` + listedColumns + `
FROM (
	SELECT m.id, m.created_at, m.seq
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL `
	listEnd = `
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
) AS page
JOIN dlq.dlq_messages m ON m.id = page.id` + withPayload + `
ORDER BY page.created_at DESC /* order */, page.seq DESC /* order */`
)

// Statements that count the messages of lists along the same indexes. They stop at CountLimit + 1.
const (
	countSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */
		ORDER BY m.created_at, m.seq)
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */
		ORDER BY m.created_at, m.seq)
	) AS m)` + countEnd

	countGroupSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM dlq.dlq_messages m
	WHERE m.group_id = @group AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING'
		AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)` + countEnd

	countGrantedSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM unnest(@statuses::text[]) AS wanted (status), unnest(@granted::text[]) AS granted (topic)
	CROSS JOIN LATERAL (
		SELECT
		FROM dlq.dlq_messages m
		WHERE m.dlq_topic = granted.topic AND (m.dlq_topic = @topic OR m.original_topic = @topic)
			AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */
		ORDER BY m.created_at, m.seq
	) AS m)` + countEnd

	countEnd = `
	UNION ALL
	(SELECT` + retryingOfTopic + `)
	LIMIT 10001
) AS counted`

	// countAnyOrderSQL is for searches and for keys. A search reads so many rows that a parallel or sequential scan is
	// faster. Keys have an index of their own.
	countAnyOrderSQL = `
SELECT count(*) FROM (SELECT FROM ` + ofTopicInAnyOrder + ` LIMIT 10001) AS counted`

	// countFewSQL counts the messages of ofPossibleGroups that match. If many match, it soon reaches its limit, since
	// it reads only messages of groups that can match.
	countFewSQL = `
SELECT count(*) FROM (SELECT FROM ` + ofPossibleGroups + ` LIMIT 10001) AS counted`
)

// Statements that read every message that can match, once for the page and the total. If more than 20,000 messages can
// match, they read none: 20,000 messages take a tenth of a second. Without messages, the result is a row with the counts.
const (
	// listKeySQL reads the messages with a key, an origin or an id of a trace. Its probe counts archived messages too.
	listKeySQL = `
WITH probe AS MATERIALIZED (
	SELECT count(*) <= 20000 AS is_rare
	FROM (SELECT FROM dlq.dlq_message_bodies b WHERE true /* lookup */ LIMIT 20001) AS body
), match AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM dlq.dlq_message_bodies b
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m
	WHERE (SELECT is_rare FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic)
		AND m.status = ANY (@statuses::text[]) AND true /* filter */
` + pageOfMatch

	listFewSQL = `
WITH probe AS MATERIALIZED (
	SELECT count(*) <= 20000 AS is_rare
	FROM (
		(SELECT
		FROM unnest(@groups::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT FROM dlq.dlq_messages WHERE group_id = p.id AND status <> 'RETRYING' OFFSET 0) AS m)
		UNION ALL
		(SELECT FROM dlq.dlq_messages m WHERE m.group_id IS NULL AND m.status <> 'RETRYING')
		LIMIT 20001
	) AS message
), match AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM ` + ofPossibleGroups + `
	WHERE (SELECT is_rare FROM probe)
` + pageOfMatch

	pageOfMatch = `), page AS (
	SELECT m.id
	FROM match m
	WHERE true /* after */
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
)
SELECT probe.is_rare, (SELECT count(*) FROM match), m.id IS NOT NULL,` + listedColumns + `
FROM probe
LEFT JOIN (page JOIN dlq.dlq_messages m ON m.id = page.id` + withPayload + `) ON true
ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */`
)
