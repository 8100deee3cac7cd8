package workflows

import (
	"context"
	"errors"
	"fmt"
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

// Limits of the sweeper's calls: an answer that does not come must not end the
// sweeping. A release or the end of a job may be of a million messages.
const (
	lookLimit   = 10 * time.Second
	changeLimit = 2 * time.Minute
)

// SweepStore finds and releases claims without looking at bodies. Its times are
// by its own clock.
type SweepStore interface {
	Now(ctx context.Context) (time.Time, error)
	// Owners lists the owners of RETRYING messages claimed before the time, but for those of
	// BulkOwners. With an error it lists those that it has found.
	Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error)
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
	// BulkOwners lists the owners of the jobs that are not closed and were started
	// before the time. Their tokens are the jobs' ids.
	BulkOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// FoldCounts keeps the counts of messages cheap to read.
	FoldCounts(ctx context.Context) error
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
		now, err := within(ctx, lookLimit, s.Store.Now)
		if err == nil {
			err = s.Sweep(ctx, now.Add(-sweepAge))
		}
		if err != nil && ctx.Err() == nil {
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
// workflows that no longer run. What stops one of the two does not stop the other,
// and an owner or a job that fails does not keep it from the next one.
func (s *Sweeper) Sweep(ctx context.Context, claimedBefore time.Time) error {
	var failed failures
	// First: what follows may have to wait for Temporal.
	_, err := within(ctx, lookLimit, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.FoldCounts(ctx) })
	failed.add(err)
	failed.add(s.closeBulks(ctx, claimedBefore, &failed))
	failed.add(s.releaseClaims(ctx, claimedBefore, &failed))
	return failed.err()
}

func (s *Sweeper) closeBulks(ctx context.Context, startedBefore time.Time, failed *failures) error {
	owners, err := within(ctx, lookLimit, func(ctx context.Context) ([]dlq.Owner, error) {
		return s.Store.BulkOwners(ctx, startedBefore)
	})
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.closeBulk(ctx, owner); err != nil {
			failed.add(fmt.Errorf("bulk retry %s: %w", owner.Token, err))
		}
	}
	return nil
}

func (s *Sweeper) closeBulk(ctx context.Context, owner dlq.Owner) error {
	gone, err := s.isGone(ctx, owner)
	if err != nil || !gone {
		return err
	}
	id, err := dlq.ParseID(owner.Token)
	if err != nil {
		return err
	}
	_, err = within(ctx, changeLimit, func(ctx context.Context) (dlq.BulkRetry, error) {
		return s.Store.EndBulk(ctx, id, dlq.BulkFailed, GoneReason)
	})
	if err == nil {
		s.Log.Warn("closed a bulk retry whose workflow is gone", zap.Stringer("bulk_retry_id", id))
	}
	return err
}

func (s *Sweeper) releaseClaims(ctx context.Context, claimedBefore time.Time, failed *failures) error {
	owners, err := within(ctx, lookLimit, func(ctx context.Context) ([]dlq.Owner, error) {
		return s.Store.Owners(ctx, claimedBefore)
	})
	failed.add(err) // some may have been found all the same
	for _, owner := range owners {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.releaseClaim(ctx, owner); err != nil {
			failed.add(fmt.Errorf("workflow %q: %w", owner.WorkflowID, err))
		}
	}
	return nil
}

func (s *Sweeper) releaseClaim(ctx context.Context, owner dlq.Owner) error {
	gone, err := s.isGone(ctx, owner)
	if err != nil || !gone {
		return err
	}
	released, err := within(ctx, changeLimit, func(ctx context.Context) (int64, error) {
		return s.Store.Release(ctx, owner, activities.OrphanReason)
	})
	if released > 0 {
		s.Metrics.Released(released)
		s.Log.Warn("released messages whose workflow is gone",
			zap.String("workflow_id", owner.WorkflowID), zap.Int64("messages", released))
	}
	return err
}

func (s *Sweeper) isGone(ctx context.Context, owner dlq.Owner) (bool, error) {
	running, err := within(ctx, lookLimit, func(ctx context.Context) (bool, error) { return s.Owners.IsRunning(ctx, owner) })
	return !running, err
}

// within gives a call a deadline.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// failures are what went wrong in one sweep. Only the first few are told: while
// Temporal is away there is one for each owner.
type failures struct {
	told []error
	more int
}

const failuresTold = 5

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.told) < failuresTold:
		f.told = append(f.told, err)
	default:
		f.more++
	}
}

func (f *failures) err() error {
	if f.more > 0 {
		return errors.Join(append(f.told, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.told...)
}
