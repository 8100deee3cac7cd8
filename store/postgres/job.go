package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// jobsSQL reads jobs with the sums of their lanes. The rate is computed since the oldest sample of the last ten seconds. For
// a job that started in the last ten seconds, the rate is computed since the start. Without such a sample or start, the rate
// is 0: no worker records samples, so no worker sends. A time in the future does not count: it was written by hand, or before
// the clock was set back. A running job shows the reason of one of its queues, preferably of a closed target. The closed
// queues are few, so the statement may sort them.
const jobsSQL = `
SELECT b.id, b.workflow_id, b.spec, b.rate_limit, b.state,
	CASE WHEN b.state = 'RUNNING' AND l.waiting > 0 THEN COALESCE(
		(SELECT q.reason FROM dlq.dlq_job_queues q WHERE q.job_id = b.id AND q.closed ORDER BY q.partition, q.topic LIMIT 1),
		(SELECT q.reason FROM dlq.dlq_job_queues q WHERE q.job_id = b.id ORDER BY q.lane DESC, q.due_at DESC LIMIT 1),
		b.reason) ELSE b.reason END,
	b.lanes, b.upper_bound, b.matched, NOT b.counted, b.multi_target,
	b.came_back, l.retried, l.failed, l.dead, b.changed, b.skipped + l.skipped, CASE WHEN b.ended_at IS NULL THEN l.waiting ELSE 0 END,
	COALESCE(greatest(l.retried::float8 + l.failed + l.dead + b.changed - s.sent, 0)
		/ greatest(extract(epoch FROM clock_timestamp() - s.at)::float8, 1), 0),
	b.started_at, greatest(b.updated_at, l.updated_at), b.ended_at
FROM dlq.dlq_jobs b
CROSS JOIN LATERAL (
	SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
		COALESCE(sum(dead), 0)::bigint AS dead, COALESCE(sum(skipped), 0)::bigint AS skipped,
		COALESCE(sum(waiting), 0)::bigint AS waiting, max(updated_at) AS updated_at
	FROM dlq.dlq_job_lanes_now
	WHERE job_id = b.id
) AS l
LEFT JOIN LATERAL (
	SELECT at, sent
	FROM (
		SELECT b.started_at AS at, 0 AS sent
		UNION ALL
		(SELECT at, retried::float8 + failed + dead + changed FROM dlq.dlq_job_samples
		WHERE job_id = b.id AND at <= clock_timestamp() ORDER BY tick DESC LIMIT 3)
	) AS known
	WHERE at BETWEEN clock_timestamp() - interval '10 seconds' AND clock_timestamp()
	ORDER BY at
	LIMIT 1
) AS s ON true
WHERE b.ended_at IS NULL /* condition */
ORDER BY b.started_at DESC, b.id DESC
LIMIT @limit`

// jobs reads the jobs that meet a condition on b, the newest first. With a nil limit it reads all of them. byIndexSQL also
// turns off the JIT, which would start because many jobs have a high estimated cost.
func (s *Store) jobs(ctx context.Context, operation, condition string, args pgx.NamedArgs) ([]dlq.Job, error) {
	return queryAll(ctx, s, operation, scanJob, jobsWith(condition), args, byIndexSQL)
}

func jobsWith(condition string) string {
	return strings.Replace(jobsSQL, "b.ended_at IS NULL /* condition */", condition, 1)
}

// decodeSpec refuses fields that this version does not know. A filter of another version would
// otherwise be ignored, and the job would take every message of the topic.
func decodeSpec(encoded []byte) (spec dlq.JobSpec, err error) {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&spec)
	if err == nil && (spec.Topic == "" && spec.Kind != dlq.KindRetry || len(spec.Kind.Statuses()) == 0) {
		err = errors.New("it has no topic or no known kind")
	}
	if err != nil {
		return dlq.JobSpec{}, fmt.Errorf("%w: %w", dlq.ErrSpecUnreadable, err)
	}
	return spec, nil
}

