package postgres

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// previewSQL counts the scope in one pass. It groups messages by all columns that decide whether a message is
// sent. So patterns of topics are matched once for each combination of these columns. @changed has the statuses
// of the messages that a job changes, and is NULL for a bulk retry. Only the most frequent error classes, targets
// and groups are returned.
const previewSQL = `
WITH message_group AS MATERIALIZED (
	SELECT status, exhausted, suspicious, in_reach, error_class, dlq_topic, original_topic, group_id, count(*) AS n,
		bit_xor(uuid_hash_extended(id, 0)) AS digest
	FROM (
		SELECT m.id, m.status, m.retry_count >= m.max_retries AS exhausted, m.suspicious, true /* reach */ AS in_reach,
			m.error_class, m.dlq_topic, m.original_topic, m.group_id
		FROM ` + ofTopicInAnyOrder + `
		WHERE m.seq <= @upper_bound AND m.updated_at <= @snapshot_at
	) AS scope
	GROUP BY status, exhausted, suspicious, in_reach, error_class, dlq_topic, original_topic, group_id
), with_reason AS (
	SELECT m.*, CASE
		WHEN m.status = ANY (@changed::text[]) THEN ''
		WHEN @changed::text[] IS NOT NULL THEN m.status
		WHEN m.status = 'RESOLVED' THEN @resolved
		WHEN m.status = 'DEAD' THEN @dead
		WHEN m.status = 'RETRYING' THEN @retrying
		WHEN m.exhausted THEN @exhausted
		WHEN m.original_topic = '' OR m.original_topic = m.dlq_topic OR m.original_topic ~ @dead_letter_topics THEN @no_origin
		WHEN NOT m.in_reach THEN @foreign
		WHEN m.suspicious AND @skip_suspicious::bool THEN @suspicious
		ELSE '' END AS reason
	FROM message_group m
), counted AS (
	SELECT CASE WHEN GROUPING(status) = 0 THEN 'status' WHEN GROUPING(error_class) = 0 THEN 'class'
		WHEN GROUPING(original_topic) = 0 THEN 'target' ELSE 'group' END AS kind,
		COALESCE(status, error_class, original_topic, group_id::text, '') AS name, group_id, reason, sum(n)::bigint AS n, bit_xor(digest) AS digest
	FROM with_reason
	GROUP BY GROUPING SETS ((status, reason), (error_class, reason), (original_topic, reason), (group_id, reason))
), ranked AS (
	SELECT *, row_number() OVER (PARTITION BY kind ORDER BY n DESC, name) AS rank, count(*) OVER (PARTITION BY kind) AS names
	FROM counted
	WHERE kind = 'status' OR reason = ''
)
SELECT r.kind, r.name, r.reason, r.n, r.digest, r.names, r.group_id, COALESCE(g.version, 0), COALESCE(g.scope, ''), COALESCE(g.rule, ''),
	COALESCE(g.class, ''), COALESCE(g.frame, ''), COALESCE(g.message, '')
FROM ranked r
LEFT JOIN dlq.dlq_groups g ON g.id = r.group_id
WHERE r.kind = 'status' OR r.rank <= @rows::int
ORDER BY r.n DESC, CASE WHEN r.kind = 'status' THEN r.reason ELSE r.name END`

// previewChangesSQL is previewSQL for a job that changes messages. It groups only by the columns that decide about a change:
// to read and compare the other columns would take ten times as long.
var previewChangesSQL = strings.NewReplacer(
	reachMark, "true",
	"SELECT status, exhausted, suspicious, in_reach, error_class, dlq_topic, original_topic, group_id,",
	"SELECT status, false AS exhausted, false AS suspicious, true AS in_reach, ''::text AS error_class, ''::text AS dlq_topic, "+
		"''::text AS original_topic, group_id,",
	"GROUP BY status, exhausted, suspicious, in_reach, error_class, dlq_topic, original_topic, group_id", "GROUP BY status, group_id",
).Replace(previewSQL)

// sampleSQL reads the first messages that would be sent.
const sampleSQL = `
SELECT` + listedColumns + `
FROM (
	SELECT id, seq
	FROM (
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic` + sendableInScope + `)
		UNION ALL
		(SELECT m.id, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic` + sendableInScope + `)
	) AS sendable
	ORDER BY seq
	LIMIT 10
) AS sample
JOIN dlq.dlq_messages m ON m.id = sample.id` + withPayload + `
ORDER BY sample.seq`

const sendableInScope = ` AND` + sendable + `
		AND m.original_topic !~ @dead_letter_topics
		ORDER BY m.seq
		LIMIT 10`

var _ = [1]struct{}{}[dlq.PreviewSample-10]

