package activities

import (
	"context"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// BulkStore is what a bulk retry needs of the store.
type BulkStore interface {
	// CountBulk counts what is in the scope, which may take long. Again changes
	// nothing. It returns dlq.ErrNotFound for an unknown job.
	CountBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// StopBulk lets nothing more be claimed: the state is BulkPausing or
	// BulkCancelling until the pages in hand have ended.
	StopBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// PauseBulk gives back what is still claimed and records why. ResumeBulk
	// is its inverse. Both may be repeated, and leave a job that has ended.
	PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error)
	ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error)
	// SetBulkRate changes the rate limit, in messages per second; 0 lifts it.
	SetBulkRate(ctx context.Context, id dlq.ID, perSecond int) error
	// SetStepLimit is how many messages may be sent from now on; nil
	// lifts it.
	SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error
	// EndBulk gives back what is still claimed and closes the job.
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	LaneStore
}

// LaneStore is what a lane needs of the store. Each method returns dlq.ErrBlocked,
// soon, while a lock of somebody else is in the way.
type LaneStore interface {
	// OpenLane makes the attempt the only one that may claim and finalize in the
	// lane, until a later one opens it. It returns dlq.ErrFenced when one has.
	OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error)
	// ClaimedPage returns the first messages that the lane has claimed and not
	// finalized, of up to so many bytes. One that is greater comes without its value.
	ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error)
	// ReleasePage gives that back, uncounted; the job comes back for it.
	ReleasePage(ctx context.Context, lane dlq.Lane) error
	// ClaimPage claims the next messages of the lane, at most dlq.PageSize and
	// dlq.PageBytes, in order of arrival and as the rate limit allows: from a queue that is due or, with
	// scan, those that it has not come upon yet.
	ClaimPage(ctx context.Context, lane dlq.Lane, scan bool) (dlq.LaneClaim, error)
	// FinalizePage ends claims and adds them to the lane's counters, in one
	// transaction. Messages that are no longer the lane's stay as they are. It returns
	// dlq.ErrFenced once a newer attempt has the lane.
	FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error)
}

// Bulk holds the steps of a bulk retry.
type Bulk struct {
	Store BulkStore
	// Publisher is nil when Kafka is not configured.
	Publisher Publisher
	// Memory bounds the messages that are held at once.
	Memory  *Memory
	Metrics *Metrics
	Log     *zap.Logger
}

// BulkBegun is a job that may be sent.
type BulkBegun struct {
	Bulk dlq.BulkRetry `json:"bulk"`
	// Published is false when Kafka is not configured.
	Published bool `json:"published"`
}

// CountLimit bounds the counting of a scope, which reads all of it: ten million messages
// take several seconds from memory and longer from a disk.
const CountLimit = 5 * time.Minute

// BeginBulk counts the scope of the job, which was frozen when it was created.
// Nothing is sent before. It ends early when it is cancelled.
func (a *Bulk) BeginBulk(ctx context.Context, id dlq.ID) (BulkBegun, error) {
	_, stop := startHeartbeat(ctx, LaneReport{}, CountLimit)
	defer stop()
	bulk, err := a.Store.CountBulk(ctx, id)
	if err != nil {
		return BulkBegun{}, toTemporal(err)
	}
	a.Log.Info("bulk retry started", zap.Stringer("bulk_retry_id", bulk.ID), zap.String("topic", bulk.Spec.Topic),
		zap.Int64("matched", bulk.Matched), zap.Int("lanes", bulk.Lanes))
	if a.Publisher == nil {
		a.Log.Warn("kafka is not configured: resolving without publishing", zap.Stringer("bulk_retry_id", bulk.ID))
	}
	return BulkBegun{Bulk: bulk, Published: a.Publisher != nil}, nil
}

// ReadBulk returns the job as it stands.
func (a *Bulk) ReadBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	bulk, err := a.Store.Bulk(ctx, id)
	return bulk, toTemporal(err)
}

// StopInput says how the job is to stop, and why.
type StopInput struct {
	ID     dlq.ID        `json:"id"`
	State  dlq.BulkState `json:"state"`
	Reason string        `json:"reason"`
}

// StopBulk records that nothing more may be claimed. The pages in hand go on to
// their end.
func (a *Bulk) StopBulk(ctx context.Context, in StopInput) (dlq.BulkRetry, error) {
	bulk, err := a.Store.StopBulk(ctx, in.ID, in.State, in.Reason)
	return bulk, toTemporal(err)
}

// PauseInput says why the job pauses.
type PauseInput struct {
	ID     dlq.ID `json:"id"`
	Reason string `json:"reason"`
}

// PauseBulk records that the job sends nothing. Nothing of it is RETRYING
// afterwards.
func (a *Bulk) PauseBulk(ctx context.Context, in PauseInput) (dlq.BulkRetry, error) {
	bulk, err := a.Store.PauseBulk(ctx, in.ID, in.Reason)
	if err == nil {
		a.Log.Info("bulk retry paused", zap.Stringer("bulk_retry_id", in.ID), zap.String("reason", in.Reason))
	}
	return bulk, toTemporal(err)
}

// ResumeBulk records that the job goes on.
func (a *Bulk) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	bulk, err := a.Store.ResumeBulk(ctx, id)
	if err == nil {
		a.Log.Info("bulk retry goes on", zap.Stringer("bulk_retry_id", id))
	}
	return bulk, toTemporal(err)
}

// RateInput is a new rate limit, in messages per second; 0 lifts it.
type RateInput struct {
	ID        dlq.ID `json:"id"`
	PerSecond int    `json:"per_second"`
}

// SetBulkRate changes the rate limit. The lanes see it with their next claim.
func (a *Bulk) SetBulkRate(ctx context.Context, in RateInput) error {
	return toTemporal(a.Store.SetBulkRate(ctx, in.ID, in.PerSecond))
}

// StepLimitInput is how many messages may be sent; nil lifts the limit.
type StepLimitInput struct {
	ID       dlq.ID `json:"id"`
	Messages *int64 `json:"messages"`
}

// SetBulkAllowance opens a step of a ramp, or all of the rest. It keeps the name by which
// the histories of running workflows know it.
func (a *Bulk) SetBulkAllowance(ctx context.Context, in StepLimitInput) error {
	return toTemporal(a.Store.SetStepLimit(ctx, in.ID, in.Messages))
}

// EndInput says how the job ended.
type EndInput struct {
	ID     dlq.ID        `json:"id"`
	State  dlq.BulkState `json:"state"`
	Reason string        `json:"reason"`
}

// EndBulk closes the job. Nothing of it is RETRYING afterwards.
func (a *Bulk) EndBulk(ctx context.Context, in EndInput) (dlq.BulkRetry, error) {
	ended, err := a.Store.EndBulk(ctx, in.ID, in.State, in.Reason)
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	a.Log.Info("bulk retry ended", zap.Stringer("bulk_retry_id", ended.ID), zap.String("topic", ended.Spec.Topic),
		zap.String("state", string(ended.State)), zap.String("reason", ended.Reason),
		zap.Int64("matched", ended.Matched), zap.Int64("retried", ended.Counts.Retried),
		zap.Int64("failed", ended.Counts.Failed), zap.Int64("dead", ended.Counts.Dead), zap.Int64("skipped", ended.Counts.Skipped))
	return ended, nil
}
