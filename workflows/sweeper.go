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

// sweepInterval and sweepAge bound how long a message stays RETRYING after its workflow
// was terminated by hand: under a minute.
const (
	sweepInterval = 20 * time.Second
	sweepAge      = 20 * time.Second
)

// GoneReason is the reason of a job that was closed because its workflow does not run. The
// API may have crashed between creating the row and starting the workflow.
const GoneReason = "its workflow is gone: it was terminated, or it never started"

// Timeouts of the sweeper's calls, so that a call that hangs does not stop the sweeper. A
// release or the end of a job may concern a million messages.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 2 * time.Minute
)

// SweepStore finds and releases claims. Its times are by its own clock.
type SweepStore interface {
	Now(ctx context.Context) (time.Time, error)
	// Owners lists the owners of RETRYING messages claimed before the time, except those
	// of BulkOwners. With an error it lists those that it has found.
	Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error)
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
	// BulkOwners lists the owners of open jobs that were started before the time. Their
	// tokens are the jobs' ids.
	BulkOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error)
	// ActionOwners and EndAction are the same for bulk actions.
	ActionOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error)
	// FoldCounts adds up the recent changes of the message counts, which makes reading
	// them cheap.
	FoldCounts(ctx context.Context) error
	// OpenHeldGroups opens the held groups of which a condition is met. It reads what
	// FoldCounts has added up.
	OpenHeldGroups(ctx context.Context) (opened int, err error)
	// RecordArchiveRuns writes the counts of interrupted runs of the archive into the audit.
	RecordArchiveRuns(ctx context.Context, runID string) error
}

// Sweeper releases messages and closes jobs whose workflow is gone. Workflows normally end
// their claims themselves, also after a cancellation or a crash. Two cases need the
// sweeper: a workflow that was terminated by hand, and a crash between creating a job's row
// and starting its workflow. Several sweepers may run at once.
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
		now, err := within(ctx, readTimeout, s.Store.Now)
		if err == nil {
			err = s.Sweep(ctx, now.Add(-sweepAge))
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("could not release abandoned retries; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sweep closes jobs and releases messages whose workflows no longer run, if they were
// started or claimed before the given time. An error for one owner or job does not stop
// the sweep of the others.
func (s *Sweeper) Sweep(ctx context.Context, claimedBefore time.Time) error {
	var failed failures
	// First, since the next steps may wait for Temporal.
	_, err := within(ctx, readTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.FoldCounts(ctx) })
	if err == nil {
		s.Metrics.Folded()
	}
	failed.add(err)
	failed.add(s.openHeldGroups(ctx))
	_, err = within(ctx, readTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.RecordArchiveRuns(ctx, "") })
	failed.add(err)
	for _, kind := range s.kindsOfJobs() {
		failed.add(s.closeJobs(ctx, kind, claimedBefore, &failed))
	}
	failed.add(s.releaseClaims(ctx, claimedBefore, &failed))
	return failed.err()
}

func (s *Sweeper) openHeldGroups(ctx context.Context) error {
	opened, err := within(ctx, readTimeout, s.Store.OpenHeldGroups)
	if opened > 0 {
		s.Log.Info("opened groups that are no longer held", zap.Int("groups", opened))
	}
	return err
}

// jobs are bulk retries or bulk actions.
type jobs struct {
	name   string
	owners func(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	end    func(ctx context.Context, id dlq.ID) error
}

func (s *Sweeper) kindsOfJobs() []jobs {
	return []jobs{
		{"bulk retry", s.Store.BulkOwners, func(ctx context.Context, id dlq.ID) error {
			_, err := s.Store.EndBulk(dlq.WithOperation(ctx, dlq.Outside(dlq.PermBulkRetryControl, "")), id, dlq.BulkFailed, GoneReason)
			return err
		}},
		{"bulk action", s.Store.ActionOwners, func(ctx context.Context, id dlq.ID) error {
			_, err := s.Store.EndAction(dlq.WithOperation(ctx, dlq.Outside(dlq.PermBulkActionControl, "")), id, dlq.BulkFailed, GoneReason)
			return err
		}},
	}
}

func (s *Sweeper) closeJobs(ctx context.Context, kind jobs, startedBefore time.Time, failed *failures) error {
	owners, err := within(ctx, readTimeout, func(ctx context.Context) ([]dlq.Owner, error) {
		return kind.owners(ctx, startedBefore)
	})
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.closeJob(ctx, kind, owner); err != nil {
			failed.add(fmt.Errorf("%s %s: %w", kind.name, owner.Token, err))
		}
	}
	return nil
}

func (s *Sweeper) closeJob(ctx context.Context, kind jobs, owner dlq.Owner) error {
	gone, err := s.isGone(ctx, owner)
	if err != nil || !gone {
		return err
	}
	id, err := dlq.ParseID(owner.Token)
	if err != nil {
		return err
	}
	_, err = within(ctx, writeTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, kind.end(ctx, id) })
	if err == nil {
		s.Log.Warn("closed a job whose workflow is gone", zap.String("kind", kind.name), zap.Stringer("id", id))
	}
	return err
}

func (s *Sweeper) releaseClaims(ctx context.Context, claimedBefore time.Time, failed *failures) error {
	owners, err := within(ctx, readTimeout, func(ctx context.Context) ([]dlq.Owner, error) {
		return s.Store.Owners(ctx, claimedBefore)
	})
	failed.add(err) // with an error some owners may still have been found
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
	released, err := within(ctx, writeTimeout, func(ctx context.Context) (int64, error) {
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
	running, err := within(ctx, readTimeout, func(ctx context.Context) (bool, error) { return s.Owners.IsRunning(ctx, owner) })
	return !running, err
}

// within calls with a timeout.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// failures are the errors of one sweep. Only the first few are reported, since there is
// one for each owner while Temporal is unavailable.
type failures struct {
	reported []error
	more     int
}

const maxReported = 5

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.reported) < maxReported:
		f.reported = append(f.reported, err)
	default:
		f.more++
	}
}

func (f *failures) err() error {
	if f.more > 0 {
		return errors.Join(append(f.reported, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.reported...)
}
