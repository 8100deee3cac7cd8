package store

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// noClass stands for messages whose error names no class.
const noClass = "(none)"

// previewSQL counts the scope in one pass, by what the answer depends on: whether a
// message has somewhere to go is asked once for all that are alike. Of the classes
// and targets of what would be sent it keeps the most frequent; status and reason
// are few.
func previewSQL(s *scope) string {
	return `
WITH alike AS MATERIALIZED (
	SELECT status, exhausted, error_class, dlq_topic, original_topic, count(*) AS n
	FROM ` + s.selects("m.status, m.retry_count >= m.max_retries AS exhausted, m.error_class, m.dlq_topic, m.original_topic",
		inStatuses(s.spec.Filter.Statuses), "", "") + ` AS scope
	GROUP BY status, exhausted, error_class, dlq_topic, original_topic
), reasoned AS (
	SELECT m.*, CASE
		WHEN m.status = 'RESOLVED' THEN '` + dlq.SkipResolved + `'
		WHEN m.status = 'DEAD' THEN '` + dlq.SkipDead + `'
		WHEN m.status = 'RETRYING' THEN '` + dlq.SkipRetrying + `'
		WHEN m.exhausted THEN '` + dlq.SkipExhausted + `'
		WHEN NOT (` + hasOrigin + `) THEN '` + dlq.SkipNoOrigin + `'
		ELSE '' END AS reason
	FROM alike m
), counted AS (
	SELECT GROUPING(status) = 0 AS is_status, GROUPING(error_class) = 0 AS is_class,
		COALESCE(status, error_class, original_topic) AS name, reason, sum(n)::bigint AS n
	FROM reasoned
	GROUP BY GROUPING SETS ((status, reason), (error_class, reason), (original_topic, reason))
), ranked AS (
	SELECT *, row_number() OVER (PARTITION BY is_status, is_class ORDER BY n DESC, name) AS place
	FROM counted
	WHERE is_status OR reason = ''
)
SELECT is_status, is_class, name, reason, n
FROM ranked
WHERE is_status OR place <= ` + strconv.Itoa(dlq.PreviewRows) + `
ORDER BY n DESC, CASE WHEN is_status THEN reason ELSE name END`
}

func sampleSQL(s *scope) string {
	limit := strconv.Itoa(dlq.PreviewSample)
	return `SELECT ` + messageColumns + `
FROM (SELECT id FROM ` + s.sendable("m.id, m.seq", "", "", " ORDER BY m.seq LIMIT "+limit) + ` AS sides ORDER BY seq LIMIT ` + limit + `) AS first
JOIN dlq.dlq_messages m ON m.id = first.id
ORDER BY m.seq`
}

// PreviewBulk tells what a bulk retry would do if it started now. It changes
// nothing, and all that it tells is of one moment. It reads the whole scope, and
// takes as long as that takes or ctx allows.
func (p *Postgres) PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error) {
	preview := dlq.BulkPreview{ByStatus: map[dlq.Status]int64{}}
	s := p.scope(normalizedSpec(spec))
	batch := &pgx.Batch{}
	batch.Queue(patientSQL, patience(ctx))
	batch.Queue(previewSQL(s), s.args).Query(func(rows pgx.Rows) error { return collectPreview(rows, &preview) })
	batch.Queue(sampleSQL(s), s.args).Query(func(rows pgx.Rows) (err error) {
		preview.Sample, err = pgx.CollectRows(rows, scanMessage)
		return err
	})
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, p.pool, options, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return dlq.BulkPreview{}, failed("preview bulk retry", err)
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
			if name == "" {
				name = noClass
			}
			preview.ByErrorClass = append(preview.ByErrorClass, dlq.PreviewCount{Name: name, Count: n})
		default:
			preview.ByTarget = append(preview.ByTarget, dlq.PreviewCount{Name: name, Count: n})
		}
		return nil
	})
	return err
}
