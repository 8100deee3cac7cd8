package api

import (
	"context"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// Store is the part of a store that the API uses, with or without a database. A method that makes a change
// records the operation that asked for it, in the same transaction, unless the operation is nil. Every method
// may return an error that is dlq.ErrUnavailable while the database is unavailable. Every method must
// return soon after its context ends.
type Store interface {
	// List returns one page; a topic without messages is an empty page. Large payloads are left out,
	// and the page ends early at dlq.ListBytes. Without a database the query has no other filters
	// than topic, statuses and Within.
	List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error)
	// Details returns messages with their bytes and history, in the order of their ids. Messages that do not exist are absent.
	Details(ctx context.Context, query dlq.DetailQuery) ([]dlq.Detail, error)
	// Weigh returns how much Details would read of each message.
	Weigh(ctx context.Context, query dlq.DetailQuery) ([]dlq.Weight, error)
	// Message returns the state of a message, or dlq.ErrNotFound.
	Message(ctx context.Context, id dlq.ID) (dlq.Message, error)
	// Delete removes a message. The error is dlq.ErrNotFound, or *dlq.OwnedError while
	// a workflow is retrying the message.
	Delete(ctx context.Context, asked *dlq.Operation, id dlq.ID) error
	// MarkDead makes a message DEAD, and leaves a DEAD message unchanged. The error is
	// dlq.ErrNotFound, or *dlq.NotRetryableError for a RESOLVED message.
	MarkDead(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)
}

// Database is the part of a store that the API uses if messages are in a database. Its errors are
// like the errors of Store.
type Database interface {
	Unguarded
	// TopicsWithin counts the messages of the dead-letter topics that match a regular expression. An empty expression matches
	// all topics.
	TopicsWithin(ctx context.Context, within string) ([]dlq.TopicSummary, error)
	// Series counts the arrivals of a range of whole buckets, the topics with the most arrivals first.
	Series(ctx context.Context, query dlq.SeriesQuery) ([]dlq.Series, error)
	// ExportPage chooses the next messages of an export, oldest first. A page of a search may be empty although a next page exists.
	ExportPage(ctx context.Context, query dlq.ListQuery) (dlq.ExportPage, error)
	// TopicsBeside returns the original topics of a dead-letter topic, and the dead-letter topics of an original topic. It
	// finds topics by their messages, so topics without messages are absent.
	TopicsBeside(ctx context.Context, topic string) ([]string, error)
	// Restore makes a new PENDING message of an archived message. The archived message stays. The error is dlq.ErrNotFound, or
	// *dlq.NotRetryableError if the message was restored before or an edited copy has replaced it.
	Restore(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)
	// Chain returns a message, archived or not, with its whole chain: the messages that it was before, and the messages that it
	// became. The error is dlq.ErrNotFound.
	Chain(ctx context.Context, id dlq.ID) (dlq.Chain, error)
	// Verdicts returns whether messages, also archived messages, are verified. Messages that
	// were not delivered are absent.
	Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error)
	// VerifyJob counts up to dlq.VerificationLimit messages that a bulk retry has delivered.
	VerifyJob(ctx context.Context, id dlq.ID) (dlq.Verifications, error)
	// Revive makes a DEAD message PENDING. The error is dlq.ErrNotFound, or
	// *dlq.NotRetryableError for a message that is not DEAD.
	Revive(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)
	// Replace ends a PENDING message as replaced, and stores and returns its edited copy. The error
	// is dlq.ErrNotFound, *dlq.OwnedError, or *dlq.NotRetryableError.
	Replace(ctx context.Context, asked *dlq.Operation, id dlq.ID, edited dlq.Arrival) (dlq.Message, error)
	// HandIn stores arrivals that do not come from Kafka, and returns their ids. A repeated call
	// with the same key stores nothing and returns the ids of the first call. The error is
	// dlq.ErrKeyReused if the first call had another request.
	HandIn(ctx context.Context, asked *dlq.Operation, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error)
	// CreateJob takes the snapshot of a job and writes its row. If another job runs on the same topic, CreateJob returns that
	// job when both do the same work, and a *dlq.JobBusyError otherwise.
	CreateJob(ctx context.Context, asked *dlq.Operation, j dlq.Job) (dlq.Job, error)
	// StopJob makes a job CANCELLING: from then on the job claims and changes no message.
	StopJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	// EndJob closes a job that has no running workflow. It leaves a closed job
	// unchanged.
	EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	// Job returns a job, or dlq.ErrNotFound.
	Job(ctx context.Context, id dlq.ID) (dlq.Job, error)
	// Jobs returns one page of jobs, the newest first.
	Jobs(ctx context.Context, query dlq.JobQuery) (dlq.PageOf[dlq.Job], error)
	// JobSamples returns counts of a job in the order of time; none if there is no such job.
	JobSamples(ctx context.Context, id dlq.ID) ([]dlq.JobSample, error)
	// PreviewJob describes the effect of a job that would start now, and changes nothing. PreviewScope does the same within the
	// snapshot of a plan.
	PreviewJob(ctx context.Context, spec dlq.JobSpec) (dlq.JobPreview, error)
	PreviewScope(ctx context.Context, spec dlq.JobSpec, scope dlq.Scope) (dlq.JobPreview, error)
	// CreatePlan stores a plan, which expires after ttl. Plan returns a plan, dlq.ErrNotFound or dlq.ErrSpecUnreadable.
	CreatePlan(ctx context.Context, plan dlq.JobPlan, ttl time.Duration) (dlq.JobPlan, error)
	Plan(ctx context.Context, id dlq.ID) (dlq.JobPlan, error)
	// Groups returns one page of groups.
	Groups(ctx context.Context, query dlq.GroupQuery) (dlq.PageOf[dlq.Group], error)
	// Group returns a group, or dlq.ErrNotFound. Only messages of dead-letter topics that
	// match within are counted; an empty within matches all topics.
	Group(ctx context.Context, id dlq.ID, within string) (dlq.Group, error)
	// ChangeGroup changes the notes of operators, or returns dlq.ErrNotFound.
	ChangeGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, change dlq.GroupChange) error
	// FixGroup marks a group as fixed, or returns dlq.ErrNotFound.
	FixGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, fix dlq.GroupFix) error
	// Operations returns one page of operations, the newest first.
	Operations(ctx context.Context, query dlq.OperationQuery) (dlq.PageOf[dlq.Operation], error)
	// SingleRetries returns one page of the single retries that operations asked for, the newest first.
	SingleRetries(ctx context.Context, query dlq.OperationQuery) (dlq.PageOf[dlq.SingleRetry], error)
}

