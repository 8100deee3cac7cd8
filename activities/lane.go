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

// TypeRefused marks the error of a lane whose target refuses every message.
// Temporal tries again, with growing pauses, for as long as it takes.
const TypeRefused = "TargetRefusesEverything"

// HeartbeatInterval is how often a lane reports that it lives. It is also the
// longest that a cancellation takes to reach it.
const HeartbeatInterval = 500 * time.Millisecond

// finishTimeout bounds the writing down of what was already published, once a
// lane was told to stop: long enough for a slow database, shorter than the time
// a stopping worker is given.
const finishTimeout = 10 * time.Second

// LaneReport is what a lane's heartbeat shows in the Temporal Web UI. It is for
// people: after a crash the lane goes on from the store, never from here.
type LaneReport struct {
	Lane    int            `json:"lane"`
	Counts  dlq.BulkCounts `json:"counts"`
	Waiting string         `json:"waiting,omitempty"`
}

// RunLane sends one lane of a bulk retry, page by page, until nothing in its
// scope is left. What an earlier attempt claimed and did not finalize is sent
// first: the crash may have come before or after the publish, and sending twice
// is the lesser harm.
//
// On cancellation, and when the worker stops, the page in hand is finished and
// written down; nothing more is claimed.
func (a *Bulk) RunLane(ctx context.Context, lane dlq.Lane) (dlq.BulkCounts, error) {
	beat, stopBeating := startHeartbeat(ctx, LaneReport{Lane: lane.Number})
	defer stopBeating()

	l := &laneRun{Bulk: a, lane: lane, beat: beat}
	next := a.Store.ClaimedPage
	for {
		if err := stopped(ctx); err != nil {
			return l.counts, err
		}
		page, err := next(ctx, lane)
		if err != nil {
			return l.counts, toTemporal(err)
		}
		if len(page) > 0 {
			if err := l.send(ctx, page); err != nil {
				return l.counts, err
			}
			continue
		}
		if l.reclaimed {
			return l.counts, nil
		}
		l.reclaimed, next = true, a.Store.ClaimPage
	}
}

// laneRun is one attempt at one lane.
type laneRun struct {
	*Bulk
	lane dlq.Lane
	beat chan<- LaneReport
	// reclaimed is whether what an earlier attempt left behind is done.
	reclaimed bool
	counts    dlq.BulkCounts
	// noted is whether the job carries a reason for waiting that we wrote.
	noted bool
}

// send publishes a claimed page and writes down how each message ended.
func (l *laneRun) send(ctx context.Context, page []dlq.Envelope) error {
	outcomes, err := l.publish(ctx, page)

	// What is published is published: that must be written down even if the
	// lane was cancelled in the meantime.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if len(outcomes) > 0 {
		counts, finalizeErr := l.Store.FinalizePage(finish, l.lane, outcomes)
		if finalizeErr != nil {
			return toTemporal(finalizeErr)
		}
		l.counts = counts
		l.Metrics.retried(outcomes...)
	}
	if err != nil {
		l.note(finish, err)
		return err
	}
	if l.noted || activity.GetInfo(ctx).Attempt > 1 {
		l.note(finish, nil)
	}
	l.report(LaneReport{Lane: l.lane.Number, Counts: l.counts})
	return nil
}

// publish sends the page and tries failed messages again as their category
// allows. Messages without an outcome were not decided when it returned early,
// and stay claimed by this lane.
func (l *laneRun) publish(ctx context.Context, page []dlq.Envelope) ([]dlq.Outcome, error) {
	outcomes := make([]dlq.Outcome, 0, len(page))
	if l.Publisher == nil {
		for i := range page {
			outcomes = append(outcomes, dlq.Outcome{ID: page[i].ID, Result: dlq.ResultDelivered})
		}
		return outcomes, nil
	}
	// A publish under way is never cut short: its outcome would be unknown. The
	// publisher's own delivery timeout bounds it.
	uncut, pending := context.WithoutCancel(ctx), page
	for attempt := 1; ; attempt++ {
		round := decide(pending, l.Publisher.Publish(uncut, pending), attempt)
		if attempt == 1 && round.refused == len(page) {
			return nil, refusedError(len(page), round.lastErr)
		}
		outcomes = append(outcomes, round.outcomes...)
		if len(round.again) == 0 {
			return outcomes, nil
		}
		pending = round.again
		l.report(LaneReport{Lane: l.lane.Number, Counts: l.counts, Waiting: round.lastErr.Error()})
		if err := sleep(ctx, round.wait); err != nil {
			return outcomes, err
		}
	}
}

// publishRound is what one attempt at publishing decided.
type publishRound struct {
	outcomes []dlq.Outcome
	again    []dlq.Envelope
	wait     time.Duration
	// refused counts errors that are about the target, not the message.
	refused int
	lastErr error
}

func decide(page []dlq.Envelope, errs []error, attempt int) publishRound {
	var round publishRound
	for i, err := range errs {
		if err == nil {
			round.outcomes = append(round.outcomes, dlq.Outcome{ID: page[i].ID, Result: dlq.ResultDelivered})
			continue
		}
		category := dlq.CategoryOf(err)
		round.lastErr = err
		if category != dlq.CategoryBadData {
			round.refused++
		}
		if policy := PolicyOf(category); attempt < policy.Attempts {
			round.again = append(round.again, page[i])
			round.wait = max(round.wait, policy.Wait(attempt, err))
			continue
		}
		round.outcomes = append(round.outcomes, dlq.Outcome{
			ID: page[i].ID, Result: category.Result(), Category: category, Error: err.Error(),
		})
	}
	return round
}

func (l *laneRun) note(ctx context.Context, reason error) {
	text := ""
	if reason != nil && !isStop(reason) {
		text = reason.Error()
	}
	l.noted = text != ""
	if err := l.Store.NoteBulk(ctx, l.lane.Bulk, text); err != nil {
		l.Log.Warn("could not record why the bulk retry waits", zap.Stringer("bulk_retry_id", l.lane.Bulk), zap.Error(err))
	}
}

func (l *laneRun) report(report LaneReport) { l.beat <- report }

func refusedError(messages int, cause error) error {
	return temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("the target refused all of %d messages, trying again: %v", messages, cause), TypeRefused,
		temporal.ApplicationErrorOptions{Cause: cause})
}

// errWorkerStopping hands the lane to another worker, or to this one once it is
// back: Temporal repeats the activity.
var errWorkerStopping = errors.New("the worker is stopping; the lane goes on elsewhere")

func isStop(err error) bool {
	return errors.Is(err, errWorkerStopping) || errors.Is(err, context.Canceled)
}

func stopped(ctx context.Context) error {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return errWorkerStopping
	default:
		return ctx.Err()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-activity.GetWorkerStopChannel(ctx):
		return errWorkerStopping
	}
}

// startHeartbeat reports in the background, since a page may wait for its
// target longer than the heartbeat timeout. Everything that a lane waits for
// has a time limit of its own, so a beat still means that it makes progress.
func startHeartbeat(ctx context.Context, report LaneReport) (reports chan<- LaneReport, stop func()) {
	updates, done, finished := make(chan LaneReport), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(HeartbeatInterval)
		defer ticker.Stop()
		for {
			select {
			case report = <-updates:
			case <-ticker.C:
				activity.RecordHeartbeat(ctx, report)
			case <-done:
				return
			}
		}
	}()
	return updates, func() { close(done); <-finished }
}
