package api

import (
	"context"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// Store is the part of a store that the API uses, with or without a database. Every method may
// return an error that is dlq.ErrUnavailable while the database is unavailable. Every method must
// return soon after its context ends.
type Store interface {
	// List returns one page; a topic without messages is an empty page. Large payloads are left out,
	// and the page ends early at dlq.ListBytes. Without a database the query has no other filters
	// than topic, statuses and Within.
	List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error)
	// Detail returns a message with its bytes and history, or dlq.ErrNotFound.
	Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error)
	// Weigh returns how much Detail or ArchivedDetail would read, or dlq.ErrNotFound.
	Weigh(ctx context.Context, id dlq.ID, isArchived bool) (dlq.Weight, error)
	// Message returns the state of a message, or dlq.ErrNotFound.
	Message(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Delete removes a message: dlq.ErrNotFound, or *dlq.OwnedError while a
	// workflow is retrying it.
	Delete(ctx context.Context, id dlq.ID) error
	// MarkDead makes a message DEAD: dlq.ErrNotFound, or *dlq.NotRetryableError when it
	// is RESOLVED. It leaves a DEAD message unchanged.
	MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error)
}

// Database is the part of a store that the API uses if messages are in a database. Its errors are
// like the errors of Store.
type Database interface {
	// TopicsWithin counts the messages of the dead-letter topics that match an expression;
	// empty for all.
	TopicsWithin(ctx context.Context, within string) ([]dlq.TopicSummary, error)
	// ArchivedDetail is Detail for an archived message.
	ArchivedDetail(ctx context.Context, id dlq.ID) (dlq.Detail, error)
	// Restore makes a new PENDING message of an archived one, which stays: dlq.ErrNotFound, or
	// *dlq.NotRetryableError when that was done before or an edited copy has replaced it.
	Restore(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Chain returns a message, also an archived one, with all messages that it was before
	// and that it became, or dlq.ErrNotFound.
	Chain(ctx context.Context, id dlq.ID) (dlq.Chain, error)
	// Verdicts returns whether messages, also archived ones, are verified. Those that were
	// not delivered are absent.
	Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error)
	// VerifyBulk counts up to dlq.VerificationLimit messages that a bulk retry has delivered.
	VerifyBulk(ctx context.Context, id dlq.ID) (dlq.Verifications, error)
	// Revive makes a DEAD message PENDING: dlq.ErrNotFound, or *dlq.NotRetryableError when
	// it is not DEAD.
	Revive(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Replace ends a PENDING message as replaced and stores its edited copy, which it returns:
	// dlq.ErrNotFound, *dlq.OwnedError, or *dlq.NotRetryableError.
	Replace(ctx context.Context, id dlq.ID, edited dlq.Arrival) (dlq.Message, error)
	// HandIn stores arrivals that do not come from Kafka, and returns their ids. A repeated call
	// with the same key stores nothing and returns the ids of the first one. The error is
	// dlq.ErrKeyReused if that was another request.
	HandIn(ctx context.Context, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error)
	// CreateBulk takes the snapshot of a bulk retry and writes its row. While another
	// job runs on messages of the same topic, it returns that job if it does the same
	// work, and a *dlq.BulkBusyError otherwise.
	CreateBulk(ctx context.Context, bulk dlq.BulkRetry) (dlq.BulkRetry, error)
	// EndBulk closes a bulk retry that has no running workflow. It leaves a closed one
	// unchanged.
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// Bulk returns a bulk retry, or dlq.ErrNotFound.
	Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// Bulks returns the latest bulk retries, newest first, of the topics that match an
	// expression; empty for all.
	Bulks(ctx context.Context, within string, limit int) ([]dlq.BulkRetry, error)
	// PreviewBulk describes the effect of a bulk retry, and changes nothing.
	PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error)
	ActionStore
	AuditStore
	GroupStore
}

// GroupStore is the part of the store for groups.
type GroupStore interface {
	// Now is the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Groups returns one page of groups.
	Groups(ctx context.Context, query dlq.GroupQuery) (dlq.GroupPage, error)
	// Group returns a group, or dlq.ErrNotFound. Only messages of dead-letter topics that
	// match within are counted, unless it is empty.
	Group(ctx context.Context, id dlq.ID, within string) (dlq.Group, error)
	// ChangeGroup changes the notes of operators: dlq.ErrNotFound.
	ChangeGroup(ctx context.Context, id dlq.ID, change dlq.GroupChange) error
	// FixGroup marks a group as fixed: dlq.ErrNotFound.
	FixGroup(ctx context.Context, id dlq.ID, fix dlq.GroupFix) error
}

