package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// lockJobSQL locks the row of a job. Every transaction locks this row before the rows of the job's lanes. A claim
// locks messages last, and waits only for messages that were locked after they were listed. A finalize locks
// messages first. FOR NO KEY UPDATE lets other lanes insert queues, whose foreign key refers to the job.
const lockJobSQL = `SELECT FROM dlq.dlq_jobs WHERE id = @id FOR NO KEY UPDATE`

const setStateSQL = `
WITH changed AS (
	UPDATE dlq.dlq_jobs
	SET state = @state, reason = @reason, updated_at = now()
	WHERE id = @id AND state = ANY (@from::text[]) AND (state, reason) <> (@state, @reason::text)
	RETURNING id, topic
) /* audit */
SELECT id, topic FROM changed`

// change runs a statement that may change a job. It returns the job, changed or not, or dlq.ErrNotFound.
func (s *Store) change(ctx context.Context, asked *dlq.Operation, operation, sql string, id dlq.ID, args pgx.NamedArgs) (dlq.Job, error) {
	type row struct {
		ID    [16]byte
		Topic string
	}
	args["id"] = uuid(id)
	sql, changed := s.audited(asked, dlq.TargetJob, sql, args)
	job, found, err := queryOne(ctx, s, operation, pgx.RowToStructByPos[row], sql, args)
	if err != nil {
		return dlq.Job{}, err
	}
	if found {
		changed(job.ID, job.Topic)
	}
	return s.Job(ctx, id)
}

func (s *Store) setState(ctx context.Context, asked *dlq.Operation, operation string, id dlq.ID, state dlq.JobState, reason string,
	from ...dlq.JobState) (dlq.Job, error) {
	return s.change(ctx, asked, operation, setStateSQL, id, pgx.NamedArgs{"state": state, "reason": dlq.StorableText(reason), "from": from})
}

// StopJob stops the claims and changes of a job, and does not wait for claimed pages. With JobPausing the job can
// be resumed later. With JobCancelling the job cannot be resumed. A job that is already in a later state does not
// change. The result is the job, or dlq.ErrNotFound.
func (s *Store) StopJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error) {
	from := []dlq.JobState{dlq.JobRunning, dlq.JobPausing}
	if state == dlq.JobCancelling {
		from = append(from, dlq.JobPaused, dlq.JobCancelling)
	}
	return s.setState(ctx, asked, "stop job", id, state, reason, from...)
}

// claimedLanesSQL finds the lanes with a page. It locks the lanes, and so waits for claims that began before the job was stopped.
const claimedLanesSQL = `
WITH lane AS MATERIALIZED (
	SELECT locked.lane, locked.page
	FROM dlq.dlq_jobs b
	CROSS JOIN generate_series(0, least(greatest(b.lanes, 0), 1024) - 1) AS n
	CROSS JOIN LATERAL (
		SELECT l.lane, l.page
		FROM dlq.dlq_job_lanes l
		WHERE l.job_id = @job AND l.lane = n
		ORDER BY l.pages DESC
		LIMIT 1
		FOR UPDATE
	) AS locked
	WHERE b.id = @job
)
SELECT lane FROM lane WHERE page <> '{}' ORDER BY lane`

// releasePages puts the pages that interrupted attempts left behind into queues. A resumed job claims from these
// queues. Nothing can be claimed meanwhile, so no page is left afterwards.
func (s *Store) releasePages(ctx context.Context, id dlq.ID) error {
	for {
		lanes, err := queryAll(ctx, s, "find claimed pages", pgx.RowTo[int], claimedLanesSQL, pgx.NamedArgs{"job": uuid(id)}, lanePlanSQL)
		if err != nil || len(lanes) == 0 {
			return err
		}
		for _, number := range lanes {
			lane, err := s.openLane(ctx, id, number, nil, nil)
			if err == nil || errors.Is(err, dlq.ErrSpecUnreadable) {
				err = s.ReleasePage(ctx, lane)
			}
			// ErrFenced means that a newer attempt has opened the lane. The next round fences that attempt.
			if err != nil && !errors.Is(err, dlq.ErrFenced) {
				return err
			}
		}
	}
}

