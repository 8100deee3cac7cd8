package activities

import (
	"context"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// BulkStore has the methods of the store that a bulk retry calls.
type BulkStore interface {
	// CountBulk counts the messages in the scope, which may take long. A second call
	// changes nothing. The error is dlq.ErrNotFound for an unknown job.
	CountBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// StopBulk stops the claims: the state is BulkPausing or BulkCancelling until the
	// claimed pages have been finalized.
	StopBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// PauseBulk releases the claimed messages and records the reason. ResumeBulk is its
	// inverse. Both are idempotent, and do not change a job that has ended.
	PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error)
	ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// HasClosedTarget tells whether a target refused the job and has not been found open since.
	HasClosedTarget(ctx context.Context, id dlq.ID) (bool, error)
	// SetBulkRate changes the rate limit, in messages per second; 0 lifts the limit.
	SetBulkRate(ctx context.Context, id dlq.ID, perSecond int) error
	// SetStepLimit sets how many messages may be sent from now on; nil lifts the limit.
	SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error
	// VerifyBulk counts what the job has delivered by whether it is verified.
	VerifyBulk(ctx context.Context, id dlq.ID) (dlq.Verifications, error)
	// EndBulk releases the claimed messages and closes the job.
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	LaneStore
	AuditReader
}

// LaneStore has the methods of the store that a lane calls. Each of them waits only
// briefly for a lock that another transaction holds, and then returns dlq.ErrBlocked.
type LaneStore interface {
	// OpenLane makes the attempt the only attempt that may claim and finalize in the
	// lane, until a later attempt opens the lane. Then the error is dlq.ErrFenced.
	OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error)
	// ClaimedPage returns the first messages that the lane has claimed and not finalized,
	// up to the given number of bytes. A single larger message comes without its value.
	ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error)
	// ReleasePage releases these messages, uncounted; the job claims them again later.
	ReleasePage(ctx context.Context, lane dlq.Lane) error
	// ClaimPage claims the next messages of the lane in order of arrival: at most
	// dlq.PageSize, dlq.PageBytes, and as many as the rate limit allows. They come from
	// a queue that is due or, with scan, from beyond the lane's cursor.
	ClaimPage(ctx context.Context, lane dlq.Lane, scan bool) (dlq.LaneClaim, error)
	// FinalizePage ends claims and adds them to the lane's counters, in a transaction.
	// FinalizePage changes no messages that the lane no longer owns. The error is dlq.ErrFenced
	// once a newer attempt has the lane.
	FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error)
}

// Bulk holds the steps of a bulk retry.
type Bulk struct {
	Store BulkStore
	// Publisher is nil when Kafka is not configured.
	Publisher Publisher
	// Memory bounds the messages that are in memory at once.
	Memory  *Memory
	Metrics *Metrics
	Log     *zap.Logger
	// Targets decides where messages go; nil for their original topics.
	Targets *dlq.Targets
}

// BulkBegun is a job whose scope has been counted.
type BulkBegun struct {
	Bulk dlq.BulkRetry `json:"bulk"`
	// Published is false when Kafka is not configured.
	Published bool `json:"published"`
}

// CountTimeout bounds the counting of a scope. Ten million messages take several seconds
// when they are cached, and longer when they are read from disk.
const CountTimeout = 5 * time.Minute

// BeginBulk counts the scope of the job. The snapshot was taken when the job was created.
// Nothing is sent before the count. A cancellation ends the count early.
func (a *Bulk) BeginBulk(ctx context.Context, id dlq.ID) (BulkBegun, error) {
	_, stop := startHeartbeat(ctx, LaneReport{}, CountTimeout)
	defer stop()
	bulk, err := a.Store.CountBulk(ctx, id)
	if err == nil && bulk.Spec.TargetTopic != "" {
		_, err = a.Targets.Of("", bulk.Spec.TargetTopic) // the API may have another configuration
	}
	if err != nil {
		return BulkBegun{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("bulk retry started", zap.Stringer("bulk_retry_id", bulk.ID), zap.String("topic", bulk.Spec.Topic),
		zap.Int64("matched", bulk.Matched), zap.Int("lanes", bulk.Lanes))
	if a.Publisher == nil {
		logger(ctx, a.Log).Warn("kafka is not configured: resolving without publishing", zap.Stringer("bulk_retry_id", bulk.ID))
	}
	bulk.Spec.Filter = forHistory(bulk.Spec.Filter)
	return BulkBegun{Bulk: bulk, Published: a.Publisher != nil}, nil
}

// ReadBulk returns the job.
func (a *Bulk) ReadBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return shown(a.Store.Bulk(ctx, id))
}

// StateInput is the state that a job gets, and the reason.
type StateInput struct {
	ID     dlq.ID        `json:"id"`
	State  dlq.BulkState `json:"state"`
	Reason string        `json:"reason"`
}

// StopBulk stops the claims of the job. Claimed pages are still sent and finalized.
func (a *Bulk) StopBulk(ctx context.Context, in StateInput) (dlq.BulkRetry, error) {
	return shown(a.Store.StopBulk(ctx, in.ID, in.State, in.Reason))
}

// PauseInput is the input of PauseBulk: the job, and the reason.
type PauseInput struct {
	ID     dlq.ID `json:"id"`
	Reason string `json:"reason"`
	// TargetClosed pauses the job only if a target is still closed.
	TargetClosed bool `json:"target_closed,omitempty"`
	// Update is the id of the update that asked for this; empty if the job pauses itself.
	Update string `json:"update,omitempty"`
}

// PauseBulk pauses the job. None of its messages are RETRYING afterwards.
//
// With in.TargetClosed the job stays PAUSING when its target is open: while a lane asks the target, the other lanes
// wait as if the target were closed, and may say so after that lane has sent all its messages.
func (a *Bulk) PauseBulk(ctx context.Context, in PauseInput) (dlq.BulkRetry, error) {
	if in.TargetClosed {
		closed, err := a.Store.HasClosedTarget(ctx, in.ID)
		if err != nil {
			return dlq.BulkRetry{}, toTemporal(err)
		}
		if !closed {
			return a.ReadBulk(ctx, in.ID)
		}
	}
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandPause, in.Reason)
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	bulk, err := a.Store.PauseBulk(asked, in.ID, in.Reason)
	if err == nil {
		logger(ctx, a.Log).Info("bulk retry paused", zap.Stringer("bulk_retry_id", in.ID), zap.String("reason", in.Reason))
	}
	return shown(bulk, err)
}

