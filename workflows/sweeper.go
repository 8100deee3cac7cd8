package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// SweepStore finds and releases claims. All times are times of the store's own clock.
type SweepStore interface {
	Now(ctx context.Context) (time.Time, error)
	// Owners lists the owners of RETRYING messages claimed before the time, except the owners
	// that JobOwners lists.
	Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error)
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
	// JobOwners lists the owners of open jobs that were started before the time. Their
	// tokens are the jobs' ids.
	JobOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	// FoldCounts adds up the recent changes of the message counts, which makes reading
	// them cheap.
	FoldCounts(ctx context.Context) error
	// OpenHeldGroups opens the held groups for which a condition is met. It reads the sums that FoldCounts has made.
	OpenHeldGroups(ctx context.Context) (opened int, err error)
	// RecordArchiveRuns writes the counts of interrupted runs of the archive into the audit.
	RecordArchiveRuns(ctx context.Context, runID string) error
	// SampleJobs records a sample of the counts of each running job.
	SampleJobs(ctx context.Context) error
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

// Run sweeps until ctx ends. In parallel, it records samples of running jobs, because a sweep may wait for Temporal.
func (s *Sweeper) Run(ctx context.Context) {
	var sampling sync.WaitGroup
	defer sampling.Wait()
	sampling.Go(func() {
		s.repeat(ctx, dlq.SampleInterval, "could not note the counts of running jobs; trying again", func(ctx context.Context) error {
			return do(ctx, readTimeout, s.Store.SampleJobs)
		})
	})
	s.repeat(ctx, sweepInterval, "could not release abandoned retries; trying again", func(ctx context.Context) error {
		now, err := within(ctx, readTimeout, s.Store.Now)
		if err != nil {
			return err
		}
		return s.Sweep(ctx, now.Add(-sweepAge))
	})
}

// repeat runs a call in an interval until ctx ends, and logs errors.
func (s *Sweeper) repeat(ctx context.Context, interval time.Duration, failed string, call func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := call(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn(failed, zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sweep closes jobs and releases messages whose workflows no longer run, if they were
// started or claimed before the given time. An error for an owner or a job does not stop
// the sweep of the rest.
func (s *Sweeper) Sweep(ctx context.Context, claimedBefore time.Time) error {
	// The counts are added up first, since the later steps may wait for Temporal.
	err := do(ctx, readTimeout, s.Store.FoldCounts)
	if err == nil {
		s.Metrics.Folded()
	}
	errs := []error{
		err,
		s.openHeldGroups(ctx),
		do(ctx, readTimeout, func(ctx context.Context) error { return s.Store.RecordArchiveRuns(ctx, "") }),
	}
	errs = append(errs, s.sweepOwners(ctx, "job", claimedBefore, s.Store.JobOwners, s.closeJob)...)
	errs = append(errs, s.sweepOwners(ctx, "retry", claimedBefore, s.Store.Owners, s.release)...)
	return joined(errs)
}

func (s *Sweeper) openHeldGroups(ctx context.Context) error {
	opened, err := within(ctx, readTimeout, s.Store.OpenHeldGroups)
	if opened > 0 {
		s.Log.Info("opened groups that are no longer held", zap.Int("groups", opened))
	}
	return err
}

// sweepOwners ends the jobs or single retries of owners whose workflow is gone.
func (s *Sweeper) sweepOwners(
	ctx context.Context, kind string, before time.Time, list func(context.Context, time.Time) ([]dlq.Owner, error),
	end func(context.Context, dlq.Owner) error,
) (errs []error) {
	owners, err := within(ctx, readTimeout, func(ctx context.Context) ([]dlq.Owner, error) { return list(ctx, before) })
	errs = append(errs, err)
	for _, owner := range owners {
		if ctx.Err() != nil {
			return append(errs, ctx.Err())
		}
		running, err := within(ctx, readTimeout, func(ctx context.Context) (bool, error) { return s.Owners.IsRunning(ctx, owner) })
		if err == nil && !running {
			err = do(ctx, writeTimeout, func(ctx context.Context) error { return end(ctx, owner) })
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of workflow %q: %w", kind, owner.WorkflowID, err))
		}
	}
	return errs
}

func (s *Sweeper) closeJob(ctx context.Context, owner dlq.Owner) error {
	id, err := dlq.ParseID(owner.Token)
	if err == nil {
		_, err = s.Store.EndJob(ctx, dlq.Outside(dlq.PermJobControl, ""), id, dlq.JobFailed, GoneReason)
	}
	if err == nil {
		s.Log.Warn("closed a job whose workflow is gone", zap.String("workflow_id", owner.WorkflowID), zap.Stringer("job_id", id))
	}
	return err
}

func (s *Sweeper) release(ctx context.Context, owner dlq.Owner) error {
	released, err := s.Store.Release(ctx, owner, activities.OrphanReason)
	if released > 0 {
		s.Metrics.Released(released)
		s.Log.Warn("released messages whose workflow is gone",
			zap.String("workflow_id", owner.WorkflowID), zap.Int64("messages", released))
	}
	return err
}

// within runs a call with a timeout.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

func do(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	_, err := within(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// maxReported limits the reported errors of a sweep, since there is an error for each owner while Temporal is
// unavailable.
const maxReported = 5

// joined joins the first few errors of a sweep, and counts the other errors.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - maxReported; more > 0 {
		errs = append(errs[:maxReported], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
