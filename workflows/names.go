// Package workflows holds the durable side of the manager: one workflow for the
// retry of a message, one for the retry of a topic and one for the archive, and
// the client that starts them. Inputs, results and histories carry ids, ranges
// and counters, never the bodies of messages.
package workflows

import "dlqmanager/dlq"

// Names that outlive a deployment: running workflows and schedules refer to
// them, so changing one orphans what is under way.
const (
	// DefaultTaskQueue is where the workers listen unless configured.
	DefaultTaskQueue = "dlq-manager"

	// RetryMessageType, RetryAllType and ArchiveMessagesType are the workflow
	// types as the Temporal Web UI shows them.
	RetryMessageType    = "RetryMessage"
	RetryAllType        = "RetryAll"
	ArchiveMessagesType = "ArchiveMessages"

	// ArchiveScheduleID is the Temporal Schedule that runs the archive.
	ArchiveScheduleID = "dlq-archive"

	retryMessagePrefix = "retry-message-"
	retryAllPrefix     = "retry-all-"
)

// RetryMessageID is the workflow id of the retry of one message. There is one
// id for each message, so Temporal itself keeps two retries of it apart.
func RetryMessageID(id dlq.ID) string { return retryMessagePrefix + id.String() }

// RetryAllID is the workflow id of a bulk retry. A job has one workflow, for good.
func RetryAllID(bulk dlq.ID) string { return retryAllPrefix + bulk.String() }
