package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// actSQL reads the next messages of a job, changes the messages that match, counts them and
// moves the cursor. Its CTEs in their order:
//
//   - job is empty unless the job is running. status is the status that the job reads now.
//   - read are the next messages of the topic in this status, the oldest first.
//   - locked are the messages of read that are in the scope, locked in the order of their ids, like
//     in every statement that locks several messages. So two such statements do not deadlock.
//     Conditions that no index supports, such as a text in errors, are in locked, not in read.
//     So a batch reads at most @look messages, even if few of them match.
//
// Then follows updateLocked, deleteLocked or restoreLocked, whose CTE changed has the changed messages. Last comes countAct.
const actSQL = `
WITH job AS MATERIALIZED (
	SELECT upper_bound, snapshot_at, (@statuses::text[])[statuses_done + 1] AS status,
		greatest(cursor_created_at, @from::timestamptz) AS cursor_created_at, cursor_seq
	FROM dlq.dlq_jobs
	WHERE id = @id AND state = 'RUNNING'
), read AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM job AS wanted
	CROSS JOIN LATERAL ` + nextOfTopic + `
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @look
), locked AS MATERIALIZED (
	SELECT m.id
	FROM read
	JOIN dlq.dlq_messages m ON m.id = read.id
	WHERE CASE WHEN m.status = (SELECT status FROM job) AND m.seq <= (SELECT upper_bound FROM job)
		AND m.updated_at <= (SELECT snapshot_at FROM job) AND true /* search */
		AND NOT (` + mayBeSent + `)
		THEN true ELSE false END
	ORDER BY m.id
	FOR UPDATE OF m /* or skip */
`

const countAct = `), counted AS MATERIALIZED (
	SELECT (SELECT count(*) FROM changed) AS changed,
		(SELECT count(*) FROM read) < @look AS is_last,
		(SELECT created_at FROM read ORDER BY created_at DESC, seq DESC LIMIT 1) AS created_at,
		(SELECT seq FROM read ORDER BY created_at DESC, seq DESC LIMIT 1) AS seq
)
UPDATE dlq.dlq_jobs a
SET changed = a.changed + c.changed,
	statuses_done = a.statuses_done + CASE WHEN c.is_last THEN 1 ELSE 0 END,
	cursor_created_at = CASE WHEN c.is_last THEN '-infinity' ELSE c.created_at END,
	cursor_seq = CASE WHEN c.is_last THEN -9223372036854775808 ELSE c.seq END,
	reason = '', updated_at = now()
FROM job, counted c
WHERE a.id = @id
RETURNING c.changed, a.changed, a.statuses_done >= COALESCE(cardinality(@statuses::text[]), 0), false`

// The parts after actSQL that change the locked messages. updateLocked revives them or marks them dead. A RETRYING
// message, which may be on its way, keeps its owner; see dlq.ReviveAfter.
const (
	updateLocked = `), changed AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE @kind WHEN 'revive' THEN 'PENDING' ELSE 'DEAD' END,
		resolution = CASE @kind WHEN 'revive' THEN NULL ELSE 'given_up' END,
		retry_count = CASE @kind WHEN 'revive' THEN 0 ELSE m.retry_count END, in_page = false,
		max_retries = CASE @kind WHEN 'revive' THEN greatest(m.max_retries, 1) ELSE m.max_retries END,
		workflow_id = CASE WHEN m.status = 'RETRYING' THEN m.workflow_id ELSE '' END,
		owner_token = CASE WHEN m.status = 'RETRYING' THEN m.owner_token ELSE '' END,
		updated_at = now()
	FROM locked
	WHERE m.id = locked.id
	RETURNING m.id, m.dlq_topic AS topic
`
	deleteLocked = `), changed AS (
	DELETE FROM dlq.dlq_messages m USING locked WHERE m.id = locked.id RETURNING m.id, m.dlq_topic AS topic, m.seq
` + deleteRest

	// deleteRest deletes the other rows of deleted messages.
	deleteRest = `), bodies AS (
	DELETE FROM dlq.dlq_message_bodies b USING changed WHERE b.message_id = changed.id
), attempts AS (
	DELETE FROM dlq.dlq_retry_attempts a USING changed WHERE a.message_id = changed.id
), outbox AS (
	DELETE FROM dlq.dlq_exhausted_outbox o USING changed c WHERE o.dlq_topic = c.topic AND o.seq = c.seq AND o.message_id = c.id
`
)

// mayBeSent is a condition on messages that are not revived, since they may still be on their way; see dlq.ReviveAfter.
const mayBeSent = `@kind = 'revive' AND COALESCE(
			m.resolution = 'given_up' AND m.owner_token <> '' AND m.updated_at > now() - @revive_after::interval, false)`

// searchMark is the mark in actSQL for conditions that no index supports. lockMark is the mark for the lock.
const (
	searchMark = "true /* search */"
	lockMark   = "FOR UPDATE OF m /* or skip */"
)

// afterCursor are the messages after the cursor of a job. @from and @until are the limits of created_at.
const afterCursor = `(m.created_at, m.seq) > (wanted.cursor_created_at, wanted.cursor_seq)
			AND (m.created_at, m.seq) < (@until::timestamptz, @until_seq::bigint)`

