package activities

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// ChangeReport is the content of a bulk change's heartbeat: the progress, for the Temporal
// Web UI. The next attempt continues at the position in the job's row.
type ChangeReport struct {
	Changed int64 `json:"changed"`
	Matched int64 `json:"matched"`
}

// After a batch that took less than fastBatch, the next batch may be twice as large and still ends well within its time.
// Batches shrink when messages are large or the database is slow. In this way they grow again.
const fastBatch = 300 * time.Millisecond

// explain records an error in the job's row, where operators see why the job does not continue.
func (a *Jobs) explain(ctx context.Context, id dlq.ID, cause error) {
	if ctx.Err() != nil {
		return
	}
	if err := a.Store.ExplainJob(ctx, id, cause); err != nil {
		logger(ctx, a.Log).Warn("could not record why a job does not continue", zap.Stringer("job_id", id),
			zap.Error(err), zap.NamedError("cause", cause))
	}
}

// ChangeMessages changes the messages of the job, batch by batch, until no message is left or the job is not running. It
// returns the job. Any number of attempts may run at once: each batch is a transaction that locks the job's row and
// continues at its cursor.
func (a *Jobs) ChangeMessages(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	job, err := a.Store.Job(ctx, id)
	if err != nil {
		return dlq.Job{}, toTemporal(err)
	}
	beat, stop := startHeartbeat(ctx, ChangeReport{Changed: job.Counts.Changed, Matched: job.Matched}, maxStepDuration)
	defer stop()
	limit := dlq.ChangeBatch
	for {
		if err := stopRequested(ctx); err != nil { // the job's row has the position and the counts
			return dlq.Job{}, err
		}
		began := time.Now()
		step, err := a.Store.Act(ctx, job, limit)
		if errors.Is(err, dlq.ErrSlow) && limit > 1 {
			limit /= 2
			beat.stepReturned(nil)
			continue
		}
		if err != nil {
			a.explain(ctx, id, err)
			return dlq.Job{}, toTemporal(err)
		}
		if time.Since(began) < fastBatch {
			limit = min(2*limit, dlq.ChangeBatch)
		}
		a.Metrics.changedBy(job.Spec.Kind, step.Changed)
		if step.Done || step.Stopped {
			return shown(a.Store.Job(ctx, id))
		}
		beat.stepReturned(func(r *ChangeReport) { r.Changed = step.Total })
	}
}
