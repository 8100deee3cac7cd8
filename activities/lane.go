package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const (
	// finishTimeout bounds the writing down of what was already published, once
	// a lane was told to stop: long enough for a slow database, shorter than
	// the time a stopping worker is given.
	finishTimeout = 10 * time.Second

	// A lane returns after its slice and is started again, on whichever worker
	// asks first: that is how a worker that joins gets its share. Longer when
	// throttled, where each start is expensive compared with what it sends.
	laneSlice          = 15 * time.Second
	throttledLaneSlice = 5 * time.Minute

	// readingShare is how many times longer than the reading of its blocked keys a
	// slice is at least, up to throttledLaneSlice: they grow with what the job has
	// failed.
	readingShare = 20

	// longestNap is how long a throttled lane sleeps before it looks again
	// whether the rate limit has been changed.
	longestNap = 500 * time.Millisecond
)

// LaneEnd says why a lane returned.
type LaneEnd string

const (
	// LaneDone found nothing more in its scope.
	LaneDone LaneEnd = "done"
	// LaneSlice has had its time and wants to go on.
	LaneSlice LaneEnd = "slice"
	// LaneSpent has used up the allowance of the ramp's step.
	LaneSpent LaneEnd = "spent"
	// LaneClosed may not claim: the job does not run, or a newer attempt has
	// the lane. Nobody knows whether anything is left.
	LaneClosed LaneEnd = "closed"
	// LaneRefused had every message of a page refused, for a reason that is
	// not the messages' own, and gave the page back uncounted.
	LaneRefused LaneEnd = "refused"
)

// LaneInput names one lane of a bulk retry.
type LaneInput struct {
	Bulk   dlq.ID `json:"bulk_retry_id"`
	Number int    `json:"lane"`
	// RefusedAlone is how often in a row the lane was refused while the target took
	// what other lanes sent.
	RefusedAlone int `json:"refused_alone,omitempty"`
}

// LaneResult is what one slice of a lane came to.
type LaneResult struct {
	End LaneEnd `json:"end"`
	// Progress says that the target took something, or judged it.
	Progress bool `json:"progress,omitempty"`
	// Reason and Category say why it was refused; else they are empty.
	Reason   string       `json:"reason,omitempty"`
	Category dlq.Category `json:"category,omitempty"`
}

// RunLane sends one lane of a bulk retry, page by page, until nothing in its
// scope is left or its slice is over. Messages that an earlier attempt claimed and
// did not finalize are sent first: the crash may have come before or after the
// publish, and sending twice is the lesser harm.
//
// On cancellation, and when the worker stops, the page in hand is finished and
// written down, unless the job did not wait for that and took it back; nothing
// more is claimed.
func (a *Bulk) RunLane(ctx context.Context, in LaneInput) (LaneResult, error) {
	reports, stopReporting := startHeartbeat(ctx, LaneReport{Lane: in.Number})
	defer stopReporting()
	l := &laneRun{Bulk: a, in: in, reports: reports, started: time.Now()}
	result, err := l.run(ctx)
	return result, toTemporal(err)
}

// laneRun is one slice of one lane.
type laneRun struct {
	*Bulk
	in      LaneInput
	lane    dlq.Lane
	reports chan<- LaneReport
	started time.Time
	// blocked are the keys whose later messages must wait, nil where order does
	// not matter.
	blocked  blockedKeys
	counts   dlq.BulkCounts
	progress bool
}

// refusedAlone is how often in a row the lane was refused while others got through.
func (l *laneRun) refusedAlone() int {
	if l.progress {
		return 0
	}
	return l.in.RefusedAlone
}

