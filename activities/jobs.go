package activities

import (
	"context"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// JobStore has the methods of the store that a job calls.
type JobStore interface {
	// CountJob counts the messages in the scope, which may take long. A second call
	// changes nothing. The error is dlq.ErrNotFound for an unknown job.
	CountJob(ctx context.Context, id dlq.ID) (dlq.Job, error)
	Job(ctx context.Context, id dlq.ID) (dlq.Job, error)
	// StopJob stops the claims: the state is JobPausing or JobCancelling until the
	// claimed pages have been finalized.
	StopJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	// PauseJob releases the claimed messages and records the reason. ResumeJob is the inverse of PauseJob. Both methods are
	// idempotent, and do not change a job that has ended.
	PauseJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, reason string) (dlq.Job, error)
	ResumeJob(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Job, error)
	// HasClosedTarget tells whether a target has refused the job's messages and has not been found open since.
	HasClosedTarget(ctx context.Context, id dlq.ID) (bool, error)
	// SetJobRate changes the rate limit, in messages per second; 0 lifts the limit.
	SetJobRate(ctx context.Context, asked *dlq.Operation, id dlq.ID, perSecond int) error
	// SetStepLimit sets how many messages may be sent from now on; nil lifts the limit.
	SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error
	// VerifyJob counts the messages that the job has delivered, by whether they are verified.
	VerifyJob(ctx context.Context, id dlq.ID) (dlq.Verifications, error)
	// Act runs the next batch of a bulk change in one transaction. It reads at most limit messages, or ten times as many if
	// the filter names a key. It changes and counts those that match, and moves the job's cursor. If the job is not
	// running, Act changes nothing. The error is dlq.ErrSlow when fewer messages may be fast enough.
	Act(ctx context.Context, job dlq.Job, limit int) (dlq.ChangeStep, error)
	// ExplainJob records in the job's row why the job does not continue. The next batch that succeeds removes the reason.
	ExplainJob(ctx context.Context, id dlq.ID, cause error) error
	// EndJob releases the claimed messages and closes the job. Act changes nothing afterwards.
	EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	LaneStore
	AuditReader
}

// LaneStore has the methods of the store that a lane calls. Each method waits at most a second for a lock that another
// transaction holds, and then returns dlq.ErrBlocked.
type LaneStore interface {
	// OpenLane makes the attempt the newest attempt at the lane. Only the newest attempt may claim and finalize. The error
	// is dlq.ErrFenced if a newer attempt has opened the lane before.
	OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error)
	// ClaimedPage returns the first messages that the lane has claimed and not finalized, up to dlq.PageBytes. If they have
	// more than the given number of bytes, they come without their records.
	ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error)
	// ReleasePage releases the messages that the lane has claimed and not finalized. Their retries are not counted, and the
	// job claims these messages again later.
	ReleasePage(ctx context.Context, lane dlq.Lane) error
	// NextPage finalizes a page as FinalizePage does, and claims the lane's next messages in order of arrival, all in one
	// transaction. It claims at most dlq.PageSize messages and dlq.PageBytes, and no more than the limits of the job allow.
	// The messages come from a queue that is due or, if scan is set, from beyond the lane's cursor. The error is
	// dlq.ErrUnfinished if the lane has claimed messages that outcomes does not name.
	NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error)
	// FinalizePage ends claims and adds them to the lane's counters, in a transaction.
	// FinalizePage changes no messages that the lane no longer owns. The error is dlq.ErrFenced
	// once a newer attempt has the lane.
	FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error)
}

// Jobs holds the steps of jobs.
type Jobs struct {
	Store JobStore
	// Publisher is nil when Kafka is not configured.
	Publisher Publisher
	// Memory bounds the messages that are in memory at once.
	Memory  *Memory
	Metrics *Metrics
	Log     *zap.Logger
	// Targets decides where messages go; nil sends them to their original topics.
	Targets *dlq.Targets
}

// JobBegun is a job whose scope has been counted.
type JobBegun struct {
	Job dlq.Job `json:"job"`
	// Published is false when Kafka is not configured, and for a bulk change.
	Published bool `json:"published"`
}

// CountTimeout bounds the counting of a scope. Ten million messages take several seconds
// when they are cached, and longer when they are read from disk.
const CountTimeout = 5 * time.Minute

