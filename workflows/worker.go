package workflows

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

// Activities are the activities that a worker runs. All but Retry are nil without a database.
type Activities struct {
	Retry   *activities.Retry
	Jobs    *activities.Jobs
	Archive *activities.Archive
}

// NewWorker returns a worker for the task queue with every workflow, and with those activities that are not nil.
// stopTimeout is how long running activities may still run once Stop is called. Temporal's default of zero abandons them.
// fatal gets the error of a worker that stops by itself, as when its namespace was deleted.
func NewWorker(temporal client.Client, taskQueue string, steps Activities, stopTimeout time.Duration, fatal func(error)) worker.Worker {
	w := worker.New(temporal, taskQueue, worker.Options{
		WorkerStopTimeout: stopTimeout,
		OnFatalError:      fatal,
		// The response to a heartbeat delivers a cancellation. The default throttling
		// would delay heartbeats for most of the heartbeat timeout.
		MaxHeartbeatThrottleInterval:     activities.HeartbeatInterval,
		DefaultHeartbeatThrottleInterval: activities.HeartbeatInterval,
	})
	Register(w)
	w.RegisterActivity(steps.Retry)
	if steps.Jobs != nil {
		w.RegisterActivity(steps.Jobs)
		w.RegisterActivity(steps.Archive)
	}
	return w
}

// Register registers the workflows under their names.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(RetryMessage, workflow.RegisterOptions{Name: RetryMessageType})
	r.RegisterWorkflowWithOptions(RetryAll, workflow.RegisterOptions{Name: RetryAllType})
	r.RegisterWorkflowWithOptions(ChangeAll, workflow.RegisterOptions{Name: ChangeAllType})
	r.RegisterWorkflowWithOptions(ArchiveMessages, workflow.RegisterOptions{Name: ArchiveMessagesType})
}
