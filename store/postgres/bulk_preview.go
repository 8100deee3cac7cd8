package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// previewSQL counts the scope in one pass, grouped by all columns that decide whether a
// message is sent. So the patterns of dead-letter topics are matched once for each group.
// Of error classes and targets it returns the most frequent ones. Statuses and reasons are
// few.
const previewSQL = `
WITH message_group AS MATERIALIZED (
	SELECT status, exhausted, suspicious, error_class, dlq_topic, original_topic, count(*) AS n
	FROM (
		(SELECT m.status, m.retry_count >= m.max_retries AS exhausted, m.suspicious, m.error_class, m.dlq_topic, m.original_topic
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
		UNION ALL
		(SELECT m.status, m.retry_count >= m.max_retries AS exhausted, m.suspicious, m.error_class, m.dlq_topic, m.original_topic
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	) AS scope
	GROUP BY status, exhausted, suspicious, error_class, dlq_topic, original_topic
), with_reason AS (
	SELECT m.*, CASE
		WHEN m.status = 'RESOLVED' THEN @resolved
		WHEN m.status = 'DEAD' THEN @dead
		WHEN m.status = 'RETRYING' THEN @retrying
		WHEN m.exhausted THEN @exhausted
		WHEN m.original_topic = '' OR m.original_topic = m.dlq_topic OR m.original_topic ~ @dead_letter_topics THEN @no_origin
		WHEN m.suspicious AND @skip_suspicious::bool THEN @suspicious
		ELSE '' END AS reason
	FROM message_group m
), counted AS (
	SELECT GROUPING(status) = 0 AS is_status, GROUPING(error_class) = 0 AS is_class,
		COALESCE(status, error_class, original_topic) AS name, reason, sum(n)::bigint AS n
	FROM with_reason
	GROUP BY GROUPING SETS ((status, reason), (error_class, reason), (original_topic, reason))
), ranked AS (
	SELECT *, row_number() OVER (PARTITION BY is_status, is_class ORDER BY n DESC, name) AS rank
	FROM counted
	WHERE is_status OR reason = ''
)
SELECT is_status, is_class, name, reason, n
FROM ranked
WHERE is_status OR rank <= @rows::int
ORDER BY n DESC, CASE WHEN is_status THEN reason ELSE name END`

// sampleSQL reads the first messages that would be sent.
const sampleSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious
FROM (
	SELECT id, seq
	FROM (
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.retry_count < m.max_retries AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */
			AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
		ORDER BY m.seq
		LIMIT 10)
		UNION ALL
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.retry_count < m.max_retries AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */
			AND m.original_topic <> '' AND m.original_topic !~ @dead_letter_topics
		ORDER BY m.seq
		LIMIT 10)
	) AS sendable
	ORDER BY seq
	LIMIT 10
) AS sample
JOIN dlq.dlq_messages m ON m.id = sample.id
ORDER BY sample.seq`

var _ = [1]struct{}{}[dlq.PreviewSample-10]

// PreviewBulk returns the result that a bulk retry would have if it started now. It changes
// nothing, and reads everything in one snapshot. It reads the whole scope, and has no time
// limit but that of ctx.
func (s *Store) PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error) {
	preview := dlq.BulkPreview{ByStatus: map[dlq.Status]int64{}}
	spec = spec.Storable()
	args := s.bulkArgs(&spec)
	args["resolved"], args["dead"], args["retrying"] = dlq.SkipResolved, dlq.SkipDead, dlq.SkipRetrying
	args["exhausted"], args["no_origin"], args["suspicious"] = dlq.SkipExhausted, dlq.SkipNoOrigin, dlq.SkipSuspicious
	args["rows"] = dlq.PreviewRows
	batch := &pgx.Batch{}
	batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
	batch.Queue(filtered(previewSQL, &spec.Filter), args).Query(func(rows pgx.Rows) error { return collectPreview(rows, &preview) })
	batch.Queue(inOrderSQL)
	queueQuery(batch, &preview.Sample, scanMessage, filtered(sampleSQL, &spec.Filter), args)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return dlq.BulkPreview{}, wrap("preview bulk retry", err)
	}
	return preview, nil
}

func collectPreview(rows pgx.Rows, preview *dlq.BulkPreview) error {
	var isStatus, isClass bool
	var name, reason string
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&isStatus, &isClass, &name, &reason, &n}, func() error {
		switch {
		case isStatus:
			preview.ByStatus[dlq.Status(name)] += n
			if reason == "" {
				preview.Matched += n
				break
			}
			preview.Skipped += n
			preview.SkipReasons = append(preview.SkipReasons, dlq.PreviewCount{Name: reason, Count: n})
		case isClass:
			preview.ByErrorClass = append(preview.ByErrorClass, dlq.PreviewCount{Name: cmp.Or(name, dlq.NoErrorClass), Count: n})
		default:
			preview.ByTarget = append(preview.ByTarget, dlq.PreviewCount{Name: name, Count: n})
		}
		return nil
	})
	return err
}
