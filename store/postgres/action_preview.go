package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// previewActionSQL counts the scope in one pass. The rows without a status are groups: those
// with the most messages that would be changed.
const previewActionSQL = `
WITH counted AS MATERIALIZED (
	SELECT status, group_id, count(*) AS n
	FROM (
		(SELECT m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */)
		UNION ALL
		(SELECT m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */)
		UNION ALL
		(SELECT m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
	) AS scope
	GROUP BY status, group_id
), in_group AS (
	SELECT group_id, sum(n)::bigint AS n, count(*) OVER () AS groups
	FROM counted
	WHERE status = ANY (@changed::text[])
	GROUP BY group_id
	ORDER BY sum(n) DESC, COALESCE(group_id::text, '')
	LIMIT @rows
)
SELECT status, sum(n)::bigint AS n, 0::bigint AS groups, NULL::uuid AS group_id, 0 AS version, '' AS scope, '' AS rule, '' AS class, '' AS frame, '' AS message
FROM counted
GROUP BY status
UNION ALL
SELECT '', i.n, i.groups, i.group_id, COALESCE(g.version, 0), COALESCE(g.scope, ''), COALESCE(g.rule, ''),
	COALESCE(g.class, ''), COALESCE(g.frame, ''), COALESCE(g.message, '')
FROM in_group i
LEFT JOIN dlq.dlq_groups g ON g.id = i.group_id
ORDER BY n DESC, group_id`

// PreviewAction returns the result that a bulk action would have if it started now. It
// changes nothing, and reads everything in one snapshot. It reads the whole scope, and has
// no time limit but that of ctx.
func (s *Store) PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	spec = spec.Storable()
	sample := dlq.ListQuery{Filter: spec.Filter, PageSize: dlq.PreviewSample, OldestFirst: true}
	sample.Statuses = spec.ChangedStatuses()
	sampleArgs := listArgs(&sample)
	sampleArgs["limit"], sampleArgs["statuses"] = dlq.PreviewSample, sample.Statuses
	args := filterArgs(&spec.Filter)
	args["changed"], args["rows"] = sample.Statuses, dlq.PreviewRows
	var counted actionCounts
	var messages []dlq.Message
	batch := &pgx.Batch{}
	batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
	batch.Queue(filtered(previewActionSQL, &spec.Filter), args).Query(counted.collect)
	if !sample.IsLookup() { // keys have an index of their own
		batch.Queue(inOrderSQL)
	}
	queueQuery(batch, &messages, scanListed, listed(listSQL, &sample), sampleArgs)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return dlq.ActionPreview{}, wrap("preview bulk action", err)
	}
	preview := dlq.NewActionPreview(spec.Action, counted.byStatus, messages)
	preview.ByGroup, preview.Groups = counted.byGroup, counted.groups
	return preview, nil
}

// actionCounts are the rows of previewActionSQL.
type actionCounts struct {
	byStatus map[dlq.Status]int64
	byGroup  []dlq.PreviewGroup
	groups   int64
}

func (a *actionCounts) collect(rows pgx.Rows) error {
	a.byStatus = map[dlq.Status]int64{}
	var status dlq.Status
	var n, groups int64
	var group dlq.PreviewGroup
	_, err := pgx.ForEachRow(rows, append([]any{(*string)(&status), &n, &groups}, groupTargets(&group)...), func() error {
		if status != "" {
			a.byStatus[status] = n
			return nil
		}
		group.Count = n
		a.byGroup, a.groups = append(a.byGroup, group), groups
		return nil
	})
	return err
}