// BeginJob counts the scope of the job. The snapshot was taken when the job was created.
// Nothing is sent before the count. A cancellation ends the count early.
func (a *Jobs) BeginJob(ctx context.Context, id dlq.ID) (JobBegun, error) {
	_, stop := startHeartbeat(ctx, LaneReport{}, CountTimeout)
	defer stop()
	job, err := a.Store.CountJob(ctx, id)
	if err == nil && job.Spec.TargetTopic != "" {
		_, err = a.Targets.Of("", job.Spec.TargetTopic) // the API may have other targets in its configuration
	}
	if err != nil {
		a.explain(ctx, id, err)
		return JobBegun{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("job started", zap.Stringer("job_id", id), zap.String("kind", string(job.Spec.Kind)),
		zap.String("topic", job.Spec.Topic), zap.String("reason", job.Spec.Reason), zap.Int64("matched", job.Matched), zap.Int("lanes", job.Lanes))
	isRetry := job.Spec.Kind == dlq.KindRetry
	if a.Publisher == nil && isRetry {
		logger(ctx, a.Log).Warn("kafka is not configured: resolving without publishing", zap.Stringer("job_id", id))
	}
	job.Spec.Filter = forHistory(job.Spec.Filter)
	return JobBegun{Job: job, Published: a.Publisher != nil && isRetry}, nil
}

// ReadJob returns the job.
func (a *Jobs) ReadJob(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	return shown(a.Store.Job(ctx, id))
}

// StateInput asks for another state of a job, with a reason. PauseJob and ResumeJob ignore State.
type StateInput struct {
	ID     dlq.ID       `json:"id"`
	State  dlq.JobState `json:"state"`
	Reason string       `json:"reason"`
	// TargetClosed pauses the job only if a target is still closed.
	TargetClosed bool `json:"target_closed,omitempty"`
	// Update is the id of the Temporal update that asked for the state; empty if the job pauses or resumes by itself.
	Update string `json:"update,omitempty"`
}

// StopJob stops the claims of the job. Claimed pages are still sent and finalized.
func (a *Jobs) StopJob(ctx context.Context, in StateInput) (dlq.Job, error) {
	return shown(a.Store.StopJob(ctx, nil, in.ID, in.State, in.Reason))
}

// PauseJob pauses the job. None of its messages are RETRYING afterwards.
//
// If in.TargetClosed is set and the target is open, the job stays PAUSING. While one lane tries a closed target, the other
// lanes wait. They may report the target as closed after the first lane has sent all its messages.
func (a *Jobs) PauseJob(ctx context.Context, in StateInput) (dlq.Job, error) {
	if in.TargetClosed {
		closed, err := a.Store.HasClosedTarget(ctx, in.ID)
		if err != nil {
			return dlq.Job{}, toTemporal(err)
		}
		if !closed {
			return a.ReadJob(ctx, in.ID)
		}
	}
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandPause, in.Reason)
	if err != nil {
		return dlq.Job{}, toTemporal(err)
	}
	bulk, err := a.Store.PauseJob(ctx, asked, in.ID, in.Reason)
	if err == nil {
		logger(ctx, a.Log).Info("job paused", zap.Stringer("job_id", in.ID), zap.String("reason", in.Reason))
	}
	return shown(bulk, err)
}

// ResumeJob makes a paused job RUNNING again.
func (a *Jobs) ResumeJob(ctx context.Context, in StateInput) (dlq.Job, error) {
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandResume, "")
	if err != nil {
		return dlq.Job{}, toTemporal(err)
	}
	bulk, err := a.Store.ResumeJob(ctx, asked, in.ID)
	if err == nil {
		logger(ctx, a.Log).Info("job resumed", zap.Stringer("job_id", in.ID))
	}
	return shown(bulk, err)
}

// RateInput is a new rate limit, in messages per second; 0 lifts the limit.
type RateInput struct {
	ID        dlq.ID `json:"id"`
	PerSecond int    `json:"per_second"`
	// Update is the id of the Temporal update that asked for the limit.
	Update string `json:"update"`
}

// SetJobRate changes the rate limit. The lanes' next claims apply the new limit.
func (a *Jobs) SetJobRate(ctx context.Context, in RateInput) error {
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandRate, "")
	if err != nil {
		return toTemporal(err)
	}
	return toTemporal(a.Store.SetJobRate(ctx, asked, in.ID, in.PerSecond))
}

// StepLimitInput is how many messages the job may send from now on; nil lifts the limit.
type StepLimitInput struct {
	ID       dlq.ID `json:"id"`
	Messages *int64 `json:"messages"`
}

// SetStepLimit sets the step limit of a ramp, or lifts the limit after the last step. The
// name is fixed, because workflow histories contain the name.
func (a *Jobs) SetStepLimit(ctx context.Context, in StepLimitInput) error {
	return toTemporal(a.Store.SetStepLimit(ctx, in.ID, in.Messages))
}

// VerifyJob counts the messages that the job has delivered, by whether they are verified.
func (a *Jobs) VerifyJob(ctx context.Context, id dlq.ID) (dlq.Verifications, error) {
	counts, err := a.Store.VerifyJob(ctx, id)
	return counts, toTemporal(err)
}

// EndJob closes the job. Afterwards the job changes no message, and none of its messages is RETRYING.
func (a *Jobs) EndJob(ctx context.Context, in StateInput) (dlq.Job, error) {
	asked, err := endedBy(ctx, a.Store, in)
	if err != nil {
		return dlq.Job{}, toTemporal(err)
	}
	ended, err := a.Store.EndJob(ctx, asked, in.ID, in.State, in.Reason)
	if err != nil {
		return dlq.Job{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("job ended", zap.Stringer("job_id", ended.ID), zap.String("kind", string(ended.Spec.Kind)),
		zap.String("topic", ended.Spec.Topic), zap.String("state", string(ended.State)), zap.String("reason", ended.Reason),
		zap.Int64("matched", ended.Matched), zap.Int64("retried", ended.Counts.Retried), zap.Int64("failed", ended.Counts.Failed),
		zap.Int64("dead", ended.Counts.Dead), zap.Int64("changed", ended.Counts.Changed), zap.Int64("skipped", ended.Counts.Skipped))
	return shown(ended, nil)
}

// shown returns the job without the parts that must not go into workflow histories.
func shown(bulk dlq.Job, err error) (dlq.Job, error) {
	bulk.Spec.Filter = forHistory(bulk.Spec.Filter)
	return bulk, toTemporal(err)
}

// forHistory keeps only the topic of a job's filter. The other fields may have the key of a record or a part of an error
// text. Everybody who may use the Temporal Web UI can read the results of activities. The job's row has the whole filter.
func forHistory(f dlq.Filter) dlq.Filter { return dlq.Filter{Topic: f.Topic} }
