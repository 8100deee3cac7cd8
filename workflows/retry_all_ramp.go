package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

// openStep sets the step limit of the ramp's next step, or lifts it after the last step.
// Without a ramp it does nothing.
func (r *bulkRun) openStep() error {
	ramp := r.bulk.Spec.Ramp
	if ramp == nil || r.stepOpen || r.rampStep > len(ramp.Steps) {
		return nil
	}
	limit := activities.StepLimitInput{ID: r.bulk.ID}
	summary := "ramp: the rest"
	if r.rampStep < len(ramp.Steps) {
		messages := int64(ramp.Steps[r.rampStep])
		limit.Messages = &messages
		summary = fmt.Sprintf("ramp: step %d, %d messages", r.rampStep+1, messages)
	}
	r.stepOpen = true
	ctx := storeOptions(r.jobCtx, summary)
	return workflow.ExecuteActivity(ctx, r.steps.SetBulkAllowance, limit).Get(ctx, nil)
}

// watchStep waits after a step and then reads how many messages came back. It pauses the
// job when these are too many. done says that no messages are left.
func (r *bulkRun) watchStep(ctx workflow.Context) (done bool, err error) {
	ramp := r.bulk.Spec.Ramp
	if ramp == nil || !r.stepOpen || r.rampStep >= len(ramp.Steps) {
		return true, nil
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Sent step %d of the ramp, %d messages. Waiting %s for messages that come back.",
		r.rampStep+1, ramp.Steps[r.rampStep], ramp.Wait))
	if _, err := workflow.AwaitWithTimeout(ctx, ramp.Wait, func() bool { return r.pause != nil }); err != nil {
		return false, err
	}
	if r.pause != nil {
		return false, nil // paused by an operator; the step is checked again after the resume
	}
	r.rampStep, r.stepOpen = r.rampStep+1, false
	if err := r.readBulk(ctx); err != nil {
		return false, err
	}
	sent, back := r.bulk.Counts.Retried, r.bulk.CameBack
	if r.pause == nil && sent > 0 && float64(back) > ramp.MaxCameBack*float64(sent) {
		r.pause = &Pause{Reason: fmt.Sprintf(
			"%d of %d messages came back after step %d of the ramp, more than %g %%; resume to continue, or cancel",
			back, sent, r.rampStep, ramp.MaxCameBack*100)}
	}
	return r.bulk.Counts.Done() >= r.bulk.Matched && r.pause == nil, nil
}
