package workflows

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// sweepInterval bounds, together with sweepAge, how long a message stays
// RETRYING after its workflow was terminated by hand: under a minute.
const (
	sweepInterval = 20 * time.Second
	sweepAge      = 20 * time.Second
)

// GoneReason is why a job was closed that had no running workflow: whoever created
// its row may have crashed before it started the workflow.
const GoneReason = "its workflow is gone: it was terminated, or it never started"

// SweepStore finds and releases claims without looking at bodies.
type SweepStore interface {
	// Owners lists the owners of RETRYING messages claimed before the time.
	Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error)
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
	// RunningBulks lists the jobs that are not closed.
	RunningBulks(ctx context.Context) ([]dlq.BulkRetry, error)
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
}

// Sweeper gives back what belongs to workflows that are gone. Workflows end
// their claims themselves, also when cancelled or crashed. Only a termination by
// hand leaves something behind, and a crash between the row of a bulk retry and the
// start of its workflow. Several sweepers do no harm.
type Sweeper struct {
	Store   SweepStore
	Owners  activities.Owners
	Metrics *activities.Metrics
	Log     *zap.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx, time.Now().Add(-sweepAge)); err != nil && ctx.Err() == nil {
			s.Log.Warn("could not look for abandoned retries, trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sweep closes the jobs, and releases the messages claimed before the given time, of
// workflows that no longer run. What stops one of the two does not stop the other.
func (s *Sweeper) Sweep(ctx context.Context, claimedBefore time.Time) error {
	return errors.Join(s.closeBulks(ctx, claimedBefore), s.releaseClaims(ctx, claimedBefore))
}

func (s *Sweeper) closeBulks(ctx context.Context, startedBefore time.Time) error {
	bulks, err := s.Store.RunningBulks(ctx)
	if err != nil {
		return err
	}
	for i := range bulks {
		bulk := &bulks[i]
		if bulk.StartedAt.After(startedBefore) {
			continue
		}
		gone, err := s.isGone(ctx, bulk.Owner())
		if err != nil {
			return err
		}
		if gone {
			if _, err := s.Store.EndBulk(ctx, bulk.ID, dlq.BulkFailed, GoneReason); err != nil {
				return err
			}
			s.Log.Warn("closed a bulk retry whose workflow is gone", zap.Stringer("bulk_retry_id", bulk.ID))
		}
	}
	return nil
}

func (s *Sweeper) releaseClaims(ctx context.Context, claimedBefore time.Time) error {
	owners, err := s.Store.Owners(ctx, claimedBefore)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		gone, err := s.isGone(ctx, owner)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		released, err := s.Store.Release(ctx, owner, activities.OrphanReason)
		if err != nil {
			return err
		}
		s.Metrics.Released(released)
		s.Log.Warn("released messages whose workflow is gone",
			zap.String("workflow_id", owner.WorkflowID), zap.Int64("messages", released))
	}
	return nil
}

func (s *Sweeper) isGone(ctx context.Context, owner dlq.Owner) (bool, error) {
	running, err := s.Owners.IsRunning(ctx, owner)
	return !running, err
}
