package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// storeOptions are for steps that only use the database. Temporal retries these steps without end while the database is
// unavailable, since a step that gave up would leave a claim without an owner. The timeout of ten seconds is long for a
// statement on a few rows. The longest pause is short, so work continues soon after the database is back.
func storeOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         endless(200*time.Millisecond, 10*time.Second),
		Summary:             summary,
	})
}

// endless is a policy of attempts without end, whose pauses double.
func endless(first, longest time.Duration) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: first, BackoffCoefficient: 2, MaximumInterval: longest}
}

// localOptions are for a local activity: the first attempt of a step that only uses the database. The local activity is not
// repeated. The timeout is well below the ten seconds of a workflow task.
func localOptions(summary string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: 2 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             summary,
	}
}

// countOptions are for counting a scope. The heartbeat of this activity delivers a cancellation.
func countOptions(ctx workflow.Context, summary string) workflow.Context {
	ctx = workflow.WithStartToCloseTimeout(storeOptions(ctx, summary), activities.CountTimeout)
	return workflow.WithHeartbeatTimeout(ctx, laneHeartbeatTimeout)
}

// publishOptions are for sending a message. Temporal retries transient errors by the
// policy of their category. Errors of other categories end the activity, and the workflow
// decides. The timeout is longer than the preparation and the producer's delivery timeout,
// so the activity always reports the producer's result.
func publishOptions(ctx workflow.Context, summary string) workflow.Context {
	transient := activities.PolicyOf(dlq.CategoryTransient)
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: activities.RepublishPreparation + 20*time.Second,
		// A cancelled retry waits for its running publish. An acknowledged message becomes RESOLVED, and any other message
		// PENDING.
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    transient.First,
			BackoffCoefficient: transient.Factor,
			// The maximum is above the longest pause. Temporal's default, a hundred times the first pause, would end the
			// doubling earlier.
			MaximumInterval: 512 * time.Second,
			MaximumAttempts: int32(transient.Attempts),
		},
		Summary: summary,
	})
}

// laneHeartbeatTimeout is six heartbeats. The lane of a killed worker continues on another
// worker after three seconds, and a slow worker keeps its lane.
const laneHeartbeatTimeout = 6 * activities.HeartbeatInterval

// laneOptions are for a time slice of a lane of a bulk retry, and for all batches of a bulk change. Both are long
// activities with heartbeats. Such an activity costs three events of history for any number of messages.
func laneOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// A time slice takes minutes at most, but finalizing its last page may
		// take as long as an outage of the database.
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    laneHeartbeatTimeout,
		// With eager execution the lanes would stay on the worker that runs the workflow,
		// and a worker that joins would get no lanes.
		DisableEagerExecution: true,
		// Attempts without end: a lane fails when its worker is gone or the database is
		// unavailable, and must continue soon after that.
		RetryPolicy: endless(500*time.Millisecond, 5*time.Second),
		Summary:     summary,
	})
}

// archiveOptions are for moving and purging old rows in batches. The heartbeats carry the
// counts. A repeated activity finds the remaining rows by itself.
func archiveOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 24 * time.Hour,
		// There is a heartbeat after each batch.
		HeartbeatTimeout: time.Minute,
		RetryPolicy:      endless(time.Second, time.Minute),
		Summary:          summary,
	})
}

// ownerOf is the owner of the message that a workflow retries. A later retry of the
// message has the same workflow id and another first run id.
func ownerOf(ctx workflow.Context) dlq.Owner {
	info := workflow.GetInfo(ctx)
	return dlq.Owner{WorkflowID: info.WorkflowExecution.ID, Token: info.FirstRunID}
}
