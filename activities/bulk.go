package activities

import (
	"context"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// BulkStore is what a bulk retry needs of the store.
type BulkStore interface {
	// StartBulk freezes the scope. Starting the same id again changes nothing.
	StartBulk(ctx context.Context, bulk dlq.BulkRetry) (dlq.BulkRetry, error)
	// ClaimedPage returns what the lane's owner has claimed and not finalized.
	ClaimedPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error)
	// ClaimPage claims the next messages of the lane, at most dlq.PageSize, in
	// order of arrival. None means that the lane is at its end.
	ClaimPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error)
	// FinalizePage ends claims and adds them to the lane's counters, in one
	// transaction, and returns the counters.
	FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (dlq.BulkCounts, error)
	// NoteBulk records why the job is waiting; empty when it no longer is.
	NoteBulk(ctx context.Context, id dlq.ID, reason string) error
	// EndBulk gives back what is still claimed and closes the job.
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
}

// Bulk holds the steps of a bulk retry.
type Bulk struct {
	Store BulkStore
	// Publisher is nil when Kafka is not configured.
	Publisher Publisher
	Metrics   *Metrics
	Log       *zap.Logger
}

// BulkPlan is a frozen scope.
type BulkPlan struct {
	Bulk dlq.BulkRetry
	// Published is false when Kafka is not configured.
	Published bool
}

// PlanBulk freezes the scope of the job and records it.
func (a *Bulk) PlanBulk(ctx context.Context, bulk dlq.BulkRetry) (BulkPlan, error) {
	started, err := a.Store.StartBulk(ctx, bulk)
	if err != nil {
		return BulkPlan{}, toTemporal(err)
	}
	a.Log.Info("bulk retry started", zap.Stringer("bulk_retry_id", started.ID), zap.String("topic", started.Topic),
		zap.Int64("matched", started.Matched), zap.Int("lanes", started.Lanes))
	if a.Publisher == nil {
		a.Log.Warn("kafka is not configured: resolving without publishing", zap.Stringer("bulk_retry_id", started.ID))
	}
	return BulkPlan{Bulk: started, Published: a.Publisher != nil}, nil
}

// EndInput says how the job ended.
type EndInput struct {
	ID     dlq.ID
	State  dlq.BulkState
	Reason string
}

// EndBulk closes the job. Nothing of it is RETRYING afterwards.
func (a *Bulk) EndBulk(ctx context.Context, in EndInput) (dlq.BulkRetry, error) {
	ended, err := a.Store.EndBulk(ctx, in.ID, in.State, in.Reason)
	if err != nil {
		return dlq.BulkRetry{}, toTemporal(err)
	}
	a.Log.Info("bulk retry ended", zap.Stringer("bulk_retry_id", ended.ID), zap.String("topic", ended.Topic),
		zap.String("state", string(ended.State)), zap.String("reason", ended.Reason),
		zap.Int64("matched", ended.Matched), zap.Int64("retried", ended.Counts.Retried),
		zap.Int64("failed", ended.Counts.Failed), zap.Int64("dead", ended.Counts.Dead), zap.Int64("skipped", ended.Counts.Skipped))
	return ended, nil
}
