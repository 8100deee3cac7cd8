package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// cameBack is the rule of dlq.Arrival.CameBack. The message c names m as its previous message, and m was delivered to t.
const cameBack = `(c.dlq_topic = m.dlq_topic OR NOT c.suspicious AND c.original_topic = COALESCE(t.topic, m.original_topic))`

// verdictOf tells whether the message m is verified. Its text is yes, no or unknown, with a reason after a space. A message
// that came back without our headers still names the partition and the offset of the delivery as its origin.
const verdictOf = `(
	SELECT CASE
		WHEN m.status <> 'RESOLVED' OR COALESCE(m.resolution, 'delivered') <> 'delivered' THEN ''
		WHEN EXISTS (SELECT FROM ` + everyMessage + ` AS c WHERE c.previous_id = m.id AND c.id <> ` + restoredID + ` AND ` + cameBack + `)
			OR EXISTS (SELECT FROM dlq.dlq_message_bodies o
				CROSS JOIN LATERAL (SELECT * FROM ` + everyMessage + ` AS c WHERE c.id = o.message_id LIMIT 1) AS c
				WHERE o.origin_offset = m.target_offset AND o.origin_partition = m.target_partition
					AND c.original_topic = t.topic AND c.seq > m.seq AND NOT c.suspicious AND NOT t.changed) THEN 'no came_back'
		WHEN t.id IS NULL THEN 'unknown no_target'
		WHEN t.topic LIKE 'http:%' THEN 'unknown http_target'
		WHEN t.topic_id IS NULL OR m.target_offset IS NULL OR m.target_partition IS NULL THEN 'unknown no_offset'
		WHEN t.changed THEN 'unknown topic_changed'
		WHEN b.origin_family = 'kafka-share-group' THEN 'unknown share_group'
		WHEN b.origin_family = 'spring-retryable-topic' THEN 'unknown retry_topics'
		WHEN g.name = '' THEN 'unknown no_group'
		WHEN w.committed_offset > m.target_offset THEN 'yes'
		WHEN COALESCE(f.since > t.watermark_at, true) THEN 'unknown not_read'
		WHEN f.error <> '' THEN 'unknown refused'
		WHEN w.committed_offset IS NULL
			AND NOT EXISTS (SELECT FROM dlq.dlq_watermarks o WHERE o.consumer_group = g.name AND o.target_id = m.target_id) THEN 'unknown group_gone'
		WHEN t.watermark_at < now() - interval '2 minutes' THEN 'unknown outdated'
		ELSE 'no'
	END
	FROM (SELECT) AS one
	LEFT JOIN dlq.dlq_targets t ON t.id = m.target_id
	LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
	CROSS JOIN LATERAL (SELECT COALESCE((
			SELECT c.name
			FROM unnest(@verify_expressions::text[], @verify_groups::text[]) WITH ORDINALITY AS c (expression, name, place)
			WHERE m.original_topic ~ c.expression
			ORDER BY c.place
			LIMIT 1), b.consumer_group, '') AS name) AS g
	LEFT JOIN dlq.dlq_watermark_groups f ON f.consumer_group = g.name
	LEFT JOIN dlq.dlq_watermarks w ON w.consumer_group = g.name AND w.target_id = m.target_id AND w.partition = m.target_partition
)`

const verdictMark = `''::text /* verdict */`

func withVerdict(sql string) string { return strings.ReplaceAll(sql, verdictMark, verdictOf) }

func verifyArgs(groups *dlq.VerifyGroups, args pgx.NamedArgs) pgx.NamedArgs {
	args["verify_expressions"], args["verify_groups"] = []string{}, []string{}
	if groups != nil {
		args["verify_expressions"], args["verify_groups"] = groups.Expressions, groups.Groups
	}
	return args
}

// verdictsSQL reads the verdicts of messages that may be archived.
const verdictsSQL = `
SELECT m.id, ''::text /* verdict */, COALESCE((SELECT t.topic FROM dlq.dlq_targets t WHERE t.id = m.target_id), '')
FROM unnest(@ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM ` + everyMessage + ` AS m WHERE m.id = wanted.id LIMIT 1) AS m
WHERE m.status = 'RESOLVED'`

// Verdicts returns whether messages are verified. Messages that were not delivered are absent.
func (s *Store) Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error) {
	verdicts := map[dlq.ID]dlq.Verdict{}
	if len(ids) == 0 {
		return verdicts, nil
	}
	type row struct {
		ID              [16]byte
		Verdict, Target string
	}
	rows, err := queryAll(ctx, s, "verify messages", pgx.RowToStructByPos[row], withVerdict(verdictsSQL),
		verifyArgs(s.VerifyGroups, pgx.NamedArgs{"ids": uuids(ids)}), byIndexSQL)
	for _, r := range rows {
		if r.Verdict != "" {
			verdicts[r.ID] = verdictFrom(r.Verdict, r.Target)
		}
	}
	return verdicts, err
}

