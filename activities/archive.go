package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// ArchiveStore moves and deletes old rows, one batch per call. The methods with a limit
// return the number of rows; a number below limit means that no more rows are old enough.
type ArchiveStore interface {
	ArchiveBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error)
	PurgeBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error)
	// PurgeOperations deletes old rows of the audit, like PurgeBatch.
	PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error)
	// RecordArchiveRuns writes the counts of a run that has ended, and of interrupted runs, into
	// the audit. Each batch adds to the counts of its run.
	RecordArchiveRuns(ctx context.Context, runID string) error
	// PurgeGroups removes groups that are not used any more, like PurgeBatch.
	PurgeGroups(ctx context.Context, olderThan time.Duration, limit int) (int64, error)
}

// Archive holds the steps of the periodic archive. The retention times come from the configuration, not from the input of
// the workflow. Otherwise everybody who may start workflows could purge everything.
type Archive struct {
	Store ArchiveStore
	// Retention is how long RESOLVED and DEAD messages stay in the main table.
	Retention time.Duration
	// PurgeAfter is how long these messages stay in the main table and the archive table together. Both times count from
	// the message's last change.
	PurgeAfter time.Duration
	// BatchSize is the maximum number of messages in a batch.
	BatchSize int
	// AuditRetention is how long the audit keeps an operation; 0 is for ever, which only tests use.
	AuditRetention time.Duration
	Metrics        *Metrics
	Log            *zap.Logger
}

// batchTimeout bounds a batch of up to 100,000 rows, and is shorter than the heartbeat
// timeout. batchGrace is how long the current batch may still run once the worker stops.
const (
	batchTimeout = 30 * time.Second
	batchGrace   = time.Second
)

// ArchivePace keeps the archive out of the way of ingest and retries, since the archive is not
// urgent. Batches are short, so that nobody waits long for a batch. The rests between batches take
// most of the time.
type ArchivePace struct {
	// Limit is the size of the next batch, and Most the size of the largest batch.
	Limit, Most int
}

// NewArchivePace begins with small batches.
func NewArchivePace(most int) *ArchivePace { return &ArchivePace{Limit: min(most, 100), Most: most} }

// After adapts Limit to the time that a batch took, and returns how long to rest.
func (p *ArchivePace) After(took time.Duration) (rest time.Duration) {
	switch {
	case took < 2*time.Millisecond:
		p.Limit = min(2*p.Limit, p.Most)
	case took > 8*time.Millisecond:
		p.Limit = max(p.Limit/2, min(p.Most, 50))
	}
	return min(3*took, 5*time.Second)
}

// MoveToArchive moves RESOLVED and DEAD messages to the archive table, batch by batch, and returns how many it moved. Each
// batch is a transaction, so a crash loses at most the count of one batch, never a message. When the worker stops, another
// worker continues.
func (a *Archive) MoveToArchive(ctx context.Context) (int64, error) {
	return a.inBatches(ctx, a.Retention, a.Store.ArchiveBatch, func(n int64) { a.Metrics.archived.Add(float64(n)) })
}

// Purge deletes archived messages, batch by batch, and returns how many it deleted. Then Purge writes the counts of the run
// into the audit, and deletes the operations of the audit that are older than AuditRetention. Last, Purge deletes groups
// that are not used any more, since their last messages may have been purged.
func (a *Archive) Purge(ctx context.Context) (int64, error) {
	purged, err := a.inBatches(ctx, a.PurgeAfter, a.Store.PurgeBatch, func(n int64) { a.Metrics.purged.Add(float64(n)) })
	if err == nil {
		err = a.Store.RecordArchiveRuns(ctx, activity.GetInfo(ctx).WorkflowExecution.RunID)
	}
	for _, rest := range []struct {
		name      string
		retention time.Duration
		purge     batches
	}{{"operations of the audit", a.AuditRetention, a.Store.PurgeOperations}, {"groups", dlq.GroupRetention, a.Store.PurgeGroups}} {
		if err != nil || rest.retention == 0 {
			continue
		}
		var rows int64
		err = drain(ctx, rest.retention, a.BatchSize, rest.purge, func(n int64) {
			rows += n
			activity.RecordHeartbeat(ctx, purged) // the next attempt continues with this count
		})
		if rows > 0 {
			a.Log.Info("purged "+rest.name, zap.Int64("rows", rows))
		}
		err = keepCount(ctx, purged, err)
	}
	return purged, err
}

// batches is a function that moves or deletes at most limit rows, and returns how many.
type batches func(ctx context.Context, olderThan time.Duration, limit int) (int64, error)

// runBatches is like batches, for rows that are counted for a run of the archive.
type runBatches func(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error)

func (a *Archive) inBatches(ctx context.Context, olderThan time.Duration, batch runBatches, count func(int64)) (int64, error) {
	if olderThan <= 0 || a.BatchSize <= 0 { // the worker was put together wrongly
		return 0, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("a batch of %d messages older than %s: both must be positive", a.BatchSize, olderThan), TypeInvalid, nil)
	}
	execution := activity.GetInfo(ctx).WorkflowExecution
	ofRun := func(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
		return batch(ctx, dlq.ArchiveRun{WorkflowID: execution.ID, RunID: execution.RunID}, olderThan, limit)
	}
	var total int64
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &total) // if unreadable, only the count is lost
	}
	err := drain(ctx, olderThan, a.BatchSize, ofRun, func(moved int64) {
		count(moved)
		total += moved
		activity.RecordHeartbeat(ctx, total)
	})
	return total, keepCount(ctx, total, err)
}

// keepCount gives the count to the next attempt when the worker stops, and returns err.
// RecordHeartbeat does not suffice: when the worker stops, the SDK sends a heartbeat that it has
// held back. The activity may have ended by then, and the heartbeat is lost.
func keepCount(ctx context.Context, count int64, err error) error {
	if errors.Is(err, errWorkerStopping) {
		_ = activity.GetClient(ctx).RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, count)
	}
	return err
}

// drain runs batches until a batch is not full, and calls moved after each batch.
func drain(ctx context.Context, olderThan time.Duration, most int, batch batches, moved func(int64)) error {
	pace := NewArchivePace(most)
	for {
		began := time.Now()
		n, err := withDeadline(ctx, func(ctx context.Context) (int64, error) { return batch(ctx, olderThan, pace.Limit) })
		rest := time.Millisecond
		if err == nil {
			moved(n)
			if n < int64(pace.Limit) {
				return nil
			}
			rest = pace.After(time.Since(began))
		}
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return errors.Join(errWorkerStopping, err)
		case <-ctx.Done():
		case <-time.After(rest):
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// withDeadline bounds a batch, and cancels the batch batchGrace after the worker begins to stop.
// The database rolls a cancelled batch back, and the next attempt repeats the batch.
func withDeadline(ctx context.Context, batch func(context.Context) (int64, error)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-activity.GetWorkerStopChannel(ctx):
			time.AfterFunc(batchGrace, cancel)
		}
	}()
	return batch(ctx)
}
