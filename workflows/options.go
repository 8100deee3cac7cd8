package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// storeOptions are for steps that only talk to the database. When it is away
// they wait for it, however long: giving up would leave a message claimed by
// nobody. Ten seconds are long for a statement on a few rows, and the pause
// stays short enough that work goes on soon after the database is back.
func storeOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    200 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    10 * time.Second,
		},
		Summary: summary,
	})
}

// localOptions are for the one attempt of such a step that is a part of the workflow's own
// task. It ends well before the task would time out, after ten seconds.
func localOptions(summary string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: 2 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             summary,
	}
}

// claimOptions are storeOptions for a claim. A cancellation waits for the attempt under
// way, so that no claim gets through after the message was given back.
func claimOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithWaitForCancellation(storeOptions(ctx, summary), true)
}

// countOptions are for counting a scope. Its heartbeat carries a cancellation to it.
func countOptions(ctx workflow.Context, summary string) workflow.Context {
	ctx = workflow.WithStartToCloseTimeout(storeOptions(ctx, summary), activities.CountLimit)
	return workflow.WithHeartbeatTimeout(ctx, laneHeartbeatTimeout)
}

// publishOptions are for sending one message. Temporal repeats transient errors
// as their category says. Other categories end the activity, and the workflow
// decides. The timeout is longer than the preparation and the producer's own delivery
// timeout, so the producer always gets to say what happened.
func publishOptions(ctx workflow.Context, summary string) workflow.Context {
	transient := activities.PolicyOf(dlq.CategoryTransient)
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: activities.RepublishPreparation + 20*time.Second,
		// A cancelled retry waits for the publish under way: whether it was
		// acknowledged decides between RESOLVED and PENDING.
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    transient.First,
			BackoffCoefficient: transient.Factor,
			// Above the longest pause, so that Temporal does not cut the
			// doubling short at its default of a hundred first pauses.
			MaximumInterval: 512 * time.Second,
			MaximumAttempts: int32(transient.Attempts),
		},
		Summary: summary,
	})
}

// laneHeartbeatTimeout is six missed beats: a killed worker's lane goes on elsewhere
// after three seconds, and a slow one is not given up.
const laneHeartbeatTimeout = 6 * activities.HeartbeatInterval

// laneOptions are for a slice of one lane of a bulk retry: one long activity
// that heart-beats, which costs the history three events however many messages
// it sends.
func laneOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// A slice is minutes, but a page in a target's bad hour may take longer.
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    laneHeartbeatTimeout,
		// Eagerly, the lanes would stay with the worker that has the workflow,
		// and one that joins would get nothing.
		DisableEagerExecution: true,
		// No end: a lane fails when its worker is gone or the database is away,
		// and then it has to go on, soon after either is back.
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    500 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    5 * time.Second,
		},
		Summary: summary,
	})
}

// archiveOptions are for moving and purging old rows in batches. The counts
// travel in the heartbeats; the work itself is resumed by what is left to do.
func archiveOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 24 * time.Hour,
		// One batch between two beats, and a batch is a thousand rows.
		HeartbeatTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    time.Second,
			BackoffCoefficient: 2,
			MaximumInterval:    time.Minute,
		},
		Summary: summary,
	})
}

// ownerOf is the owner of the message that a workflow retries. A later retry of the
// message has the same workflow id and another first run.
func ownerOf(ctx workflow.Context) dlq.Owner {
	info := workflow.GetInfo(ctx)
	return dlq.Owner{WorkflowID: info.WorkflowExecution.ID, Token: info.FirstRunID}
}