// AuditStore is the part of the store for the audit. The other methods record the operation
// of their context in the transaction that makes the change.
type AuditStore interface {
	// RecordOperation records an operation that is no change of the store.
	RecordOperation(ctx context.Context, operation dlq.Operation) error
	// OperationsOf returns the operations that asked for retries of messages, by the tokens
	// of their owners.
	OperationsOf(ctx context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error)
	// Operations returns one page of operations, the newest first.
	Operations(ctx context.Context, query dlq.OperationQuery) (dlq.OperationPage, error)
}

// ActionStore is the part of the store for bulk actions.
type ActionStore interface {
	// CreateAction takes the snapshot of a bulk action and writes its row. While another
	// job runs on messages of the same topic, it returns that job if it does the same
	// work, and a *dlq.ActionBusyError otherwise.
	CreateAction(ctx context.Context, action dlq.BulkAction) (dlq.BulkAction, error)
	// StopAction makes a running job CANCELLING: it changes nothing any more.
	StopAction(ctx context.Context, id dlq.ID, reason string) (dlq.BulkAction, error)
	// EndAction closes a job that has no running workflow. It leaves a closed one
	// unchanged.
	EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error)
	// Action returns a bulk action, or dlq.ErrNotFound.
	Action(ctx context.Context, id dlq.ID) (dlq.BulkAction, error)
	// Actions returns the latest bulk actions, newest first, of the topics that match an
	// expression; empty for all.
	Actions(ctx context.Context, within string, limit int) ([]dlq.BulkAction, error)
	// PreviewAction describes the effect of a bulk action, and changes nothing.
	PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error)
}

// Retries starts and watches the workflows of retries and of bulk actions. Every method may return an error
// that is dlq.ErrUnavailable while Temporal is unavailable.
type Retries interface {
	// StartRetryMessage starts the retry of a message, or joins the one that
	// is running.
	StartRetryMessage(ctx context.Context, m *dlq.Message, input workflows.RetryMessageInput) (workflows.Execution, error)
	// AwaitRetryMessage waits for the end of the workflow. When ctx ends first, it
	// returns ctx's error and the workflow continues. Errors of the workflow are
	// *dlq.NotRetryableError, *dlq.OwnedError and dlq.ErrNotFound.
	AwaitRetryMessage(ctx context.Context, execution workflows.Execution) (workflows.RetryMessageResult, error)
	// StartRetryAll starts the workflow of a bulk retry whose row exists, or joins it.
	// It returns dlq.ErrNotFound when the workflow has closed.
	StartRetryAll(ctx context.Context, bulk dlq.BulkRetry) (workflows.Execution, error)
	// AwaitRetryAll waits like AwaitRetryMessage.
	AwaitRetryAll(ctx context.Context, id dlq.ID) (workflows.RetryAllResult, error)

	// The commands to a bulk retry take effect shortly after the call, in the order of
	// the calls. A command that is already in effect changes nothing. They return
	// dlq.ErrNotFound when the workflow does not run. When ctx ends first, the command
	// may or may not have arrived.

	// CancelRetryAll ends a bulk retry.
	CancelRetryAll(ctx context.Context, id dlq.ID) error
	// PauseRetryAll pauses it until ResumeRetryAll, even if it has paused itself. The
	// job shows the reason.
	PauseRetryAll(ctx context.Context, id dlq.ID, reason string) error
	// ResumeRetryAll resumes a paused bulk retry.
	ResumeRetryAll(ctx context.Context, id dlq.ID) error
	// SetRetryAllRate changes the rate limit; 0 removes it.
	SetRetryAllRate(ctx context.Context, id dlq.ID, perSecond int) error

	// StartBulkAction starts the workflow of a bulk action whose row exists, or joins it.
	// It returns dlq.ErrNotFound when the workflow has closed.
	StartBulkAction(ctx context.Context, action dlq.BulkAction) (workflows.Execution, error)
	// TriggerArchive starts a run of the archive's schedule now, unless one is active, and returns the
	// schedule; dlq.ErrNotFound if there is none.
	TriggerArchive(ctx context.Context) (schedule string, err error)
	// AwaitBulkAction waits like AwaitRetryMessage.
	AwaitBulkAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error)
	// CancelBulkAction ends a bulk action. It returns dlq.ErrNotFound when the workflow
	// does not run.
	CancelBulkAction(ctx context.Context, id dlq.ID) error
}