func verdictFrom(text, target string) dlq.Verdict {
	verified, reason, _ := strings.Cut(text, " ")
	return dlq.Verdict{Verified: dlq.Verified(verified), Reason: dlq.VerifiedReason(reason), Target: target}
}

// verifyBulkSQL counts the newest messages that a job has delivered, by their verdicts.
const verifyBulkSQL = `
WITH job AS MATERIALIZED (
	SELECT id::text AS token, started_at, COALESCE(ended_at, 'infinity') AS ended_at FROM dlq.dlq_jobs WHERE id = @id
), delivered AS MATERIALIZED (
	SELECT m.*
	FROM job
	CROSS JOIN LATERAL (
		SELECT *
		FROM dlq.dlq_messages
		WHERE status = 'RESOLVED' AND updated_at >= job.started_at AND updated_at <= job.ended_at AND owner_token = job.token
		ORDER BY updated_at DESC
		LIMIT @limit
	) AS m
)
SELECT v.verdict, count(*)
FROM (SELECT ''::text /* verdict */ AS verdict FROM delivered m) AS v
WHERE v.verdict <> ''
GROUP BY v.verdict`

// VerifyJob counts up to dlq.VerificationLimit messages that a bulk retry has delivered.
func (s *Store) VerifyJob(ctx context.Context, id dlq.ID) (counts dlq.Verifications, err error) {
	type row struct {
		Verdict  string
		Messages int64
	}
	rows, err := queryAll(ctx, s, "verify bulk retry", pgx.RowToStructByPos[row], withVerdict(verifyBulkSQL),
		verifyArgs(s.VerifyGroups, pgx.NamedArgs{"id": uuid(id), "limit": dlq.VerificationLimit}), byIndexSQL)
	all := int64(0)
	for _, r := range rows {
		counts.Add(verdictFrom(r.Verdict, ""), r.Messages)
		all += r.Messages
	}
	counts.IsPartial = all >= dlq.VerificationLimit
	return counts, err
}

// leaseWatermarksSQL renews the lease of a holder, or takes an expired lease.
const leaseWatermarksSQL = `
INSERT INTO dlq.dlq_watermark_lease AS l (holder, epoch, expires_at)
VALUES (@holder::uuid, 1, now() + make_interval(secs => @seconds))
ON CONFLICT (only_row) DO UPDATE
SET epoch = CASE WHEN l.holder = EXCLUDED.holder THEN l.epoch ELSE l.epoch + 1 END,
	holder = EXCLUDED.holder, expires_at = EXCLUDED.expires_at
WHERE l.holder = EXCLUDED.holder OR l.expires_at < now()
RETURNING l.epoch`

// LeaseWatermarks makes the holder the only publisher of watermarks, the committed offsets of consumer groups, until
// the lease expires. taken is false while another process has the lease.
func (s *Store) LeaseWatermarks(ctx context.Context, holder dlq.ID, expiry time.Duration) (lease dlq.WatermarkLease, taken bool, err error) {
	lease.Holder = holder
	lease.Epoch, taken, err = queryOne(ctx, s, "lease watermarks", pgx.RowTo[int64], leaseWatermarksSQL,
		pgx.NamedArgs{"holder": uuid(holder), "seconds": expiry.Seconds()})
	return lease, taken, err
}

// watermarkGroupsSQL lists consumer groups whose failures are in dlq_groups: their scope is a consumer group.
const watermarkGroupsSQL = `
SELECT scope
FROM dlq.dlq_groups
WHERE scope <> dlq_topic
GROUP BY scope
ORDER BY max(first_seen) DESC
LIMIT 1000`

// watermarkTargetsSQL lists targets, each with the dead-letter topics into which its messages can come back: the
// topic that the messages were in, and the topics with messages whose original topic is the target.
const watermarkTargetsSQL = `
SELECT t.id, t.topic, t.topic_id, t.dlq_topic || COALESCE(c.dlq_topics, '{}')
FROM dlq.dlq_targets t
LEFT JOIN (
	SELECT original_topic, array_agg(DISTINCT dlq_topic::text) AS dlq_topics FROM dlq.dlq_topic_counts GROUP BY original_topic
) AS c ON c.original_topic = t.topic
WHERE t.topic_id IS NOT NULL`