func scanJob(row pgx.CollectableRow) (dlq.Job, error) {
	var j dlq.Job
	var rate int
	var spec []byte
	err := row.Scan((*[16]byte)(&j.ID), &j.WorkflowID, &spec, &rate, (*string)(&j.State), &j.Reason, &j.Lanes, &j.UpperBound, &j.Matched,
		&j.Counting, &j.MultiTarget, &j.CameBack, &j.Counts.Retried, &j.Counts.Failed, &j.Counts.Dead, &j.Counts.Changed, &j.Counts.Skipped,
		&j.Waiting, &j.RecentPerSecond, instant{&j.StartedAt}, instant{&j.UpdatedAt}, optionalInstant{&j.EndedAt})
	if err != nil {
		return dlq.Job{}, err
	}
	if j.Spec, err = decodeSpec(spec); err != nil { // an unreadable row must not hide the other jobs
		j.Reason = err.Error()
	}
	j.Spec.RateLimit = rate // the specification has the limit of the request
	return j, nil
}

// checkReadable returns dlq.ErrSpecUnreadable when the specification of the job could not be decoded.
func checkReadable(j *dlq.Job) error {
	if j.Spec.Kind == "" {
		return fmt.Errorf("job %s: %w", j.ID, dlq.ErrSpecUnreadable)
	}
	return nil
}

// Job returns a job, or dlq.ErrNotFound.
func (s *Store) Job(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	return queryExisting(ctx, s, "read job", dlq.JobNotFound(id), scanJob, jobsWith("b.id = @id"), pgx.NamedArgs{"id": uuid(id), "limit": 1})
}

// Jobs returns a page of the jobs that a query selects, the newest first.
func (s *Store) Jobs(ctx context.Context, q dlq.JobQuery) (dlq.PageOf[dlq.Job], error) {
	size := max(q.PageSize, 0)
	args := pgx.NamedArgs{"limit": size + 1, "within": q.Within, "kinds": q.Kinds, "states": q.States, "topic": q.Topic, "actor": q.Actor,
		"from": q.From, "to": q.To, "limits": q.Limits, "dead_letter_topics": s.topics.Expression()}
	if q.After != nil {
		args["after_at"], args["after_id"] = timestamptz(q.After.At()), uuid(q.After.ID)
	}
	found, err := queryAll(ctx, s, "list jobs", scanJob, jobsWith("true"+jobConditions(&q)), args, inOrderSQL, byIndexSQL)
	return placed(found, size, (*dlq.Job).Place), err
}

// limitedJob is a condition on jobs for a caller who may see some topics. The job is on a dead-letter topic, or has one of
// the caller's access limits. A job on an original topic without a limit has the messages of all dead-letter topics.
const limitedJob = `(b.topic ~ @dead_letter_topics OR COALESCE(b.spec->>'within', '') = ANY (@limits::text[]))`

func jobConditions(q *dlq.JobQuery) string {
	var w where
	w.add(q.Within != "", "b.topic ~ @within")
	w.add(q.Within != "", limitedJob)
	w.add(len(q.Kinds) > 0, "b.spec->>'kind' = ANY (@kinds::text[])")
	w.add(len(q.States) > 0, "b.state = ANY (@states::text[])")
	w.add(q.Topic != "", "b.topic = @topic")
	w.add(!q.From.IsZero(), "b.started_at >= @from")
	w.add(!q.To.IsZero(), "b.started_at < @to")
	w.add(q.Actor != "", `EXISTS (SELECT FROM dlq.dlq_audit a
		WHERE a.target_id = b.id AND a.outcome = 'accepted' AND a.action = 'dlq:job:create' AND a.subject = @actor OFFSET 0)`)
	w.add(q.After != nil, "(b.started_at, b.id) < (@after_at::timestamptz, @after_id::uuid)")
	return string(w)
}

// RunningRetries returns every bulk retry that has not ended, the newest first.
func (s *Store) RunningRetries(ctx context.Context) ([]dlq.Job, error) {
	return s.jobs(ctx, "list running bulk retries", "b.ended_at IS NULL AND b.lanes > 0", pgx.NamedArgs{"limit": nil})
}
