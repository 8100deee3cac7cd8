package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// ChangeAll revives, marks dead, deletes or restores the messages in the scope of a job, and
// returns the job at its end. A single activity changes them in batches. The job's row has the
// position and the counts, and decides whether a batch may run. So a cancellation only
// closes the job.
func ChangeAll(ctx workflow.Context, in JobInput) (JobResult, error) {
	var steps *activities.Jobs
	workflow.SetCurrentDetails(ctx, "Counting the messages to change.")
	var begun activities.JobBegun
	err := workflow.ExecuteActivity(countOptions(ctx, "count the scope"), steps.BeginJob, in.ID).Get(ctx, &begun)
	job := begun.Job
	if err == nil {
		if other := checkKind(&job, ChangeAllType); other != nil {
			return JobResult{}, other
		}
	}
	if err == nil && job.State.IsFinal() {
		err = temporal.NewNonRetryableApplicationError("the job was closed by another client", typeEnded, nil)
	}
	if err == nil {
		describeChange(ctx, &job)
		summary := fmt.Sprintf("%s %d messages", job.Spec.Kind, job.Matched)
		job = dlq.Job{} // a field that is missing in the JSON gets its zero value
		err = workflow.ExecuteActivity(laneOptions(ctx, summary), steps.ChangeMessages, in.ID).Get(ctx, &job)
	}
	end := activities.StateInput{ID: in.ID, State: dlq.JobCompleted}
	switch {
	case err == nil && job.State == dlq.JobCancelling:
		end.State, end.Reason = dlq.JobCancelled, job.Reason
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
		end.State, end.Reason = dlq.JobCancelled, cancelReason
	default:
		end.State, end.Reason = dlq.JobFailed, reasonOf(err)
	}
	closing, _ := workflow.NewDisconnectedContext(ctx)
	job = dlq.Job{}
	if endErr := workflow.ExecuteActivity(storeOptions(closing, "close the job: "+string(end.State)), steps.EndJob, end).
		Get(closing, &job); endErr != nil {
		return JobResult{}, endErr
	}
	describeChange(ctx, &job)
	return JobResult{Job: job}, err
}

// describeChange shows the job in the Temporal Web UI. While the job runs, its progress is in the
// heartbeat of the activity.
func describeChange(ctx workflow.Context, a *dlq.Job) {
	text := fmt.Sprintf("**%s** %s in %s: %d of %d changed, %d skipped.",
		a.State, a.Spec.Kind, markdown(a.Spec.Topic), a.Counts.Changed, a.Matched, a.Counts.Skipped)
	if a.Reason != "" {
		text += " " + markdown(a.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
