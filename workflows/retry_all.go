package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// RetryAll sends back every retryable message of a topic that was stored before
// it began. The work is cut into lanes by the messages' keys, so that each key
// stays in order, and every lane is one long activity that pages through the
// store. What it has done is counted in the store, in the same transactions.
//
// Cancelled, it finishes the pages in hand, gives back what it claimed and did
// not send, and ends: no message stays RETRYING.
func RetryAll(ctx workflow.Context, in RetryAllInput) (RetryAllResult, error) {
	var steps *activities.Bulk
	owner := ownerOf(ctx)
	id, err := dlq.ParseID(owner.RunID)
	if err != nil {
		return RetryAllResult{}, temporal.NewNonRetryableApplicationError("run id", "InvalidRunID", err)
	}

	// The job is opened and closed on a context of its own, so that a
	// cancellation at any moment finds either no job or a whole one.
	jobCtx, _ := workflow.NewDisconnectedContext(ctx)
	workflow.SetCurrentDetails(ctx, "Counting what is to be retried.")
	var plan activities.BulkPlan
	request := dlq.BulkRetry{ID: id, WorkflowID: owner.WorkflowID, Topic: in.Topic, Lanes: max(in.Lanes, 1)}
	err = workflow.ExecuteActivity(storeOptions(jobCtx, "freeze the scope"), steps.PlanBulk, request).Get(jobCtx, &plan)
	if err != nil {
		return RetryAllResult{}, err
	}

	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Sending back %d messages of **%s** in %d lanes. "+
		"The pending activities' heartbeats show how far each lane is.", plan.Bulk.Matched, in.Topic, plan.Bulk.Lanes))
	end := activities.EndInput{ID: id, State: dlq.BulkCompleted}
	lanesErr := runLanes(ctx, plan.Bulk, owner)
	switch {
	case temporal.IsCanceledError(lanesErr):
		end.State, end.Reason = dlq.BulkCancelled, "cancelled by an operator"
	case lanesErr != nil:
		end.State, end.Reason = dlq.BulkFailed, reasonOf(lanesErr)
	}
	var ended dlq.BulkRetry
	err = workflow.ExecuteActivity(storeOptions(jobCtx, "close the job: "+string(end.State)), steps.EndBulk, end).
		Get(jobCtx, &ended)
	if err != nil {
		return RetryAllResult{}, err
	}
	workflow.SetCurrentDetails(ctx, bulkDetails(ended))
	return RetryAllResult{Bulk: ended, Published: plan.Published}, lanesErr
}

// runLanes waits for every lane, also when one of them failed or was cancelled:
// only then is it certain that nothing is being sent any more.
func runLanes(ctx workflow.Context, bulk dlq.BulkRetry, owner dlq.Owner) error {
	var steps *activities.Bulk
	lanes := make([]workflow.Future, bulk.Lanes)
	for i := range lanes {
		laneCtx := laneOptions(ctx, fmt.Sprintf("lane %d of %d", i+1, bulk.Lanes))
		lanes[i] = workflow.ExecuteActivity(laneCtx, steps.RunLane,
			dlq.Lane{Bulk: bulk.ID, Owner: owner, Topic: bulk.Topic, Bound: bulk.Bound, Number: i, Of: bulk.Lanes})
	}
	var firstErr error
	for _, lane := range lanes {
		if err := lane.Get(ctx, nil); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	return firstErr
}

func bulkDetails(b dlq.BulkRetry) string {
	text := fmt.Sprintf("**%s**: %d matched, %d retried, %d failed, %d dead, %d skipped.",
		b.State, b.Matched, b.Counts.Retried, b.Counts.Failed, b.Counts.Dead, b.Counts.Skipped)
	if b.Reason != "" {
		text += " " + b.Reason
	}
	return text
}
