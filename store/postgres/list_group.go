package postgres

// listGroupSQL is listSQL for the messages of a group. They are read by the index of groups,
// which is ordered like the indexes of topics. Most groups have one topic only.
const listGroupSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, left(m.error_message, 16384), m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(p.payload) <= 65536 THEN p.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	CASE WHEN m.payload IS NOT NULL THEN COALESCE(octet_length(p.payload), m.size) END
FROM (
	SELECT m.id, m.created_at, m.seq
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m
		WHERE m.group_id = @group AND m.status = wanted.status AND m.status <> 'RETRYING'
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @limit::bigint + @skip::bigint)
		UNION
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m
		WHERE wanted.status = 'RETRYING' AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND m.group_id = @group AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */ AND true /* after */)
	) AS m
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
) AS page
JOIN dlq.dlq_messages m ON m.id = page.id
CROSS JOIN LATERAL (SELECT CASE WHEN m.size <= @inlined::int THEN m.payload::text END AS payload OFFSET 0) AS p
ORDER BY page.created_at DESC /* order */, page.seq DESC /* order */`

// countGroupSQL counts along the same index, and stops at CountLimit + 1.
const countGroupSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM dlq.dlq_messages m
	WHERE m.group_id = @group AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING'
		AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
	UNION ALL
	(SELECT
	FROM dlq.dlq_messages m
	WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
		AND m.group_id = @group AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
	LIMIT 10001
) AS counted`
