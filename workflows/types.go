package workflows

import (
	"time"

	"dlqmanager/dlq"
)

// Everything that goes into Temporal has names of its own in JSON, so that renaming
// a field of the program does not change what running workflows hold.

// Execution names one run of a workflow.
type Execution struct {
	WorkflowID string
	RunID      string
}

// RetryMessageInput starts RetryMessage.
type RetryMessageInput struct {
	MessageID dlq.ID `json:"message_id"`
}

// RetryMessageResult is how the retry of one message ended.
type RetryMessageResult struct {
	MessageID  dlq.ID     `json:"message_id"`
	Status     dlq.Status `json:"status"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
	// Published is false when Kafka is not configured and the message was
	// resolved without being sent.
	Published bool `json:"published"`
	// Error and Category say why it was not delivered; empty when it was.
	Error    string       `json:"error,omitempty"`
	Category dlq.Category `json:"category,omitempty"`
}

// RetryAllInput starts RetryAll. All else of the job is in the store.
type RetryAllInput struct {
	ID dlq.ID `json:"bulk_retry_id"`
	// Resumed is set when the workflow continues as new.
	Resumed *Resumed `json:"resumed,omitempty"`
}

// Resumed is what a run hands to the next one.
type Resumed struct {
	Bulk      dlq.BulkRetry `json:"bulk"`
	Published bool          `json:"published"`
	// RampStep is the step of the ramp that is next, or, when StepOpen, now.
	RampStep int  `json:"ramp_step,omitempty"`
	StepOpen bool `json:"step_open,omitempty"`
	// Paused says that the job is paused, and why.
	Paused *Pause `json:"paused,omitempty"`
}

// Pause is why a job sends nothing.
type Pause struct {
	Reason string `json:"reason"`
	// For is how long, before it goes on by itself; 0 waits for an operator.
	For time.Duration `json:"for_ns,omitempty"`
}

// RetryAllResult is how a bulk retry ended.
type RetryAllResult struct {
	Bulk dlq.BulkRetry `json:"bulk"`
	// Published is false when Kafka is not configured.
	Published bool `json:"published"`
}
