package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// openRampStep sets the step limit of the ramp's next step, or lifts the limit after the last step.
// Without a ramp openRampStep does nothing.
func (r *bulkRun) openRampStep() error {
	ramp := r.job.Spec.Ramp
	if ramp == nil || r.StepOpen || r.RampStep > len(ramp.Steps) {
		return nil
	}
	limit := activities.StepLimitInput{ID: r.job.ID}
	summary := "ramp: the rest"
	if r.RampStep < len(ramp.Steps) {
		messages := int64(ramp.Steps[r.RampStep])
		limit.Messages = &messages
		summary = fmt.Sprintf("ramp: step %d, %d messages", r.RampStep+1, messages)
	}
	r.StepOpen = true
	ctx := storeOptions(r.jobCtx, summary)
	return workflow.ExecuteActivity(ctx, r.steps.SetStepLimit, limit).Get(ctx, nil)
}

// watchRampStep waits after a step, and then reads how many messages came back. If too many messages came back, it pauses
// the job. done is set if no messages are left.
func (r *bulkRun) watchRampStep(ctx workflow.Context) (done bool, err error) {
	ramp := r.job.Spec.Ramp
	if ramp == nil || !r.StepOpen || r.RampStep >= len(ramp.Steps) {
		return true, nil
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Sent step %d of the ramp, %d messages. Waiting %s for messages that come back.",
		r.RampStep+1, ramp.Steps[r.RampStep], ramp.Wait))
	if _, err := workflow.AwaitWithTimeout(ctx, ramp.Wait, func() bool { return r.Paused != nil }); err != nil {
		return false, err
	}
	if r.Paused != nil {
		return false, nil // paused by an operator; the step is checked again after the resume
	}
	unknown := ""
	if ramp.Confirm == dlq.ConfirmVerified {
		var verified bool
		if verified, unknown, err = r.awaitVerified(ctx); err != nil || !verified && unknown == "" {
			return false, err // paused by an operator, or the history is long
		}
	}
	r.RampStep, r.StepOpen = r.RampStep+1, false
	if err := r.readJob(ctx); err != nil {
		return false, err
	}
	sent, back := r.job.Counts.Retried, r.job.CameBack
	switch {
	case r.Paused != nil:
	case sent > 0 && float64(back) > ramp.MaxCameBack*float64(sent):
		r.Paused = &Pause{Reason: fmt.Sprintf(
			"%d of %d messages came back after step %d of the ramp, more than %g %%; resume to continue, or cancel",
			back, sent, r.RampStep, ramp.MaxCameBack*100)}
	case unknown != "":
		r.Paused = &Pause{Reason: fmt.Sprintf("nobody knows whether consumers got past the messages of step %d of the ramp: %s; resume to continue, or cancel",
			r.RampStep, unknown)}
	}
	return r.job.Counts.Done() >= r.job.Matched && r.Paused == nil, nil
}

// The wait between two counts of the verified messages doubles. The reasons not_read and group_gone may end once the
// offsets are fetched, so they count only after verifyPatience.
const (
	verifyCheckMin = 2 * time.Second
	verifyCheckMax = time.Minute
	verifyPatience = time.Minute
)

// awaitVerified waits until each message that the job has sent is verified or came back. unknown says why this cannot be
// known of some messages. If verified is false and unknown is empty, an operator has paused the job, or the history is
// long.
func (r *bulkRun) awaitVerified(ctx workflow.Context) (verified bool, unknown string, err error) {
	began := workflow.Now(ctx)
	for wait := verifyCheckMin; ; wait = min(2*wait, verifyCheckMax) {
		var v dlq.Verifications
		if err := workflow.ExecuteActivity(storeOptions(r.jobCtx, "are the messages verified"), r.steps.VerifyJob, r.job.ID).Get(ctx, &v); err != nil {
			return false, "", err
		}
		isNew := v.Unknown == v.Reasons[dlq.ReasonNotRead]+v.Reasons[dlq.ReasonGroupGone] && workflow.Now(ctx).Sub(began) < verifyPatience
		switch {
		case v.IsPartial:
			return false, fmt.Sprintf("it has sent more than %d messages", dlq.VerificationLimit), nil
		case v.Unknown > 0 && !isNew:
			return false, reasonsOf(v.Reasons), nil
		case v.Unknown == 0 && v.No == v.CameBack:
			return true, "", nil
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Waiting until consumers get past step %d of the ramp: %d messages verified, %d not yet.",
			r.RampStep+1, v.Yes, v.No-v.CameBack+v.Unknown))
		stops := func() bool { return r.Paused != nil || workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
		if stopped, err := workflow.AwaitWithTimeout(ctx, wait, stops); stopped || err != nil {
			return false, "", err
		}
	}
}

// reasonsOf lists reasons, such as "no_group (3 messages)".
func reasonsOf(reasons map[dlq.VerifiedReason]int64) string {
	var texts []string
	for _, reason := range dlq.UnknownReasons {
		if n := reasons[reason]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s (%d messages)", reason, n))
		}
	}
	return strings.Join(texts, ", ")
}
