package postgres

import (
	"context"

	"dlqmanager/dlq"
)

// previewActionSQL counts the scope in a pass, and has the columns of previewSQL.
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
SELECT 'status', status, CASE WHEN status = ANY (@changed::text[]) THEN '' ELSE status END, sum(n)::bigint AS n, 0::bigint,
	NULL::uuid AS group_id, 0, '', '', '', '', ''
FROM counted
GROUP BY status
UNION ALL
SELECT 'group', '', '', i.n, i.groups, i.group_id, COALESCE(g.version, 0), COALESCE(g.scope, ''), COALESCE(g.rule, ''),
	COALESCE(g.class, ''), COALESCE(g.frame, ''), COALESCE(g.message, '')
FROM in_group i
LEFT JOIN dlq.dlq_groups g ON g.id = i.group_id
ORDER BY n DESC, group_id`

// PreviewAction returns the result of a bulk action that would start now,
// changes nothing, and reads everything in the same snapshot. The whole scope is read,
// until ctx ends.
func (s *Store) PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	spec = spec.Storable()
	sample := dlq.ListQuery{Filter: spec.Filter, PageSize: dlq.PreviewSample, OldestFirst: true}
	sample.Statuses = spec.ChangedStatuses()
	sampleArgs := listArgs(&sample)
	sampleArgs["limit"], sampleArgs["statuses"] = dlq.PreviewSample, sample.Statuses
	args := filterArgs(&spec.Filter)
	args["changed"], args["rows"] = sample.Statuses, dlq.PreviewRows
	p, err := s.preview(ctx, filtered(previewActionSQL, &spec.Filter), args, !sample.IsLookup(), listed(listSQL, &sample), sampleArgs)
	return dlq.ActionPreview{Matched: p.Matched, Skipped: p.Skipped, ByStatus: p.ByStatus, ByGroup: p.ByGroup, Groups: p.Groups, Sample: p.Sample}, err
}
