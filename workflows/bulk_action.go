package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// BulkAction revives, marks dead or deletes the messages in the scope of a bulk action, and
// returns the job at its end. A single activity changes them in batches. The job's row has the
// position and the counts, and decides whether a batch may run. So a cancellation only
// closes the job.
func BulkAction(ctx workflow.Context, in BulkActionInput) (dlq.BulkAction, error) {
	var steps *activities.Action
	workflow.SetCurrentDetails(ctx, "Counting the messages to change.")
	var job dlq.BulkAction
	err := workflow.ExecuteActivity(countOptions(ctx, "count the scope"), steps.BeginAction, in.ID).Get(ctx, &job)
	if err == nil && job.State.IsFinal() {
		err = temporal.NewNonRetryableApplicationError("the job was closed by another client", typeEnded, nil)
	}
	if err == nil {
		describeAction(ctx, &job)
		summary := fmt.Sprintf("%s %d messages", job.Spec.Action, job.Matched)
		job = dlq.BulkAction{} // a field that is missing in the JSON gets its zero value
		err = workflow.ExecuteActivity(laneOptions(ctx, summary), steps.ChangeMessages, in.ID).Get(ctx, &job)
	}
	end := activities.StateInput{ID: in.ID, State: dlq.BulkCompleted}
	switch {
	case err == nil && job.State == dlq.BulkCancelling:
		end.State, end.Reason = dlq.BulkCancelled, job.Reason
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
		end.State, end.Reason = dlq.BulkCancelled, cancelReason
	default:
		end.State, end.Reason = dlq.BulkFailed, reasonOf(err)
	}
	closing, _ := workflow.NewDisconnectedContext(ctx)
	job = dlq.BulkAction{}
	if endErr := workflow.ExecuteActivity(storeOptions(closing, "close the job: "+string(end.State)), steps.EndAction, end).
		Get(closing, &job); endErr != nil {
		return dlq.BulkAction{}, endErr
	}
	describeAction(ctx, &job)
	return job, err
}

// describeAction shows the job in the Temporal Web UI. While the job runs, its progress is in the
// heartbeat of the activity.
func describeAction(ctx workflow.Context, a *dlq.BulkAction) {
	text := fmt.Sprintf("**%s** %s in %s: %d of %d changed, %d skipped.", a.State, a.Spec.Action, markdown(a.Spec.Topic), a.Changed, a.Matched, a.Skipped)
	if a.Reason != "" {
		text += " " + markdown(a.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
