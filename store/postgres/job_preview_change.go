package postgres

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// previewChangesSQL counts the scope in a pass, and has the columns of previewSQL.
const previewChangesSQL = `
WITH counted AS MATERIALIZED (
	SELECT status, group_id, count(*) AS n, bit_xor(uuid_hash_extended(id, 0)) AS digest
	FROM (
		(SELECT m.id, m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
			AND m.seq <= @upper_bound AND m.updated_at <= @snapshot_at)
		UNION ALL
		(SELECT m.id, m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
			AND m.seq <= @upper_bound AND m.updated_at <= @snapshot_at)
		UNION ALL
		(SELECT m.id, m.status, m.group_id
		FROM dlq.dlq_messages m /* source */
		WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */
			AND m.seq <= @upper_bound AND m.updated_at <= @snapshot_at)
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
SELECT 'status', status, CASE WHEN status = ANY (@changed::text[]) THEN '' ELSE status END, sum(n)::bigint AS n, bit_xor(digest), 0::bigint,
	NULL::uuid AS group_id, 0, '', '', '', '', ''
FROM counted
GROUP BY status
UNION ALL
SELECT 'group', '', '', i.n, 0, i.groups, i.group_id, COALESCE(g.version, 0), COALESCE(g.scope, ''), COALESCE(g.rule, ''),
	COALESCE(g.class, ''), COALESCE(g.frame, ''), COALESCE(g.message, '')
FROM in_group i
LEFT JOIN dlq.dlq_groups g ON g.id = i.group_id
ORDER BY n DESC, group_id`

// previewChanges is PreviewScope for a job that changes messages.
func (s *Store) previewChanges(ctx context.Context, spec *dlq.JobSpec, bounds pgx.NamedArgs) (dlq.JobPreview, error) {
	sample := dlq.ListQuery{Filter: spec.Filter, PageSize: dlq.PreviewSample, OldestFirst: true}
	sample.Statuses = spec.ChangedStatuses()
	sampleArgs := listArgs(&sample)
	sampleArgs["limit"], sampleArgs["statuses"] = dlq.PreviewSample, sample.Statuses
	args := filterArgs(&spec.Filter)
	maps.Copy(args, bounds)
	args["changed"], args["rows"] = sample.Statuses, dlq.PreviewRows
	p, err := s.preview(ctx, filtered(previewChangesSQL, &spec.Filter), args, !sample.IsLookup(), listed(listSQL, &sample), sampleArgs)
	p.SkipReasons = nil // ByStatus has these numbers
	return p, err
}
