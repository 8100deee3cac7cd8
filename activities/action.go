package activities

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// ActionStore has the methods of the store that a bulk action calls.
type ActionStore interface {
	Action(ctx context.Context, id dlq.ID) (dlq.BulkAction, error)
	// CountAction counts the messages in the scope, which may take long. A second call
	// changes nothing. The error is dlq.ErrNotFound for an unknown job.
	CountAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error)
	// Act reads the next messages of the job, at most limit, changes them, counts them and
	// moves its cursor, in a transaction. Act changes nothing unless the job is running. The
	// error is dlq.ErrSlow when fewer messages may be fast enough.
	Act(ctx context.Context, job dlq.BulkAction, limit int) (dlq.ActionStep, error)
	// ExplainAction records why the job does not continue, until a batch succeeds.
	ExplainAction(ctx context.Context, id dlq.ID, cause error) error
	// EndAction closes the job. Act changes nothing afterwards.
	EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error)
	AuditReader
}

// Action holds the steps of a bulk action.
type Action struct {
	Store   ActionStore
	Metrics *Metrics
	Log     *zap.Logger
}

// BeginAction counts the scope of the job, until a cancellation.
func (a *Action) BeginAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	_, stop := startHeartbeat(ctx, ActionReport{}, CountTimeout)
	defer stop()
	job, err := a.Store.CountAction(ctx, id)
	if err != nil {
		a.explain(ctx, id, err)
		return dlq.BulkAction{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("bulk action started", zap.Stringer("bulk_action_id", id), zap.String("action", string(job.Spec.Action)),
		zap.String("topic", job.Spec.Topic), zap.String("reason", job.Spec.Reason), zap.Int64("matched", job.Matched))
	return shownAction(job, nil)
}

// shownAction is the job as in histories.
func shownAction(job dlq.BulkAction, err error) (dlq.BulkAction, error) {
	job.Spec.Filter = forHistory(job.Spec.Filter)
	return job, toTemporal(err)
}

// ActionReport is the content of a bulk action's heartbeat: the progress, for the Temporal
// Web UI. The next attempt continues at the position in the job's row.
type ActionReport struct {
	Changed int64 `json:"changed"`
	Matched int64 `json:"matched"`
}

// fastBatch is the duration of a batch below which twice as many messages take well below the
// time that a batch has. So batches that shrank, because messages are large or the database is
// slow, grow again.
const fastBatch = 300 * time.Millisecond

// explain shows an error that Temporal is going to repeat at the job.
func (a *Action) explain(ctx context.Context, id dlq.ID, cause error) {
	if ctx.Err() != nil {
		return
	}
	if err := a.Store.ExplainAction(ctx, id, cause); err != nil {
		logger(ctx, a.Log).Warn("could not record why a bulk action does not continue", zap.Stringer("bulk_action_id", id),
			zap.Error(err), zap.NamedError("cause", cause))
	}
}

// ChangeMessages changes the messages of the job, batch by batch, until none is left or the
// job is not running, and returns the job. Any number of attempts may run at once: each
// batch is a transaction that locks the job's row and continues at its cursor.
func (a *Action) ChangeMessages(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	job, err := a.Store.Action(ctx, id)
	if err != nil {
		return dlq.BulkAction{}, toTemporal(err)
	}
	beat, stop := startHeartbeat(ctx, ActionReport{Changed: job.Changed, Matched: job.Matched}, maxStepDuration)
	defer stop()
	limit := dlq.ActionBatch
	for {
		if err := stopRequested(ctx); err != nil { // the job's row has the position and the counts
			return dlq.BulkAction{}, err
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
			return dlq.BulkAction{}, toTemporal(err)
		}
		if time.Since(began) < fastBatch {
			limit = min(2*limit, dlq.ActionBatch)
		}
		a.Metrics.actedOn(job.Spec.Action, step.Changed)
		if step.Done || step.Stopped {
			return shownAction(a.Store.Action(ctx, id))
		}
		beat.stepReturned(func(r *ActionReport) { r.Changed = step.Total })
	}
}

// EndAction closes the job, which changes no message afterwards.
func (a *Action) EndAction(ctx context.Context, in StateInput) (dlq.BulkAction, error) {
	asked, err := endedBy(ctx, a.Store, in, dlq.PermBulkActionControl)
	if err != nil {
		return dlq.BulkAction{}, toTemporal(err)
	}
	ended, err := a.Store.EndAction(asked, in.ID, in.State, in.Reason)
	if err != nil {
		return dlq.BulkAction{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("bulk action ended", zap.Stringer("bulk_action_id", in.ID), zap.String("action", string(ended.Spec.Action)),
		zap.String("topic", ended.Spec.Topic), zap.String("state", string(ended.State)), zap.String("reason", ended.Reason),
		zap.Int64("matched", ended.Matched), zap.Int64("changed", ended.Changed), zap.Int64("skipped", ended.Skipped))
	return shownAction(ended, nil)
}
