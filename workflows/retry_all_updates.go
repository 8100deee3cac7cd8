package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// Temporal updates control a running RetryAll, so the sender of an update learns whether it took effect.
const (
	UpdatePause   = "pause"
	UpdateResume  = "resume"
	UpdateSetRate = "set_rate"
	// QueryProgress answers with the dlq.Job, at most 15 s old.
	QueryProgress = "progress"
)

// PauseUpdate says why an operator pauses.
type PauseUpdate struct {
	Reason string `json:"reason"`
}

// maxReason is the maximum length of a reason in characters, as in the API.
const maxReason = 1000

func (p PauseUpdate) check() error {
	if utf8.RuneCountInString(p.Reason) > maxReason {
		return fmt.Errorf("the reason must be at most %d characters", maxReason)
	}
	return nil
}

// UnmarshalJSON also takes the reason alone, as typed into the Web UI.
func (p *PauseUpdate) UnmarshalJSON(text []byte) error {
	var reason string
	if json.Unmarshal(text, &reason) == nil {
		*p = PauseUpdate{Reason: reason}
		return nil
	}
	type object PauseUpdate // without this method
	return json.Unmarshal(text, (*object)(p))
}

// RateUpdate is a new limit, in messages per second; 0 lifts the limit.
type RateUpdate struct {
	PerSecond *int `json:"per_second"`
}

// UnmarshalJSON also takes the number alone.
func (u *RateUpdate) UnmarshalJSON(text []byte) error {
	var perSecond *int
	if json.Unmarshal(text, &perSecond) == nil {
		*u = RateUpdate{PerSecond: perSecond}
		return nil
	}
	type object RateUpdate // without this method
	return json.Unmarshal(text, (*object)(u))
}

// maxRate is the highest rate limit, in messages per second, as in the API.
const maxRate = 1_000_000

// check refuses an update without a number: an empty form must not lift the limit.
func (u RateUpdate) check() error {
	if u.PerSecond == nil || *u.PerSecond < 0 || *u.PerSecond > maxRate {
		return fmt.Errorf(`per_second must be a number from 0 to %d, such as {"per_second": 100}; 0 lifts the limit`, maxRate)
	}
	return nil
}

const typeEnded = "Ended"

func (r *bulkRun) handleUpdates(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandler(ctx, QueryProgress, func() (dlq.Job, error) { return r.job, nil }),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdatePause, r.onPause, workflow.UpdateHandlerOptions{
			Description: `Pauses the job. Input: {"reason": "…"}, or nothing.`,
			Validator:   func(_ workflow.Context, in PauseUpdate) error { return in.check() },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResume, r.onResume, workflow.UpdateHandlerOptions{
			Description: "Resumes the job. No input.",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateSetRate, r.onSetRate, workflow.UpdateHandlerOptions{
			Description: `Limits the job to so many messages per second. Input: {"per_second": 100}; 0 lifts the limit.`,
			Validator:   func(_ workflow.Context, in RateUpdate) error { return in.check() },
		}),
	)
}

// onPause returns once no message of the job is RETRYING. The claims stop immediately; the
// claimed pages are finished first.
func (r *bulkRun) onPause(ctx workflow.Context, in PauseUpdate) (dlq.Job, error) {
	reason := dlq.StorableText(in.Reason) // as the store returns the reason, which is compared below
	if reason == "" {
		reason = "paused by an operator"
	}
	r.Paused = &Pause{Reason: reason, Update: workflow.GetCurrentUpdateInfo(ctx).ID}
	return r.awaitPauseUpdate(ctx, func() bool { return r.job.State == dlq.JobPaused && r.job.Reason == reason })
}

// onResume returns once the job runs again.
func (r *bulkRun) onResume(ctx workflow.Context) (dlq.Job, error) {
	r.Paused, r.resumedBy = nil, workflow.GetCurrentUpdateInfo(ctx).ID
	return r.awaitPauseUpdate(ctx, func() bool { return r.job.State == dlq.JobRunning })
}

// awaitPauseUpdate waits for the effect of a pause or a resume, or for a later update, which
// supersedes this update.
func (r *bulkRun) awaitPauseUpdate(ctx workflow.Context, effect func() bool) (dlq.Job, error) {
	r.pauseUpdates++
	mine := r.pauseUpdates
	return r.await(ctx, func() bool { return effect() || r.pauseUpdates != mine })
}

func (r *bulkRun) onSetRate(ctx workflow.Context, in RateUpdate) (dlq.Job, error) {
	if err := r.rateMutex.Lock(ctx); err != nil {
		return dlq.Job{}, err
	}
	defer r.rateMutex.Unlock()
	if _, err := r.await(ctx, func() bool { return r.phase == phaseRunning }); err != nil {
		return dlq.Job{}, err
	}
	perSecond := *in.PerSecond // the validator refuses an update without a number
	ctx = storeOptions(ctx, "set the rate limit")
	err := workflow.ExecuteActivity(ctx, r.steps.SetJobRate,
		activities.RateInput{ID: r.job.ID, PerSecond: perSecond, Update: workflow.GetCurrentUpdateInfo(ctx).ID}).Get(ctx, nil)
	if err != nil {
		return dlq.Job{}, err
	}
	r.job.Spec.RateLimit = perSecond
	return r.job, nil
}

// await waits until the condition holds or the run ends. If the run continues as new, the
// next run applies the update.
func (r *bulkRun) await(ctx workflow.Context, condition func() bool) (dlq.Job, error) {
	if err := workflow.Await(ctx, func() bool { return r.phase > phaseRunning || condition() }); err != nil {
		return dlq.Job{}, err
	}
	if r.phase == phaseEnded {
		return dlq.Job{}, temporal.NewNonRetryableApplicationError("the bulk retry has ended", typeEnded, nil)
	}
	return r.job, nil
}