// ResumeInput names the job to resume.
type ResumeInput struct {
	ID dlq.ID `json:"id"`
	// Update is the id of the update that asked for this; empty if the job resumes by itself.
	Update string `json:"update,omitempty"`
}

// ResumeBulk makes a paused job RUNNING again.
func (a *Bulk) ResumeBulk(ctx context.Context, in ResumeInput) (dlq.BulkRetry, error) {
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandResume, "")
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	bulk, err := a.Store.ResumeBulk(asked, in.ID)
	if err == nil {
		logger(ctx, a.Log).Info("bulk retry resumed", zap.Stringer("bulk_retry_id", in.ID))
	}
	return shown(bulk, err)
}

// RateInput is a new rate limit, in messages per second; 0 lifts the limit.
type RateInput struct {
	ID        dlq.ID `json:"id"`
	PerSecond int    `json:"per_second"`
	// Update is the id of the update that asked for this.
	Update string `json:"update"`
}

// SetBulkRate changes the rate limit. The lanes' next claims apply the new limit.
func (a *Bulk) SetBulkRate(ctx context.Context, in RateInput) error {
	asked, err := a.askedBy(ctx, in.ID, in.Update, dlq.CommandRate, "")
	if err != nil {
		return toTemporal(err)
	}
	return toTemporal(a.Store.SetBulkRate(asked, in.ID, in.PerSecond))
}

// StepLimitInput is how many messages may be sent; nil lifts the limit.
type StepLimitInput struct {
	ID       dlq.ID `json:"id"`
	Messages *int64 `json:"messages"`
}

// SetStepLimit sets the step limit of a ramp, or lifts the limit after the last step. The
// name is fixed, because workflow histories contain the name.
func (a *Bulk) SetStepLimit(ctx context.Context, in StepLimitInput) error {
	return toTemporal(a.Store.SetStepLimit(ctx, in.ID, in.Messages))
}

// VerifyBulk counts what the job has delivered by whether it is verified.
func (a *Bulk) VerifyBulk(ctx context.Context, id dlq.ID) (dlq.Verifications, error) {
	counts, err := a.Store.VerifyBulk(ctx, id)
	return counts, toTemporal(err)
}

// EndBulk closes the job. None of its messages are RETRYING afterwards.
func (a *Bulk) EndBulk(ctx context.Context, in StateInput) (dlq.BulkRetry, error) {
	asked, err := endedBy(ctx, a.Store, in, dlq.PermBulkRetryControl)
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	ended, err := a.Store.EndBulk(asked, in.ID, in.State, in.Reason)
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	logger(ctx, a.Log).Info("bulk retry ended", zap.Stringer("bulk_retry_id", ended.ID), zap.String("topic", ended.Spec.Topic),
		zap.String("state", string(ended.State)), zap.String("reason", ended.Reason),
		zap.Int64("matched", ended.Matched), zap.Int64("retried", ended.Counts.Retried),
		zap.Int64("failed", ended.Counts.Failed), zap.Int64("dead", ended.Counts.Dead), zap.Int64("skipped", ended.Counts.Skipped))
	return shown(ended, nil)
}

// shown is the job as in histories.
func shown(bulk dlq.BulkRetry, err error) (dlq.BulkRetry, error) {
	bulk.Spec.Filter = forHistory(bulk.Spec.Filter)
	return bulk, toTemporal(err)
}

// forHistory keeps the topic of a job's filter only. The rest may have the key of a record, or
// a part of an error text, and everybody who may use the Temporal Web UI can read the results of
// activities. The job's row has the whole filter.
func forHistory(f dlq.Filter) dlq.Filter { return dlq.Filter{Topic: f.Topic} }
