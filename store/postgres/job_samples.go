package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// addJobSampleSQL adds a sample, unless another worker has added the same sample. Then it thins out the older samples. The
// newest samples stay for the rate of the job.
const addJobSampleSQL = `
WITH added AS (
	INSERT INTO dlq.dlq_job_samples (job_id, tick, at, retried, failed, dead, changed, skipped)
	SELECT b.id, @tick, @at, @retried, @failed, @dead, @changed, @skipped
	FROM dlq.dlq_jobs b
	WHERE b.id = @id AND b.ended_at IS NULL
	ON CONFLICT (job_id, tick) DO NOTHING
	RETURNING job_id
)
DELETE FROM dlq.dlq_job_samples s
USING added
WHERE s.job_id = added.job_id AND s.tick % @step <> 0 AND s.tick <= @tick - 3`

// SampleJobs records a sample of every running job, unless a worker has just recorded the sample. Every call handles
// the jobs in the same order, so concurrent calls do not deadlock.
func (s *Store) SampleJobs(ctx context.Context) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	running, err := s.jobs(ctx, "read counts of running jobs", "b.ended_at IS NULL", pgx.NamedArgs{"limit": nil})
	if err != nil || len(running) == 0 {
		return err
	}
	return s.batch(ctx, "note counts of running jobs", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		for _, j := range running {
			tick, step := dlq.SampleTick(now.Sub(j.StartedAt))
			c := &j.Counts
			batch.Queue(addJobSampleSQL, pgx.NamedArgs{"id": uuid(j.ID), "tick": tick, "step": step, "at": now,
				"retried": c.Retried, "failed": c.Failed, "dead": c.Dead, "changed": c.Changed, "skipped": c.Skipped})
		}
	})
}

const jobSamplesSQL = `
SELECT at, retried, failed, dead, changed, skipped
FROM dlq.dlq_job_samples
WHERE job_id = @id
ORDER BY at, tick`

// JobSamples returns the samples of a job in the order of time; none if there is no such job.
func (s *Store) JobSamples(ctx context.Context, id dlq.ID) ([]dlq.JobSample, error) {
	return queryAll(ctx, s, "read samples of job", func(row pgx.CollectableRow) (sample dlq.JobSample, err error) {
		c := &sample.Counts
		err = row.Scan(instant{&sample.At}, &c.Retried, &c.Failed, &c.Dead, &c.Changed, &c.Skipped)
		return sample, err
	}, jobSamplesSQL, pgx.NamedArgs{"id": uuid(id)})
}
