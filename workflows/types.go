package workflows

import (
	"fmt"
	"time"

	"dlqmanager/dlq"
)

// Execution names one run of a workflow.
type Execution struct {
	WorkflowID string
	RunID      string
}

// RetryMessageInput starts RetryMessage.
type RetryMessageInput struct {
	MessageID dlq.ID
}

// RetryMessageResult is how the retry of one message ended.
type RetryMessageResult struct {
	MessageID  dlq.ID
	Status     dlq.Status
	RetryCount int
	MaxRetries int
	// Published is false when Kafka is not configured and the message was
	// resolved without being sent.
	Published bool
	// Error and Category say why it was not delivered; empty when it was.
	Error    string
	Category dlq.Category
}

// RetryAllInput starts RetryAll.
type RetryAllInput struct {
	Spec dlq.BulkSpec
	// Lanes is how many parallel scans the job is cut into.
	Lanes int
	// Resumed is set when the workflow continues as new: the job exists.
	Resumed *Resumed
}

// Resumed is what a run hands to the next one. All else is in the store.
type Resumed struct {
	Bulk      dlq.BulkRetry
	Published bool
	// RampStep is the step of the ramp that is next, or, when StepOpen, now.
	RampStep int
	StepOpen bool
	// Paused says that the job is paused, and why.
	Paused *Pause
	// Refusals in a row, for the length of the next pause.
	Refusals int
}

// Pause is why a job sends nothing.
type Pause struct {
	Reason string
	// For is how long, before it goes on by itself; 0 waits for an operator.
	For time.Duration
}

// RetryAllResult is how a bulk retry ended.
type RetryAllResult struct {
	Bulk dlq.BulkRetry
	// Published is false when Kafka is not configured.
	Published bool
}

// BusyTopicError refuses a bulk retry because another one, of a different
// scope, is running on the topic.
type BusyTopicError struct {
	Topic   string
	Running Execution
}

// Error names the job that is in the way.
func (e *BusyTopicError) Error() string {
	return fmt.Sprintf("a bulk retry of topic %s with other filters, order or ramp is running: %s; wait for it or cancel it", e.Topic, e.Running.RunID)
}
