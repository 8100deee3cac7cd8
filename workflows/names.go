// Package workflows has the Temporal workflows: for the retry of a message, for the retry of a
// topic, for a change of many messages, and for the archive. The package also has the client that
// starts them, and the sweeper. Inputs, results and histories have ids and counters, and never the
// bodies of messages.
package workflows

import "dlqmanager/dlq"

// These names must not change: running workflows and schedules refer to them.
const (
	// DefaultTaskQueue is the task queue of the workers, unless configured.
	DefaultTaskQueue = "dlq-manager"

	// The workflow types as the Temporal Web UI shows them.
	RetryMessageType    = "RetryMessage"
	RetryAllType        = "RetryAll"
	ChangeAllType       = "ChangeAll"
	ArchiveMessagesType = "ArchiveMessages"

	// ArchiveScheduleID is the Temporal Schedule that runs the archive.
	ArchiveScheduleID = "dlq-archive"

	retryMessagePrefix = "retry-message-"
	retryAllPrefix     = "retry-all-"
	changeAllPrefix    = "change-all-"
)

// RetryMessageID is the workflow id of the retry of a message. All retries of a message have the same workflow id, so
// Temporal runs them in turn.
func RetryMessageID(id dlq.ID) string { return retryMessagePrefix + id.String() }

// JobWorkflowID is the workflow id of a job. A job has a single workflow.
func JobWorkflowID(kind dlq.JobKind, job dlq.ID) string {
	if kind == dlq.KindRetry {
		return retryAllPrefix + job.String()
	}
	return changeAllPrefix + job.String()
}

// IsJob reports whether an owner is a job.
func IsJob(owner dlq.Owner) bool {
	return owner.WorkflowID == retryAllPrefix+owner.Token || owner.WorkflowID == changeAllPrefix+owner.Token
}
