package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// countBulkSQL counts the messages that the lanes will claim, by the same conditions, and
// takes no locks meanwhile.
const countBulkSQL = `
WITH job AS MATERIALIZED (
	SELECT upper_bound, snapshot_at FROM dlq.dlq_bulk_retries WHERE id = @id
), matched AS MATERIALIZED (
	SELECT count(*) AS n, min(target) AS target, COALESCE(min(target) <> max(target), false) AS multi_target
	FROM (
		(SELECT m.original_topic /* target */ COLLATE "C" AS target
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq <= (SELECT upper_bound FROM job)
			AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
			AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
			AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics)
		UNION ALL
		(SELECT m.original_topic /* target */ COLLATE "C" AS target
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
			AND m.seq <= (SELECT upper_bound FROM job)
			AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
			AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
			AND m.original_topic <> '' AND m.original_topic !~ @dead_letter_topics)
	) AS sendable
)
UPDATE dlq.dlq_bulk_retries b
SET matched = matched.n, multi_target = matched.multi_target,
	target = CASE WHEN NOT matched.multi_target THEN matched.target END, counted = true, updated_at = clock_timestamp()
FROM matched
WHERE b.id = @id AND NOT b.counted`

// CountBulk counts the messages that a bulk retry matches, once. A second call changes
// nothing, nor does a call for a job that has ended. CountBulk reads the whole scope, and no other
// call waits for the count. Nothing may be claimed before. The result is the bulk retry, or
// dlq.ErrNotFound.
func (s *Store) CountBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	b, err := s.Bulk(ctx, id)
	if err != nil || !b.Counting {
		return b, err
	}
	args := s.bulkArgs(&b.Spec)
	args["id"] = uuid(id)
	err = s.batch(ctx, "count bulk retry", func(batch *pgx.Batch) {
		batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
		batch.Queue(s.targeted(filtered(countBulkSQL, &b.Spec.Filter), &b.Spec), args)
	})
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

// bulkArgs are the parameters of the scope of a bulk retry.
func (s *Store) bulkArgs(spec *dlq.BulkSpec) pgx.NamedArgs {
	args := filterArgs(&spec.Filter)
	args["dead_letter_topics"] = s.topics.NoTargets()
	args["origin_expressions"], args["origin_replacements"] = s.topics.Origins()
	args["skip_suspicious"] = !spec.IncludeSuspicious
	s.addTargets(args, spec)
	return args
}
