package api

import (
	"context"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// Store is what the API reads and changes. Every method may also return an
// error that is dlq.ErrUnavailable while the database is away, and must return
// soon after its context ends.
type Store interface {
	// Topics counts the messages of every dead-letter topic.
	Topics(ctx context.Context) ([]dlq.TopicSummary, error)
	// List returns one page; a topic without messages is an empty page.
	List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error)
	// Detail returns everything known of a message, or dlq.ErrNotFound.
	Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error)
	// Message returns the state of a message, or dlq.ErrNotFound.
	Message(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Delete removes a message: dlq.ErrNotFound, or *dlq.OwnedError while a
	// workflow is retrying it.
	Delete(ctx context.Context, id dlq.ID) error
	// MarkDead ends a message: dlq.ErrNotFound, or *dlq.NotRetryableError when
	// it is RESOLVED. Marking a DEAD message again changes nothing.
	MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Bulk returns a bulk retry, or dlq.ErrNotFound.
	Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// Bulks returns the latest bulk retries, newest first.
	Bulks(ctx context.Context, limit int) ([]dlq.BulkRetry, error)
}

// Retries starts and watches the workflows that retry. Every method may also
// return an error that is dlq.ErrUnavailable while Temporal is away.
type Retries interface {
	// StartRetryMessage starts the retry of a message, or joins the one that
	// is running.
	StartRetryMessage(ctx context.Context, input workflows.RetryMessageInput) (workflows.Execution, error)
	// AwaitRetryMessage waits for the end. When ctx ends first, the error is
	// ctx's own and the workflow goes on. Failures are
	// *dlq.NotRetryableError, *dlq.OwnedError and dlq.ErrNotFound.
	AwaitRetryMessage(ctx context.Context, execution workflows.Execution) (workflows.RetryMessageResult, error)
	// StartRetryAll starts the retry of a topic, or joins the one that is
	// running. The run id is the id of the dlq.BulkRetry.
	StartRetryAll(ctx context.Context, input workflows.RetryAllInput) (workflows.Execution, error)
	// AwaitRetryAll is to StartRetryAll what AwaitRetryMessage is to
	// StartRetryMessage.
	AwaitRetryAll(ctx context.Context, execution workflows.Execution) (workflows.RetryAllResult, error)
	// CancelRetryAll asks a bulk retry to stop; it does so a little later.
	// dlq.ErrNotFound when its workflow has already closed.
	CancelRetryAll(ctx context.Context, execution workflows.Execution) error
}