func (l *laneRun) run(ctx context.Context) (_ LaneResult, err error) {
	// An earlier attempt that lost touch with Temporal may still be at work;
	// from here on it can change nothing.
	if l.lane, err = l.Store.OpenLane(ctx, l.in.Bulk, l.in.Number); err != nil {
		return LaneResult{}, err
	}
	var reading time.Duration
	if l.lane.Spec.Order != dlq.OrderNone {
		began := time.Now()
		keys, err := l.Store.BlockedKeys(ctx, l.lane)
		if err != nil {
			return LaneResult{}, err
		}
		l.blocked, reading = newBlockedKeys(keys), time.Since(began)
	}
	left, err := l.Store.ClaimedPage(ctx, l.lane)
	if err != nil {
		return LaneResult{}, err
	}
	for len(left) > 0 { // at most a page, unless several attempts were cut short
		page := left[:min(len(left), dlq.PageSize)]
		left = left[len(page):]
		if refused, err := l.send(ctx, page); err != nil || refused != nil {
			return l.end(refused, LaneRefused), err
		}
	}
	for {
		if err := stopped(ctx); err != nil {
			return LaneResult{}, err
		}
		claim, err := l.Store.ClaimPage(ctx, l.lane)
		switch {
		case err != nil:
			return LaneResult{}, err
		case len(claim.Envelopes) > 0:
			if refused, err := l.send(ctx, claim.Envelopes); err != nil || refused != nil {
				return l.end(refused, LaneRefused), err
			}
		case claim.Closed:
			return l.end(nil, LaneClosed), nil
		case claim.Spent:
			return l.end(nil, LaneSpent), nil
		case claim.Wait <= 0:
			return l.end(nil, LaneDone), nil
		}
		if time.Since(l.started) > sliceOf(claim.Throttled, reading) {
			return l.end(nil, LaneSlice), nil
		}
		if claim.Wait > 0 {
			if err := sleep(ctx, min(claim.Wait, longestNap)); err != nil {
				return LaneResult{}, err
			}
		}
	}
}

// sliceOf is how long a lane goes on before it returns.
func sliceOf(throttled bool, reading time.Duration) time.Duration {
	if throttled {
		return throttledLaneSlice
	}
	return min(max(laneSlice, readingShare*reading), throttledLaneSlice)
}

func (l *laneRun) end(refused *refusal, end LaneEnd) LaneResult {
	result := LaneResult{End: end, Progress: l.progress}
	if refused != nil {
		result.Reason, result.Category = refused.err.Error(), refused.category
	}
	return result
}

// send publishes a claimed page and writes down how each message ended.
func (l *laneRun) send(ctx context.Context, page []dlq.Envelope) (*refusal, error) {
	outcomes, refused, err := l.publish(ctx, page)
	if refused != nil {
		outcomes = giveBack(page)
	}
	// Publishing cannot be undone: it must be written down even if the
	// lane was cancelled in the meantime.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if len(outcomes) > 0 {
		result, finalizeErr := l.Store.FinalizePage(finish, l.lane, outcomes)
		if finalizeErr != nil {
			return nil, finalizeErr
		}
		l.counts = result.Counts
		// A page is taken back as a whole, when the job is paused or ended over
		// it or a newer attempt has the lane. Then nothing has ended here.
		if result.Ended > 0 {
			l.Metrics.retried(outcomes...)
		}
	}
	if err != nil || refused != nil {
		return refused, err
	}
	if l.refusedAlone() > 0 {
		l.note(finish, "")
	}
	l.progress = l.progress || slices.ContainsFunc(outcomes, isProgress)
	l.reports <- LaneReport{Lane: l.lane.Number, Counts: l.counts}
	return nil, nil //nolint:nilnil // no refusal is the normal case
}

// isProgress is true of what shows that the target is there: it has taken the
// message, or refused it for what it is.
func isProgress(o dlq.Outcome) bool {
	return o.Result == dlq.ResultDelivered || o.Result == dlq.ResultRejected
}

// note records on the job why a part of it waits or was skipped.
func (l *laneRun) note(ctx context.Context, reason string) {
	if err := l.Store.NoteBulk(ctx, l.lane.Bulk, reason); err != nil {
		l.Log.Warn("could not record what the bulk retry is up to", zap.Stringer("bulk_retry_id", l.lane.Bulk), zap.Error(err))
	}
}

// errWorkerStopping hands the lane to another worker, or to this one once it is
// back: Temporal repeats the activity.
var errWorkerStopping = errors.New("the worker is stopping; the lane goes on elsewhere")

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
