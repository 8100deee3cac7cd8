package workflows

import (
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
	Topic string
	// Lanes is how many parallel scans the job is cut into.
	Lanes int
}

// RetryAllResult is how a bulk retry ended.
type RetryAllResult struct {
	Bulk dlq.BulkRetry
	// Published is false when Kafka is not configured.
	Published bool
}
