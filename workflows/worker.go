package workflows

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

// Activities are the steps that a worker carries out.
type Activities struct {
	Retry   *activities.Retry
	Bulk    *activities.Bulk
	Archive *activities.Archive
}

// NewWorker listens on the task queue with every workflow and activity.
// stopTimeout is how long running activities get to finish once Stop is called;
// Temporal's default of zero would abandon them. fatal learns why a worker ended
// by itself, such as a namespace that was deleted.
func NewWorker(temporal client.Client, taskQueue string, steps Activities, stopTimeout time.Duration, fatal func(error)) worker.Worker {
	w := worker.New(temporal, taskQueue, worker.Options{
		WorkerStopTimeout: stopTimeout,
		OnFatalError:      fatal,
		// Heartbeats carry cancellations back; the default would hold them
		// back for most of the heartbeat timeout.
		MaxHeartbeatThrottleInterval:     activities.HeartbeatInterval,
		DefaultHeartbeatThrottleInterval: activities.HeartbeatInterval,
	})
	Register(w)
	w.RegisterActivity(steps.Retry)
	w.RegisterActivity(steps.Bulk)
	w.RegisterActivity(steps.Archive)
	return w
}

// Register makes the workflows known by their names.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(RetryMessage, workflow.RegisterOptions{Name: RetryMessageType})
	r.RegisterWorkflowWithOptions(RetryAll, workflow.RegisterOptions{Name: RetryAllType})
	r.RegisterWorkflowWithOptions(ArchiveMessages, workflow.RegisterOptions{Name: ArchiveMessagesType})
}