// A cancellation waits for the running batch, so a batch has little time. A batch of a single
// message has more time, and so has a batch of a key, which reads all messages of the key.
const (
	batchTime     = "1500" // in milliseconds
	longBatchTime = "8000" // less than callTimeout
)

const explainJobSQL = `
UPDATE dlq.dlq_jobs
SET reason = @reason, updated_at = now()
WHERE id = @id AND state = 'RUNNING'`

// ExplainJob records why a running job does not continue. The next batch that succeeds removes the reason. Only
// errors that the server sent are recorded word for word: other errors name hosts and users.
func (s *Store) ExplainJob(ctx context.Context, id dlq.ID, cause error) error {
	reason := dlq.ErrUnavailable.Error()
	_, isAnswer := errors.AsType[*pgconn.PgError](cause)
	if _, isConnecting := errors.AsType[*pgconn.ConnectError](cause); isAnswer && !isConnecting {
		reason = cause.Error()
	}
	return s.batch(ctx, "explain job", func(batch *pgx.Batch) {
		batch.Queue(explainJobSQL, pgx.NamedArgs{"id": uuid(id), "reason": dlq.StorableText(reason)})
	})
}

// Act runs the next batch of a bulk change, in a transaction. The batch reads at most limit messages, or ten times as many if
// the filter names a record key. Act needs the fields ID and Spec of the job. The position is in the job's row. Of two calls
// for the same job, the second call waits for the first.
//
// A message that another transaction has locked for a second is skipped. The error is dlq.ErrBlocked when the
// row of the job is locked for a second, dlq.ErrSlow when the batch took too long and was undone, or
// dlq.ErrSpecUnreadable.
func (s *Store) Act(ctx context.Context, job dlq.Job, limit int) (dlq.ChangeStep, error) {
	if err := checkReadable(&job); err != nil {
		return dlq.ChangeStep{}, err
	}
	if job.Spec.Kind == dlq.KindRetry {
		return dlq.ChangeStep{}, fmt.Errorf("store: job %s is a bulk retry, which changes no messages in batches", job.ID)
	}
	step, hadJob, err := s.act(ctx, &job, limit, false)
	if hadJob && errors.Is(err, dlq.ErrBlocked) {
		step, _, err = s.act(ctx, &job, limit, true)
	}
	return step, err
}

// act reports in hadJob, even with an error, whether it had locked the row of the job.
func (s *Store) act(ctx context.Context, job *dlq.Job, limit int, skipLocked bool) (step dlq.ChangeStep, hadJob bool, err error) {
	sql, args := actOf(job, limit)
	if skipLocked {
		sql = strings.Replace(sql, lockMark, "FOR UPDATE OF m SKIP LOCKED", 1)
	}
	var steps []dlq.ChangeStep
	err = s.batch(ctx, "change messages", func(batch *pgx.Batch) {
		hadJob = false
		batch.Queue(batchPlanSQL)
		batch.Queue(batchTimeSQL, args)
		batch.Queue(lockJobSQL, args).Exec(func(pgconn.CommandTag) error { hadJob = true; return nil })
		if job.Spec.Archived {
			batch.Queue(beforeCopySQL, pgx.NamedArgs{"lock": ingestLock})
		}
		queueQuery(batch, &steps, pgx.RowToStructByPos[dlq.ChangeStep], sql, args)
	})
	if err != nil {
		return dlq.ChangeStep{}, hadJob, err
	}
	if len(steps) == 0 {
		return dlq.ChangeStep{Stopped: true}, hadJob, nil
	}
	return steps[0], hadJob, nil
}

// actOf is the statement of a job with its parameters. Ids and a key in the filter decide where the
// messages are read from. The filter's limits of created_at become the range of the index.
func actOf(job *dlq.Job, limit int) (sql string, args pgx.NamedArgs) {
	f := job.Spec.Filter
	args = changeArgs(&job.Spec)
	args["id"], args["kind"], args["look"], args["batch_time"] = uuid(job.ID), job.Spec.Kind, limit, batchTime
	args["revive_after"] = dlq.ReviveAfter
	args["from"], args["until"], args["until_seq"] = timestamptz(startOfTime), timestamptz(endOfTime), int64(math.MaxInt64)
	if limit <= 1 {
		args["batch_time"] = longBatchTime
	}
	if f.IsLookup() && len(f.IDs) == 0 {
		args["look"], args["batch_time"] = 10*limit, longBatchTime // each batch reads all messages of the key
	}
	if !f.CreatedFrom.IsZero() {
		args["from"] = f.CreatedFrom
	}
	if !f.CreatedTo.IsZero() {
		args["until"], args["until_seq"] = f.CreatedTo, int64(math.MinInt64)
	}
	f.CreatedFrom, f.CreatedTo = time.Time{}, time.Time{}
	change, uses := updateLocked, dlq.InOrder|dlq.ByBody|dlq.ByMessage
	switch {
	case f.Archived: // the archive has fewer indexes
		change, uses = restoreLocked, dlq.InOrder|dlq.ByBody
	case job.Spec.Kind == dlq.KindDelete:
		change = deleteLocked
	}
	read, rest := f.Split(uses)
	if f.Archived {
		read.Within, rest.Within = "", f.Within
	}
	sql = strings.NewReplacer(afterMark, afterCursor, descMark, "", searchMark, "true"+conditions(&rest)).Replace(filtered(actSQL, &read))
	return sql + change + countAct, args
}
