package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const archiveBatchSQL = `
WITH moved AS MATERIALIZED (
	SELECT dlq.archive_dlq_messages_batch(now() - @microseconds::bigint * interval '1 microsecond', @limit::int) AS messages
), counted AS (
	INSERT INTO dlq.dlq_archive_runs AS r (run_id, workflow_id, archived, retention)
	SELECT @run_id::text, @workflow_id, messages, @microseconds::bigint * interval '1 microsecond'
	FROM moved
	WHERE messages > 0 AND @run_id::text <> ''
	ON CONFLICT (run_id) DO UPDATE
	SET archived = r.archived + EXCLUDED.archived, retention = EXCLUDED.retention, updated_at = now()
)
SELECT messages FROM moved`

// ArchiveBatch moves at most limit messages that have been RESOLVED or DEAD for longer than olderThan into the
// archive, and returns how many. Zero means that nothing is left. ArchiveBatch adds the number to the counts of
// the run, if any; see RecordArchiveRuns.
func (s *Store) ArchiveBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, run, "archive messages", archiveBatchSQL, olderThan, limit)
}

const purgeBatchSQL = `
WITH chosen AS (
	SELECT id
	FROM dlq.dlq_messages_archive
	WHERE updated_at < now() - @microseconds::bigint * interval '1 microsecond'
	LIMIT @limit::int
	FOR UPDATE SKIP LOCKED
), changed AS (
	DELETE FROM dlq.dlq_messages_archive m USING chosen WHERE m.id = chosen.id RETURNING m.id, m.dlq_topic AS topic, m.seq
` + deleteRest + `), counted AS (
	INSERT INTO dlq.dlq_archive_runs AS r (run_id, workflow_id, purged, purge_after)
	SELECT @run_id::text, @workflow_id, count(*), @microseconds::bigint * interval '1 microsecond'
	FROM changed
	HAVING count(*) > 0 AND @run_id::text <> ''
	ON CONFLICT (run_id) DO UPDATE
	SET purged = r.purged + EXCLUDED.purged, purge_after = EXCLUDED.purge_after, updated_at = now()
)
SELECT count(*) FROM changed`

// PurgeBatch deletes at most limit archived messages that have not changed for longer than olderThan, with their
// bytes and attempts, and counts them like ArchiveBatch. Exhausted messages among them are not published any more.
func (s *Store) PurgeBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, run, "purge messages", purgeBatchSQL, olderThan, limit)
}

func (s *Store) moveBatch(ctx context.Context, run dlq.ArchiveRun, operation, sql string, olderThan time.Duration, limit int) (int64, error) {
	moved, _, err := queryOne(ctx, s, operation, pgx.RowTo[int64], sql, pgx.NamedArgs{"microseconds": olderThan.Microseconds(), "limit": limit,
		"run_id": run.RunID, "workflow_id": run.WorkflowID})
	return moved, err
}

// recordRunsSQL moves the counts of runs into the audit. The recorded subject is whoever asked for a run in the minute before
// the run began.
const recordRunsSQL = `
WITH ended AS (
	DELETE FROM dlq.dlq_archive_runs
	WHERE run_id = @run_id OR updated_at < now() - interval '2 minutes'
	RETURNING *
)
INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, reason, request_id, workflow_id, outcome, detail)
SELECT gen_random_uuid(), COALESCE(asked.subject, 'system'), COALESCE(asked.method, 'worker'), COALESCE(asked.address, ''), 'dlq:archive:run', '', 'archive',
	COALESCE(asked.reason, ''), COALESCE(asked.request_id, ended.run_id), ended.workflow_id, 'done',
	jsonb_build_object('archived', archived, 'retention_seconds', extract(epoch FROM retention)::bigint,
		'purged', purged, 'purge_after_seconds', extract(epoch FROM purge_after)::bigint, 'interrupted', run_id <> @run_id)
FROM ended
LEFT JOIN LATERAL (
	SELECT a.subject, a.method, a.address, a.reason, a.request_id
	FROM dlq.dlq_audit a
	WHERE a.action = 'dlq:archive:run' AND a.outcome = 'accepted' AND a.at BETWEEN ended.started_at - interval '1 minute' AND ended.started_at
	ORDER BY a.at DESC, a.id DESC
	LIMIT 1
) AS asked ON true
RETURNING id, at, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail`

// RecordArchiveRuns writes a row of the audit for the run, which has ended, and for every run that has had no
// batch for two minutes. If an interrupted run continues later, its further batches get another row.
func (s *Store) RecordArchiveRuns(ctx context.Context, runID string) error {
	recorded, err := queryAll(ctx, s, "record runs of the archive", scanOperation, recordRunsSQL, pgx.NamedArgs{"run_id": runID})
	for i := range recorded {
		s.recorded(&recorded[i])
	}
	return err
}