// PreviewJob returns the effect of a job that would start now, and the scope of the job. It reads the whole
// scope, until ctx ends. The error is dlq.ErrUnavailable when ingest does not release its lock in time.
func (s *Store) PreviewJob(ctx context.Context, spec dlq.JobSpec) (dlq.JobPreview, error) {
	scope, err := s.snapshot(ctx, spec.Storable().Topic)
	if err != nil {
		return dlq.JobPreview{}, wrap("preview job", err)
	}
	return s.PreviewScope(ctx, spec, *scope)
}

// PreviewScope is PreviewJob with a scope that was fixed before. It reads everything in one snapshot of the database.
func (s *Store) PreviewScope(ctx context.Context, spec dlq.JobSpec, scope dlq.Scope) (preview dlq.JobPreview, err error) {
	spec = spec.Storable()
	sql, args := s.previewOf(&spec, scope)
	if spec.Kind == dlq.KindRetry {
		preview, err = s.preview(ctx, sql, args, true, filtered(sampleSQL, &spec.Filter), args)
	} else {
		sample := dlq.ListQuery{Filter: spec.Filter, PageSize: dlq.PreviewSample, OldestFirst: true}
		sample.Statuses = spec.ChangedStatuses()
		sampleArgs := listArgs(&sample)
		sampleArgs["limit"], sampleArgs["statuses"] = dlq.PreviewSample, sample.Statuses
		preview, err = s.preview(ctx, sql, args, !sample.IsLookup(), listed(listSQL, &sample), sampleArgs)
		preview.SkipReasons, preview.ByErrorClass, preview.ByTarget = nil, nil, nil // ByStatus has the reasons, and nothing is sent
	}
	preview.Scope = scope
	return preview, err
}

// previewOf is the statement that counts the scope of a job.
func (s *Store) previewOf(spec *dlq.JobSpec, scope dlq.Scope) (string, pgx.NamedArgs) {
	args := s.bulkArgs(spec)
	args["upper_bound"], args["snapshot_at"] = scope.UpperBound, timestamptz(scope.SnapshotAt)
	args["resolved"], args["dead"], args["retrying"] = dlq.SkipResolved, dlq.SkipDead, dlq.SkipRetrying
	args["exhausted"], args["no_origin"], args["suspicious"], args["foreign"] = dlq.SkipExhausted, dlq.SkipNoOrigin, dlq.SkipSuspicious, dlq.SkipForeign
	args["rows"], args["changed"], args["inlined"] = dlq.PreviewRows, nil, inlinedRecord
	if spec.Kind == dlq.KindRetry {
		return filtered(previewSQL, &spec.Filter), args
	}
	args["changed"] = spec.ChangedStatuses()
	return filtered(previewChangesSQL, &spec.Filter), args
}

// preview reads the counts and the sample in one snapshot. With inOrder, an index with the order of the sample is used. Messages
// of a key are found by another index.
func (s *Store) preview(ctx context.Context, sql string, args pgx.NamedArgs, inOrder bool,
	sampleSQL string, sampleArgs pgx.NamedArgs) (dlq.JobPreview, error) {
	preview := dlq.JobPreview{ByStatus: map[dlq.Status]int64{}}
	batch := &pgx.Batch{}
	batch.Queue(timeLimitSQL, pgx.NamedArgs{"milliseconds": timeLimit(ctx)})
	batch.Queue(sql, args).Query(func(rows pgx.Rows) error { return collectPreview(rows, &preview) })
	if inOrder {
		batch.Queue(inOrderSQL)
	}
	queueQuery(batch, &preview.Sample, scanListed, sampleSQL, sampleArgs)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return dlq.JobPreview{}, wrap("preview job", err)
	}
	return preview, nil
}

func collectPreview(rows pgx.Rows, preview *dlq.JobPreview) error {
	var kind, name, reason string
	var n, digest, names int64
	var group dlq.PreviewGroup // its id is NULL for messages in no group
	f := &group.Fingerprint
	targets := []any{&kind, &name, &reason, &n, &digest, &names,
		(*zeronull.UUID)(&group.ID), &f.Version, &f.Scope, (*string)(&f.Rule), &f.Class, &f.Frame, &f.Message}
	_, err := pgx.ForEachRow(rows, targets, func() error {
		switch kind {
		case "status":
			preview.ByStatus[dlq.Status(name)] += n
			if reason == "" {
				preview.Matched += n
				preview.Digest ^= digest
				break
			}
			preview.Skipped += n
			preview.SkipReasons = append(preview.SkipReasons, dlq.PreviewCount{Name: reason, Count: n})
		case "class":
			preview.ByErrorClass = append(preview.ByErrorClass, dlq.PreviewCount{Name: cmp.Or(name, dlq.NoErrorClass), Count: n})
		case "target":
			preview.ByTarget = append(preview.ByTarget, dlq.PreviewCount{Name: name, Count: n})
		default:
			group.Count = n
			preview.ByGroup = append(preview.ByGroup, group)
			preview.Groups = names
		}
		return nil
	})
	return err
}