const clearPageSQL = `
UPDATE dlq.dlq_job_lanes l SET page = '{}' WHERE ` + rowOfLane + ` AND l.epoch = @epoch`

// ReleasePage puts the messages that the lane has claimed and not finalized into a queue, which is
// due at once. Their retries are not counted. The errors are the errors of FinalizePage.
func (s *Store) ReleasePage(ctx context.Context, lane dlq.Lane) error {
	for {
		claim, err := s.ClaimedPage(ctx, lane, dlq.PageBytes)
		if err != nil {
			return err
		}
		if len(claim.Page) == 0 {
			break
		}
		if _, err = s.FinalizePage(ctx, lane, dlq.RequeuePage(claim.Page)); err != nil {
			return err
		}
	}
	return s.batch(ctx, "clear page", func(batch *pgx.Batch) { batch.Queue(clearPageSQL, s.laneArgs(&lane)) })
}

// PauseJob pauses a running bulk retry. Nothing more is claimed, and the claimed messages go into queues. For a
// job that is paused already, PauseJob only replaces the reason. A job that is being cancelled or has ended does
// not change. The result is the bulk retry, or dlq.ErrNotFound.
func (s *Store) PauseJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, reason string) (dlq.Job, error) {
	stopped, err := s.StopJob(ctx, nil, id, dlq.JobPausing, reason)
	if err != nil || stopped.State != dlq.JobPausing && stopped.State != dlq.JobPaused {
		return stopped, err
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.Job{}, err
	}
	return s.setState(ctx, asked, "pause bulk retry", id, dlq.JobPaused, reason, dlq.JobPausing, dlq.JobPaused)
}

const closedTargetSQL = `SELECT EXISTS (SELECT FROM dlq.dlq_job_queues WHERE job_id = @job AND closed)`

// HasClosedTarget tells whether a target refused messages of the bulk retry, and has not been found open since.
func (s *Store) HasClosedTarget(ctx context.Context, id dlq.ID) (bool, error) {
	has, _, err := queryOne(ctx, s, "find closed target", pgx.RowTo[bool], closedTargetSQL, pgx.NamedArgs{"job": uuid(id)})
	return has, err
}

// resumeBulkSQL resumes a job. The queues of closed targets become due, since the operator may have repaired the targets.
const resumeBulkSQL = `
WITH changed AS (
	UPDATE dlq.dlq_jobs
	SET state = 'RUNNING', reason = '', updated_at = now(), next_at = clock_timestamp()
	WHERE id = @id AND state IN ('PAUSING', 'PAUSED')
	RETURNING id, topic
), due AS (
	UPDATE dlq.dlq_job_queues q
	SET due_at = least(q.due_at, now())
	FROM changed
	WHERE q.job_id = changed.id AND q.lane = -1
) /* audit */
SELECT id, topic FROM changed`

// ResumeJob continues a bulk retry that is paused or pausing. A job in another state does
// not change. The result is the bulk retry, or dlq.ErrNotFound.
func (s *Store) ResumeJob(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Job, error) {
	return s.change(ctx, asked, "resume bulk retry", resumeBulkSQL, id, pgx.NamedArgs{})
}

