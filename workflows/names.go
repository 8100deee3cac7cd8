// Package workflows has the Temporal workflows: one for the retry of a message, one for
// the retry of a topic, one for another action on many messages, and one for the archive.
// It also has the client that starts them, and the sweeper. Inputs, results and histories have ids and counters, and never the
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
	BulkActionType      = "BulkAction"
	ArchiveMessagesType = "ArchiveMessages"

	// ArchiveScheduleID is the Temporal Schedule that runs the archive.
	ArchiveScheduleID = "dlq-archive"

	retryMessagePrefix = "retry-message-"
	retryAllPrefix     = "retry-all-"
	bulkActionPrefix   = "bulk-action-"
)

// RetryMessageID is the workflow id of the retry of one message. Each message has one id,
// so Temporal runs one retry of it at a time.
func RetryMessageID(id dlq.ID) string { return retryMessagePrefix + id.String() }

// RetryAllID is the workflow id of a bulk retry. A job has exactly one workflow.
func RetryAllID(bulk dlq.ID) string { return retryAllPrefix + bulk.String() }

// BulkActionID is the workflow id of a bulk action. A job has exactly one workflow.
func BulkActionID(action dlq.ID) string { return bulkActionPrefix + action.String() }
