package workflows

import (
	"time"

	"dlqmanager/dlq"
)

// Every field that goes into Temporal has a fixed JSON name, so that renaming the Go field
// does not affect running workflows.

// Execution names a run of a workflow.
type Execution struct {
	WorkflowID string
	RunID      string
	// Joined is set when a retry of a message was running already.
	Joined bool
}

// RetryMessageInput starts RetryMessage.
type RetryMessageInput struct {
	MessageID dlq.ID `json:"message_id"`
	// OperationID is the row of the audit for the request; zero if there is none.
	OperationID dlq.ID `json:"operation_id,omitzero"`
	// TargetTopic is where the message goes; empty unless the operator has named a target.
	TargetTopic string `json:"target_topic,omitempty"`
}

// RetryMessageResult is the end of the retry of a message.
type RetryMessageResult struct {
	MessageID  dlq.ID     `json:"message_id"`
	Status     dlq.Status `json:"status"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
	// Published is false when Kafka is not configured and the message was
	// resolved without being sent.
	Published bool `json:"published"`
	// Error and Category say why the message was not delivered; else they are empty.
	Error    string       `json:"error,omitempty"`
	Category dlq.Category `json:"category,omitempty"`
}

// JobInput starts RetryAll or ChangeAll. The job itself is in the store.
type JobInput struct {
	ID dlq.ID `json:"job_id"`
	// Resumed is set when RetryAll continues as new.
	Resumed *Resumed `json:"resumed,omitempty"`
}

// Resumed is the state of RetryAll that a run passes to the next run when continuing as new.
type Resumed struct {
	Published bool `json:"published"` // for JobResult.Published
	// RampStep counts the finished steps of the ramp. It is also the index of the open step.
	RampStep int `json:"ramp_step,omitempty"`
	// StepOpen is set while step RampStep runs: the job's row has its limit, or no limit after the last step.
	StepOpen bool `json:"step_open,omitempty"`
	// Paused is a pause that the job must make or is in; nil if the job is to run.
	Paused *Pause `json:"paused,omitempty"`
}

// Pause is a requested pause.
type Pause struct {
	Reason string `json:"reason"`
	// For is the time after which the job resumes by itself; 0 waits for an operator.
	For time.Duration `json:"for_ns,omitempty"`
	// TargetClosed is set when the job pauses itself because its target is closed.
	TargetClosed bool `json:"target_closed,omitempty"`
	// Update is the id of the Temporal update that asked for the pause; empty if the job pauses itself.
	Update string `json:"update,omitempty"`
}

// JobResult is the job at its end.
type JobResult struct {
	Job dlq.Job `json:"job"`
	// Published is false when Kafka is not configured, and for ChangeAll.
	Published bool `json:"published"`
}
