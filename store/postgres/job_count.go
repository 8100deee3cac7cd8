package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dlqmanager/dlq"
)

// scopeSQL reads what fixes the scope of a job. The counts have it as parameters, since PostgreSQL does not count in parallel
// if a statement reads it from another table.
const scopeSQL = `SELECT upper_bound, snapshot_at FROM dlq.dlq_jobs WHERE id = @id`

type scopeRow struct {
	UpperBound int64
	SnapshotAt pgtype.Timestamptz
}

// sendableSQL counts the messages that the lanes will claim, with the same conditions and without locks. It counts
// them for each original topic, and for each bucket. The regular expression is compared once for each original
// topic, so the counts of buckets include messages of excluded topics.
const sendableSQL = `
SELECT original_topic, bucket, sum(messages)::bigint
FROM (
	SELECT original_topic, bucket, count(*) AS messages
	FROM (
		(SELECT m.original_topic, m.key_hash & 1023 AS bucket
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND` + sendable + `)
		UNION ALL
		(SELECT m.original_topic, m.key_hash & 1023
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND` + sendable + `)
	) AS sendable
	GROUP BY original_topic, bucket
) AS counted
GROUP BY GROUPING SETS ((original_topic), (bucket))
HAVING bucket IS NOT NULL OR original_topic !~ @dead_letter_topics`

// sendable is the condition that a bulk retry sends a message, unless its original topic is a dead-letter topic.
const sendable = ` m.status = 'PENDING' AND 'PENDING' = ANY (@statuses::text[]) AND m.retry_count < m.max_retries
		AND NOT (m.suspicious AND @skip_suspicious::bool) AND true /* filter */ AND true /* reach */
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.seq <= @upper_bound AND m.updated_at <= @snapshot_at`

// changeableSQL counts the messages that a job will change, with the conditions of actSQL and without locks.
const changeableSQL = `
SELECT '', NULL::int, count(*)
FROM ` + ofTopicInAnyOrder + `
WHERE m.seq <= @upper_bound AND m.updated_at <= @snapshot_at`

// countJobSQL stores the count. It also gives the lanes their buckets, unless a lane has begun to scan: a cursor is right
// only for the buckets that its lane has scanned. A lane has begun before the count if the database was restored to a moment
// before the count, and the lane went on after the restore.
const countJobSQL = `
WITH counted AS (
	UPDATE dlq.dlq_jobs
	SET matched = @matched, multi_target = @multi_target, target = @target, counted = true,
		reason = CASE WHEN state = 'RUNNING' THEN '' ELSE reason END, updated_at = clock_timestamp()
	WHERE id = @id AND NOT counted
	RETURNING id
)
UPDATE dlq.dlq_job_lanes l
SET first_bucket = b.first, last_bucket = b.last
FROM counted, unnest(@first_buckets::int[], @last_buckets::int[]) WITH ORDINALITY AS b (first, last, number)
WHERE l.job_id = counted.id AND l.lane = b.number - 1
	AND NOT EXISTS (SELECT FROM dlq.dlq_job_lanes o WHERE o.job_id = @id AND o.pages > 0)`

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
	scope, _, err := queryOne(ctx, s, "count job", pgx.RowToStructByPos[scopeRow], scopeSQL, args)
	if err != nil {
		return dlq.Job{}, err
	}
	args["upper_bound"], args["snapshot_at"] = scope.UpperBound, scope.SnapshotAt
	type part struct { // of a topic or of a bucket
		Topic    *string
		Bucket   *int
		Messages int64
	}
	var matched []part
	err = s.batch(ctx, "count job", func(batch *pgx.Batch) {
		batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
		batch.Queue(byIndexSQL) // the statistics may be older than the last bulk retry
		queueQuery(batch, &matched, pgx.RowToStructByPos[part], filtered(sql, &j.Spec.Filter), args)
	})
	total, targets, buckets := int64(0), map[string]bool{}, [dlq.Buckets]int64{}
	for _, m := range matched {
		if m.Bucket != nil {
			buckets[*m.Bucket] = m.Messages
			continue
		}
		total += m.Messages
		targets[s.targetOf(*m.Topic, j.Spec.TargetTopic)] = true
	}
	shares := dlq.ShareBuckets(&buckets, min(max(j.Lanes, 0), dlq.Buckets))
	var only *string
	for target := range targets {
		only = nilIf(target, len(targets) > 1 || target == "")
	}
	if err == nil {
		err = s.batch(ctx, "count job", func(batch *pgx.Batch) {
			batch.Queue(countJobSQL, pgx.NamedArgs{"id": args["id"], "matched": total, "multi_target": len(targets) > 1, "target": only,
				"first_buckets": column(shares, func(r *dlq.BucketRange) int { return r.First }),
				"last_buckets":  column(shares, func(r *dlq.BucketRange) int { return r.Last })})
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
	if spec.Within != "" {
		args["origin_expressions"], args["origin_replacements"] = s.topics.Origins()
	}
	args["skip_suspicious"] = !spec.IncludeSuspicious
	return args
}