// WatermarkScope returns the targets and the consumer groups to fetch: at most 1000 groups from failures, and the configured groups.
func (s *Store) WatermarkScope(ctx context.Context) (scope dlq.WatermarkScope, err error) {
	err = s.batch(ctx, "read scope of watermarks", func(batch *pgx.Batch) {
		queueQuery(batch, &scope.Groups, pgx.RowTo[string], watermarkGroupsSQL, pgx.NamedArgs{})
		queueQuery(batch, &scope.Targets, pgx.RowToStructByPos[dlq.WatermarkTarget], watermarkTargetsSQL, pgx.NamedArgs{})
	})
	if s.VerifyGroups != nil {
		scope.Groups = append(scope.Groups, s.VerifyGroups.Groups...)
	}
	return scope, err
}

// publishWatermarksSQL replaces the watermarks of some targets, unless another process has the
// lease. Offsets that stay the same are not written.
const publishWatermarksSQL = `
WITH lease AS MATERIALIZED (
	SELECT epoch FROM dlq.dlq_watermark_lease WHERE holder = @holder AND epoch = @epoch FOR UPDATE
), published AS MATERIALIZED (
	SELECT p.* FROM unnest(@published::int[], @ats::timestamptz[]) AS p (target_id, at), lease
), fetched AS MATERIALIZED (
	SELECT f.* FROM unnest(@fetched_groups::text[], @errors::text[]) AS f (consumer_group, error), lease
), committed AS MATERIALIZED (
	SELECT c.*
	FROM unnest(@groups::text[], @targets::int[], @partitions::int[], @offsets::bigint[]) AS c (consumer_group, target_id, partition, committed_offset), lease
), forgotten_groups AS (
	DELETE FROM dlq.dlq_watermark_groups g USING lease
	WHERE NOT EXISTS (SELECT FROM fetched f WHERE f.consumer_group = g.consumer_group)
), noted_groups AS (
	INSERT INTO dlq.dlq_watermark_groups AS g (consumer_group, error, since)
	SELECT consumer_group, error, @at FROM fetched
	ON CONFLICT (consumer_group) DO UPDATE SET error = EXCLUDED.error, since = least(g.since, EXCLUDED.since)
	WHERE g.error <> EXCLUDED.error OR g.since > EXCLUDED.since
), forgotten AS (
	DELETE FROM dlq.dlq_watermarks w USING published p
	WHERE w.target_id = p.target_id AND w.consumer_group <> ALL (@away::text[])
		AND NOT EXISTS (SELECT FROM committed c WHERE c.consumer_group = w.consumer_group AND c.target_id = w.target_id AND c.partition = w.partition)
), noted AS (
	INSERT INTO dlq.dlq_watermarks AS w (consumer_group, target_id, partition, committed_offset)
	SELECT consumer_group, target_id, partition, committed_offset FROM committed
	ON CONFLICT (consumer_group, target_id, partition) DO UPDATE SET committed_offset = EXCLUDED.committed_offset
	WHERE w.committed_offset <> EXCLUDED.committed_offset
), changed AS (
	UPDATE dlq.dlq_targets t SET changed = t.id = ANY (@changed::int[]), watermark_at = p.at
	FROM published p
	WHERE t.id = p.target_id AND NOT (t.changed AND t.id = ANY (@changed::int[]))
)
SELECT epoch FROM lease`

// PublishWatermarks replaces the watermarks of the targets. It fails with dlq.ErrFenced without the lease.
func (s *Store) PublishWatermarks(ctx context.Context, lease dlq.WatermarkLease, w *dlq.Watermarks) error {
	var groups, errs []string
	for group, err := range w.Groups {
		groups, errs = append(groups, group), append(errs, dlq.StorableText(err))
	}
	var targets []int32
	var ats []time.Time
	for target, at := range w.Targets {
		targets, ats = append(targets, target), append(ats, at)
	}
	_, held, err := queryOne(ctx, s, "publish watermarks", pgx.RowTo[int64], publishWatermarksSQL, pgx.NamedArgs{
		"holder": uuid(lease.Holder), "epoch": lease.Epoch, "at": w.At, "published": targets, "ats": ats,
		"fetched_groups": groups, "errors": errs, "changed": append([]int32{}, w.Changed...),
		"away":       append([]string{}, w.Away...),
		"groups":     column(w.Committed, func(c *dlq.Watermark) string { return c.Group }),
		"targets":    column(w.Committed, func(c *dlq.Watermark) int32 { return c.Target }),
		"partitions": column(w.Committed, func(c *dlq.Watermark) int32 { return c.Partition }),
		"offsets":    column(w.Committed, func(c *dlq.Watermark) int64 { return c.Offset }),
	})
	if err == nil && !held {
		return dlq.ErrFenced
	}
	return err
}
