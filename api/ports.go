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
	// CreateBulk freezes the scope of a bulk retry and writes its row. While another
	// is under way on messages of the same topic it returns that one where it does the
	// same, else a *dlq.BulkBusyError.
	CreateBulk(ctx context.Context, bulk dlq.BulkRetry) (dlq.BulkRetry, error)
	// EndBulk closes a bulk retry that has no running workflow. The first end counts.
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// Bulk returns a bulk retry, or dlq.ErrNotFound.
	Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// Bulks returns the latest bulk retries, newest first.
	Bulks(ctx context.Context, limit int) ([]dlq.BulkRetry, error)
	// PreviewBulk tells what a bulk retry would do, and changes nothing.
	PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error)
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
	// StartRetryAll starts the workflow of a bulk retry that was created, or joins
	// it. dlq.ErrNotFound when it has closed.
	StartRetryAll(ctx context.Context, bulk dlq.BulkRetry) (workflows.Execution, error)
	// AwaitRetryAll is to StartRetryAll what AwaitRetryMessage is to
	// StartRetryMessage.
	AwaitRetryAll(ctx context.Context, id dlq.ID) (workflows.RetryAllResult, error)

	// The commands to a bulk retry take effect a little later, in the order in
	// which they are given, and change nothing where they are in force already.
	// dlq.ErrNotFound when its workflow does not run. When ctx ends first, the
	// command may or may not have been taken up.

	// CancelRetryAll stops a bulk retry for good.
	CancelRetryAll(ctx context.Context, id dlq.ID) error
	// PauseRetryAll stops it until ResumeRetryAll, also where it has paused
	// itself. The reason is shown.
	PauseRetryAll(ctx context.Context, id dlq.ID, reason string) error
	// ResumeRetryAll lets a paused bulk retry go on.
	ResumeRetryAll(ctx context.Context, id dlq.ID) error
	// SetRetryAllRate changes the rate limit; 0 lifts it.
	SetRetryAllRate(ctx context.Context, id dlq.ID, perSecond int) error
}
