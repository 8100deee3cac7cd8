package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/dlq"
)

// ChangeAll revives, marks dead, deletes or restores the messages in the scope of a job, and
// returns the job at its end. A single activity changes the messages in batches. The job's row has the position and the
// counts, and decides whether a batch may run. So a cancellation only has to close the job.
func ChangeAll(ctx workflow.Context, in JobInput) (JobResult, error) {
	r := newBulkRun(ctx, in)
	err := r.count(ctx, "Counting the messages to change.")
	if err == nil {
		if err := checkKind(&r.job, ChangeAllType); err != nil {
			return JobResult{}, err
		}
		r.describe(ctx)
		summary := fmt.Sprintf("%s %d messages", r.job.Spec.Kind, r.job.Matched)
		err = r.updateJob(laneOptions(ctx, summary), r.steps.ChangeMessages, in.ID)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	end := endOf(in.ID, err)
	if err == nil && r.job.State == dlq.JobCancelling {
		end.State, end.Reason = dlq.JobCancelled, r.job.Reason
	}
	return r.end(ctx, end, err)
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