// endJobSQL ends a job, and records the end in the audit. The recorded subject is whoever ended the job, or else its creator.
const endJobSQL = `
WITH ended AS (
	UPDATE dlq.dlq_jobs b
	SET state = @state, reason = @reason, ended_at = now(), updated_at = now(), counted = true,
		matched = greatest(b.matched, l.done + b.changed), skipped = greatest(b.matched - l.done - b.changed, 0)
	FROM (
		SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
			COALESCE(sum(dead), 0)::bigint AS dead, COALESCE(sum(skipped), 0)::bigint AS skipped,
			COALESCE(sum(retried + failed + dead + skipped), 0)::bigint AS done
		FROM dlq.dlq_job_lanes_now
		WHERE job_id = @id
	) AS l
	WHERE b.id = @id AND b.ended_at IS NULL
	RETURNING b.id, b.topic, b.workflow_id, jsonb_build_object('state', b.state, 'reason', b.reason, 'matched', b.matched,
		'skipped', b.skipped + l.skipped) || CASE WHEN b.lanes > 0
		THEN jsonb_build_object('retried', l.retried, 'failed', l.failed, 'dead', l.dead)
		ELSE jsonb_build_object('changed', b.changed) END AS counts
), asked AS (
	SELECT o.subject, o.method, o.address, o.action, o.topic, o.reason, o.request_id
	FROM jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb) AS o
	WHERE @operation::jsonb IS NOT NULL
	UNION ALL
	(SELECT a.subject, a.method, a.address, a.action, a.topic, a.reason, a.request_id
	FROM dlq.dlq_audit a
	WHERE @operation::jsonb IS NULL AND a.target_id = @id AND a.outcome = 'accepted' AND a.action = 'dlq:job:create'
	ORDER BY a.at, a.id
	LIMIT 1)
)
INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
SELECT @operation_id::uuid, asked.subject, asked.method, asked.address, asked.action, COALESCE(NULLIF(asked.topic, ''), ended.topic),
	'job', ended.id, asked.reason, asked.request_id, ended.workflow_id, @outcome, ended.counts
FROM ended
CROSS JOIN asked
RETURNING id, at, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail`

// EndJob ends a job that has not ended yet. Nothing more is claimed, and the claimed messages are PENDING again.
// Matched messages that were neither sent nor changed are counted as skipped. If the job ends before its messages
// are counted, only the finished messages count as matched. The result is the job, or dlq.ErrNotFound.
func (s *Store) EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error) {
	if !state.IsFinal() {
		return dlq.Job{}, fmt.Errorf("store: end job %s: %s is not an end", id, state)
	}
	// A completed job has nothing left to claim, so its claims need not be stopped.
	if state != dlq.JobCompleted {
		if _, err := s.StopJob(ctx, nil, id, dlq.JobCancelling, reason); err != nil {
			return dlq.Job{}, err
		}
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.Job{}, err
	}
	err := s.endJob(ctx, asked, id, state, reason)
	if err == nil {
		err = s.deleteQueues(ctx, id)
	}
	if err != nil {
		return dlq.Job{}, err
	}
	return s.Job(ctx, id)
}

// endJob locks the job's row, and ends the job.
func (s *Store) endJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) error {
	args := pgx.NamedArgs{"id": uuid(id), "job": uuid(id), "state": state, "reason": dlq.StorableText(reason),
		"operation": nil, "operation_id": uuid(dlq.NewID()), "outcome": dlq.OutcomeOf(state)}
	if asked != nil {
		args["operation"] = asked.Storable()
	}
	var recorded []dlq.Operation
	err := s.batch(ctx, "end job", func(batch *pgx.Batch) {
		batch.Queue(lockJobSQL, args)
		queueQuery(batch, &recorded, scanOperation, endJobSQL, args)
	})
	if err == nil && len(recorded) > 0 {
		s.recorded(&recorded[0])
	}
	return err
}

// The queues and blocked keys of a job that has ended are deleted in bounded steps,
// because there may be many.
const (
	deleteWaitingSQL = `
DELETE FROM dlq.dlq_job_waiting
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_job_waiting WHERE job_id = @id LIMIT 10000))`

	deleteBlockedSQL = `
DELETE FROM dlq.dlq_job_blocked_keys
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_job_blocked_keys WHERE job_id = @id LIMIT 10000))`

	deleteQueuesSQL = `
DELETE FROM dlq.dlq_job_queues
WHERE id = ANY (ARRAY(SELECT id FROM dlq.dlq_job_queues WHERE job_id = @id LIMIT 10000))`
)

func (s *Store) deleteQueues(ctx context.Context, id dlq.ID) error {
	for _, sql := range []string{deleteWaitingSQL, deleteBlockedSQL, deleteQueuesSQL} {
		for deleted := int64(1); deleted > 0; {
			err := s.batch(ctx, "delete queues of bulk retry", func(batch *pgx.Batch) {
				batch.Queue(byIndexSQL)
				batch.Queue(sql, pgx.NamedArgs{"id": uuid(id)}).Exec(func(tag pgconn.CommandTag) error {
					deleted = tag.RowsAffected()
					return nil
				})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