// Unguarded is the part of Database that is the same for every principal.
type Unguarded interface {
	// Now is the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// RecordOperation records an operation that does not change the store, such as a refused request.
	RecordOperation(ctx context.Context, operation dlq.Operation) error
	// OperationsOf returns the operations that asked for retries of these messages, by the tokens of the owners of the retries.
	// It does not check topics: the principal must already see the messages.
	OperationsOf(ctx context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error)
}

// Retries starts and watches the workflows of retries and of jobs. The Temporal Web UI shows who asked for a workflow. A
// command carries the id of the operation that asked for it. Every method may return an error that is dlq.ErrUnavailable while
// Temporal is unavailable.
type Retries interface {
	Waits
	// StartRetryMessage starts the retry of a message, or joins a retry that
	// is running.
	StartRetryMessage(ctx context.Context, asked *dlq.Operation, m *dlq.Message, input workflows.RetryMessageInput) (workflows.Execution, error)

	// SteerJob sends a command to a job. Commands take effect in the order of the calls. The call returns when the command has
	// taken effect, or when a later command has superseded it. It does not wait for the end of a cancelled job. A command that
	// is already in effect changes nothing, with one exception: if a job has paused itself, a pause makes it stay paused. The
	// error is dlq.ErrNotFound when the workflow does not run. When ctx ends first, the command may or may not have arrived.
	SteerJob(ctx context.Context, asked *dlq.Operation, j dlq.Job, c dlq.Command) error
	// TriggerArchive starts a run of the archive's schedule now, unless a run is active. It returns the id of the schedule, or
	// dlq.ErrNotFound if there is no schedule.
	TriggerArchive(ctx context.Context) (schedule string, err error)
}

// Waits is the part of Retries that the audit does not record: its methods send no commands, and the store records each new
// job.
type Waits interface {
	// AwaitRetryMessage waits for the end of the workflow. When ctx ends first, it
	// returns ctx's error and the workflow continues. Errors of the workflow are
	// *dlq.NotRetryableError, *dlq.OwnedError and dlq.ErrNotFound.
	AwaitRetryMessage(ctx context.Context, execution workflows.Execution) (workflows.RetryMessageResult, error)
	// StartJob starts the workflow of a job whose row exists, or joins the running workflow. It returns dlq.ErrNotFound when
	// the workflow has closed.
	StartJob(ctx context.Context, asked *dlq.Operation, j dlq.Job) (workflows.Execution, error)
	// AwaitJob waits like AwaitRetryMessage.
	AwaitJob(ctx context.Context, j dlq.Job) (workflows.JobResult, error)
	// AwaitCount waits until the workflow of a job has counted its scope, or has closed.
	AwaitCount(ctx context.Context, workflowID string) error
}
