package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"
)

// ArchiveStore moves and deletes old rows, one bounded batch a call. Both
// methods return how many rows they dealt with; fewer than limit means that
// nothing is left to do.
type ArchiveStore interface {
	ArchiveBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error)
	PurgeBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error)
}

// Archive holds the steps of the periodic archive.
type Archive struct {
	Store   ArchiveStore
	Metrics *Metrics
	Log     *zap.Logger
}

// ArchiveInput says what is old.
type ArchiveInput struct {
	OlderThan time.Duration `json:"older_than_ns"`
	BatchSize int           `json:"batch_size"`
}

// batchTimeout bounds one batch, which is up to 100,000 rows, below the heartbeat
// timeout. batchGrace is what the batch in hand gets of it once the worker stops.
const (
	batchTimeout = 30 * time.Second
	batchGrace   = time.Second
)

// errArchiveStopping makes Temporal repeat the activity on another worker. What is
// done stays done, and the count is in the heartbeat.
var errArchiveStopping = errors.New("the worker is stopping; the archive goes on elsewhere")

// MoveToArchive moves RESOLVED and DEAD messages to the archive table, batch by
// batch, and returns how many. Each batch is a transaction of its own, so a
// crash loses at most the count of one batch, never a message. A worker that stops
// leaves the rest to another.
func (a *Archive) MoveToArchive(ctx context.Context, in ArchiveInput) (int64, error) {
	return a.inBatches(ctx, in, a.Store.ArchiveBatch, func(n int64) { a.Metrics.archived.Add(float64(n)) })
}

// Purge deletes archived messages for good, batch by batch.
func (a *Archive) Purge(ctx context.Context, in ArchiveInput) (int64, error) {
	return a.inBatches(ctx, in, a.Store.PurgeBatch, func(n int64) { a.Metrics.purged.Add(float64(n)) })
}

func (a *Archive) inBatches(ctx context.Context, in ArchiveInput,
	batch func(context.Context, time.Duration, int) (int64, error), count func(int64),
) (int64, error) {
	if in.OlderThan < 0 || in.BatchSize <= 0 {
		return 0, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("a batch of %d messages older than %s: both must be positive", in.BatchSize, in.OlderThan), TypeInvalid, nil)
	}
	var total int64
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &total) // only the count is lost if it cannot be read
	}
	for {
		moved, err := inTime(ctx, func(ctx context.Context) (int64, error) { return batch(ctx, in.OlderThan, in.BatchSize) })
		if err == nil {
			count(moved)
			total += moved
			activity.RecordHeartbeat(ctx, total)
			if moved < int64(in.BatchSize) {
				return total, nil
			}
		}
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return total, errors.Join(errArchiveStopping, err)
		default:
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return total, err
		}
	}
}

// inTime gives a batch its deadline, and ends it soon when the worker stops. The
// database then undoes it, and it is done again.
func inTime(ctx context.Context, batch func(context.Context) (int64, error)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	stopping := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
		}
		timer := time.NewTimer(batchGrace)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
			cancel()
		}
	}()
	return batch(ctx)
}
