package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// A running RetryAll is steered by Temporal updates, so the sender learns whether they took
// effect.
const (
	UpdatePause   = "pause"
	UpdateResume  = "resume"
	UpdateSetRate = "set_rate"
	// QueryProgress answers with the dlq.BulkRetry, at most 15 s old.
	QueryProgress = "progress"
)

// PauseUpdate says why an operator pauses.
type PauseUpdate struct {
	Reason string `json:"reason"`
}

// RateUpdate is a new limit, in messages per second; 0 lifts it.
type RateUpdate struct {
	PerSecond int `json:"per_second"`
}

const typeEnded = "Ended"

func (r *bulkRun) handleUpdates(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, QueryProgress, func() (dlq.BulkRetry, error) { return r.bulk, nil }); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, UpdatePause, r.onPause); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, UpdateResume, r.onResume); err != nil {
		return err
	}
	return workflow.SetUpdateHandler(ctx, UpdateSetRate, r.onSetRate)
}

// onPause returns once no message of the job is RETRYING. The claims stop immediately; the
// claimed pages are finished first.
func (r *bulkRun) onPause(ctx workflow.Context, in PauseUpdate) (dlq.BulkRetry, error) {
	reason := in.Reason
	if reason == "" {
		reason = "paused by an operator"
	}
	r.pause = &Pause{Reason: reason}
	return r.awaitPauseUpdate(ctx, func() bool { return r.bulk.State == dlq.BulkPaused && r.bulk.Reason == reason })
}

// onResume returns once the job runs again.
func (r *bulkRun) onResume(ctx workflow.Context) (dlq.BulkRetry, error) {
	r.pause = nil
	return r.awaitPauseUpdate(ctx, func() bool { return r.bulk.State == dlq.BulkRunning })
}

// awaitPauseUpdate waits for the effect of a pause or a resume, or for a later update, which
// supersedes it.
func (r *bulkRun) awaitPauseUpdate(ctx workflow.Context, effect func() bool) (dlq.BulkRetry, error) {
	r.pauseUpdates++
	mine := r.pauseUpdates
	return r.await(ctx, func() bool { return effect() || r.pauseUpdates != mine })
}

func (r *bulkRun) onSetRate(ctx workflow.Context, in RateUpdate) (dlq.BulkRetry, error) {
	if err := r.rate.Lock(ctx); err != nil {
		return dlq.BulkRetry{}, err
	}
	defer r.rate.Unlock()
	if _, err := r.await(ctx, func() bool { return r.phase == phaseRunning }); err != nil {
		return dlq.BulkRetry{}, err
	}
	ctx = storeOptions(ctx, "set the rate limit")
	err := workflow.ExecuteActivity(ctx, r.steps.SetBulkRate,
		activities.RateInput{ID: r.bulk.ID, PerSecond: in.PerSecond}).Get(ctx, nil)
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	r.bulk.Spec.RateLimit = in.PerSecond
	return r.bulk, nil
}

// await waits until the condition holds or the run ends. If the run continues as new, the
// next run applies the update.
func (r *bulkRun) await(ctx workflow.Context, condition func() bool) (dlq.BulkRetry, error) {
	if err := workflow.Await(ctx, func() bool { return r.phase > phaseRunning || condition() }); err != nil {
		return dlq.BulkRetry{}, err
	}
	if r.phase == phaseEnded {
		return dlq.BulkRetry{}, errEnded()
	}
	return r.bulk, nil
}

func errEnded() error {
	return temporal.NewNonRetryableApplicationError("the bulk retry has ended", typeEnded, nil)
}
