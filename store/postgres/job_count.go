package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// sendableSQL counts the messages that the lanes will claim, by the same conditions, without locks. The expression is
// compared once for each original topic.
const sendableSQL = `
WITH job AS MATERIALIZED (
	SELECT upper_bound, snapshot_at FROM dlq.dlq_jobs WHERE id = @id
)
SELECT original_topic, count(*)
FROM (
	(SELECT m.original_topic
	FROM dlq.dlq_messages m /* source */
	WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
		AND m.seq <= (SELECT upper_bound FROM job)
		AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
		AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic)
	UNION ALL
	(SELECT m.original_topic
	FROM dlq.dlq_messages m /* source */
	WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[])
		AND m.seq <= (SELECT upper_bound FROM job)
		AND m.retry_count < m.max_retries AND m.updated_at <= (SELECT snapshot_at FROM job)
		AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
		AND m.original_topic <> '')
) AS sendable
GROUP BY original_topic
HAVING original_topic !~ @dead_letter_topics`

// changeableSQL counts the messages that a job will change, by the same conditions, without locks.
const changeableSQL = `
WITH job AS MATERIALIZED (
	SELECT upper_bound, snapshot_at FROM dlq.dlq_jobs WHERE id = @id
)
SELECT '', count(*)
FROM (
	(SELECT
	FROM dlq.dlq_messages m /* source */
	WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
		AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
	UNION ALL
	(SELECT
	FROM dlq.dlq_messages m /* source */
	WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND m.status <> 'RETRYING' AND true /* filter */
		AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
	UNION ALL
	(SELECT
	FROM dlq.dlq_messages m /* source */
	WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
		AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */
		AND m.seq <= (SELECT upper_bound FROM job) AND m.updated_at <= (SELECT snapshot_at FROM job))
) AS scope`

const countJobSQL = `
UPDATE dlq.dlq_jobs
SET matched = @matched, multi_target = @multi_target, target = @target, counted = true,
	reason = CASE WHEN state = 'RUNNING' THEN '' ELSE reason END, updated_at = clock_timestamp()
WHERE id = @id AND NOT counted`

// CountJob counts the messages in the scope of a job, once, before anything is claimed or changed. It changes
// nothing after the end of the job. It reads the whole scope, and no other call waits for it. The result is the
// job, dlq.ErrNotFound, or dlq.ErrSpecUnreadable.
func (s *Store) CountJob(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	j, err := s.Job(ctx, id)
	if err == nil {
		err = checkReadable(&j)
	}
	if err != nil {
		return dlq.Job{}, err
	}
	if !j.Counting {
		return j, nil
	}
	sql, args := sendableSQL, s.bulkArgs(&j.Spec)
	if j.Spec.Kind != dlq.KindRetry {
		sql, args = changeableSQL, changeArgs(&j.Spec)
	}
	args["id"] = uuid(id)
	type ofTopic struct {
		Topic    string
		Messages int64
	}
	var matched []ofTopic
	err = s.batch(ctx, "count job", func(batch *pgx.Batch) {
		batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
		if j.Spec.Kind != dlq.KindRetry {
			batch.Queue(byIndexSQL) // a generic plan may expect few messages of many topics
		}
		queueQuery(batch, &matched, pgx.RowToStructByPos[ofTopic], filtered(sql, &j.Spec.Filter), args)
	})
	total, targets := int64(0), map[string]bool{}
	for _, m := range matched {
		total += m.Messages
		targets[s.targetOf(m.Topic, j.Spec.TargetTopic)] = true
	}
	var only *string
	for target := range targets {
		only = nilIf(target, len(targets) > 1 || target == "")
	}
	if err == nil {
		err = s.batch(ctx, "count job", func(batch *pgx.Batch) {
			batch.Queue(countJobSQL, pgx.NamedArgs{"id": args["id"], "matched": total, "multi_target": len(targets) > 1, "target": only})
		})
	}
	if err != nil {
		return dlq.Job{}, err
	}
	return s.Job(ctx, id)
}

func changeArgs(spec *dlq.JobSpec) pgx.NamedArgs {
	args := filterArgs(&spec.Filter)
	args["statuses"] = spec.ChangedStatuses()
	return args
}

func (s *Store) bulkArgs(spec *dlq.JobSpec) pgx.NamedArgs {
	args := filterArgs(&spec.Filter)
	args["dead_letter_topics"], args["usual_topic"] = s.topics.NoTargets(), s.topics.UsualOrigin(spec.Topic)
	args["origin_expressions"], args["origin_replacements"] = s.topics.Origins()
	args["skip_suspicious"] = !spec.IncludeSuspicious
	return args
}
