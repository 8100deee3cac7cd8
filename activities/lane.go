package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"dlqmanager/dlq"
)

const (
	// storeTimeout bounds one call of the store, so that a connection which went silent
	// is noticed. The store waits for a lock for a second only.
	storeTimeout = 4 * time.Second

	// finishTimeout is how long a lane that was told to stop goes on trying to write
	// down what was already published: shorter than the time a stopping worker is given.
	finishTimeout = 8 * time.Second

	// A lane returns after its time slice and is started again, on whichever worker
	// asks first: that is how a worker that joins gets its share. Longer when
	// throttled, where each start is expensive compared with what it sends.
	timeSlice        = 15 * time.Second
	limitedTimeSlice = 5 * time.Minute

	// longestNap is how long a lane sleeps at most before it looks again whether the
	// rate limit, or the state of the job, has been changed.
	longestNap = 500 * time.Millisecond

	// fruitlessPages is how many pages in a row of a job with several target topics a
	// lane puts aside before it rests, since all the topics that it has come upon are
	// closed. What comes after them may go elsewhere.
	fruitlessPages = 100
)

// LaneEnd says why a lane returned.
type LaneEnd string

const (
	// LaneDone found nothing more in its scope, and nothing waits.
	LaneDone LaneEnd = "done"
	// LaneTimeSlice has had its time and wants to go on.
	LaneTimeSlice LaneEnd = "slice"
	// LaneStepLimit has used up the allowance of the ramp's step.
	LaneStepLimit LaneEnd = "spent"
	// LaneClosed may not claim: the job does not run, or a newer attempt has
	// the lane. Nobody knows whether anything is left.
	LaneClosed LaneEnd = "closed"
	// LaneWaiting has nothing to send but messages whose target is closed.
	LaneWaiting LaneEnd = "waiting"
)

// LaneInput names one lane of a bulk retry.
type LaneInput struct {
	Bulk   dlq.ID `json:"bulk_retry_id"`
	Number int    `json:"lane"`
	// Shut says that the only target of the job was closed: the lane asks it again
	// before it claims anything else.
	Shut bool `json:"shut,omitempty"`
}

// LaneResult is what one time slice of a lane came to.
type LaneResult struct {
	End LaneEnd `json:"end"`
	// For is how long to wait before the closed target may be asked again, Reason and
	// Category say why it is closed. Only with LaneWaiting.
	For      time.Duration `json:"for_ns,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Category dlq.Category  `json:"category,omitempty"`
	// Shut is for the next LaneInput.
	Shut bool `json:"shut,omitempty"`
}

// RunLane sends one lane of a bulk retry, page by page, until nothing in its
// scope is left or its time slice is over. What an earlier attempt knew to be
// delivered and could not write down is written down first. What it claimed and did
// not finalize is sent next: the crash may have come before or after the publish, and
// sending twice is the lesser harm.
//
// Once the job does not run any more, or the worker stops, the page in hand is
// finished and written down; nothing more is claimed.
func (a *Bulk) RunLane(ctx context.Context, in LaneInput) (LaneResult, error) {
	// What the attempt before knew stays in the heartbeat until it is written down.
	report := LaneReport{}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &report) // what cannot be read is of another version; the page is sent again
	}
	report.Lane, report.Waiting = in.Number, ""
	beat, stop := startHeartbeat(ctx, report, stepLimit)
	defer stop()
	l := &laneRun{Bulk: a, in: in, beat: beat, acknowledged: report.Acknowledged, started: time.Now()}
	if in.Shut {
		l.fruitless = 1
	}
	result, err := l.run(ctx)
	if errors.Is(err, dlq.ErrFenced) {
		result, err = LaneResult{End: LaneClosed}, nil
	}
	if err != nil {
		beat.send(true) // so that the next attempt knows what was acknowledged
	}
	return result, toTemporal(err)
}

// laneRun is one time slice of one lane.
type laneRun struct {
	*Bulk
	in      LaneInput
	lane    dlq.Lane
	beat    *heartbeat
	started time.Time
	// acknowledged is what the attempt before could not write down.
	acknowledged []Acknowledged
	// fruitless counts pages in a row whose topics are all closed.
	fruitless int
}

func (l *laneRun) run(ctx context.Context) (LaneResult, error) {
	if err := l.open(ctx); err != nil {
		return LaneResult{}, err
	}
	if l.lane.State != dlq.BulkRunning {
		err := l.step(ctx, func(ctx context.Context) error { return l.Store.ReleasePage(ctx, l.lane) })
		return LaneResult{End: LaneClosed}, err
	}
	if err := l.sendClaimed(ctx); err != nil {
		return LaneResult{}, err
	}
	var claim dlq.LaneClaim
	for {
		if time.Since(l.started) > timeSliceOf(claim.Limited) {
			return LaneResult{End: LaneTimeSlice, Shut: l.shut()}, nil
		}
		if err := stopped(ctx); err != nil {
			return LaneResult{}, err
		}
		var claimed int
		var err error
		claim, claimed, err = l.sendPage(ctx, func(ctx context.Context) (dlq.LaneClaim, error) {
			return l.Store.ClaimPage(ctx, l.lane, l.scans())
		})
		if claimed == 0 && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !l.lane.Bounded {
			// Perhaps the scope is long. The claim may have come through all the same,
			// or may yet do so, unless the lane is opened anew.
			if err = l.open(ctx); err == nil {
				l.lane.Bounded = true
				err = l.sendClaimed(ctx)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return LaneResult{}, err
		}
		l.lane.ScanFirst = claim.Queue != nil // the next time it is the other's turn
		if claimed > 0 {
			continue
		}
		if end, over := l.over(&claim); over {
			return end, nil
		}
		if err := sleep(ctx, min(max(claim.Wait, dueOf(claim.Next)), longestNap)); err != nil {
			return LaneResult{}, err
		}
	}
}

// sendClaimed sends what the lane has claimed and not finalized, part by part.
func (l *laneRun) sendClaimed(ctx context.Context) error {
	for {
		_, claimed, err := l.sendPage(ctx, func(ctx context.Context) (dlq.LaneClaim, error) {
			return l.Store.ClaimedPage(ctx, l.lane, dlq.PageBytes)
		})
		if err != nil || claimed == 0 {
			return err
		}
		if err := stopped(ctx); err != nil {
			return err
		}
	}
}

// sendPage asks the store for a page once there is memory for it, and sends it. Where
// the page is one message that is greater than a page, it asks for memory for that one,
// and reads it then; somebody else may have ended it meanwhile. It returns how many
// messages the store gave at first.
func (l *laneRun) sendPage(ctx context.Context, ask func(context.Context) (dlq.LaneClaim, error)) (claim dlq.LaneClaim, claimed int, err error) {
	give, err := l.memory(ctx, dlq.PageBytes)
	if err != nil {
		return claim, 0, err
	}
	defer func() { give() }()
	err = l.step(ctx, func(ctx context.Context) (err error) {
		claim, err = ask(ctx)
		return err
	})
	claimed = len(claim.Page)
	if err == nil && claim.Bytes > dlq.PageBytes {
		give()
		if give, err = l.memory(ctx, claim.Bytes); err != nil {
			give = func() {}
			return claim, claimed, err
		}
		err = l.within(ctx, readTimeout(claim.Bytes), func(ctx context.Context) error {
			whole, err := l.Store.ClaimedPage(ctx, l.lane, claim.Bytes)
			claim.Page = whole.Page
			return err
		})
	}
	if err != nil {
		return claim, claimed, err
	}
	return claim, claimed, l.send(ctx, &claim)
}

// readTimeout bounds the reading of a large message: it may come at 4 MiB a second, as
// long as the heartbeat goes on.
func readTimeout(bytes int64) time.Duration {
	return min(storeTimeout+time.Duration(bytes>>22)*time.Second, stepLimit-5*time.Second)
}

// memory waits for room for a page, in its turn. Others have it for as long as a publish
// takes.
func (l *laneRun) memory(ctx context.Context, bytes int64) (give func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := make(chan error, 1)
	go func() {
		var err error
		give, err = l.Memory.take(ctx, bytes)
		taken <- err
	}()
	ticker := time.NewTicker(longestNap)
	defer ticker.Stop()
	for {
		select {
		case err := <-taken:
			return give, err
		case <-ticker.C:
		}
		l.beat.alive(func(r *LaneReport) { r.Waiting = "other lanes have all of the memory" })
		if err := stopped(ctx); err != nil {
			cancel()
			if <-taken == nil {
				give()
			}
			return nil, err
		}
	}
}

func dueOf(queue *dlq.LaneQueue) time.Duration {
	if queue == nil {
		return 0
	}
	return queue.Due
}

// open takes the lane from earlier attempts, and writes down what they knew to be
// delivered. An attempt that lost touch with Temporal may still be at work; from here on
// it can change nothing.
func (l *laneRun) open(ctx context.Context) error {
	info := activity.GetInfo(ctx)
	attempt := dlq.LaneAttempt{Scheduled: info.ScheduledTime, Number: int(info.Attempt)}
	err := l.step(ctx, func(ctx context.Context) (err error) {
		l.lane, err = l.Store.OpenLane(ctx, l.in.Bulk, l.in.Number, attempt)
		return err
	})
	if err != nil {
		return err
	}
	return l.finalizeAcknowledged(ctx)
}

// over says whether and how the lane returns, after a claim that has found nothing.
func (l *laneRun) over(claim *dlq.LaneClaim) (LaneResult, bool) {
	next := claim.Next
	switch {
	case claim.Stopped:
		return LaneResult{End: LaneClosed}, true
	case claim.StepLimitReached:
		return LaneResult{End: LaneStepLimit}, true
	case claim.Wait > 0:
		return LaneResult{}, false
	case next == nil && l.scans():
		return LaneResult{End: LaneDone}, true
	case next == nil:
		l.fruitless = 0 // others have dealt with what waited
		return LaneResult{}, false
	case !next.OfKey && next.Due > longestNap:
		return LaneResult{End: LaneWaiting, For: next.Due, Reason: next.Reason, Category: next.Category, Shut: l.shut()}, true
	default:
		return LaneResult{}, false
	}
}

// scans tells whether the lane goes on with the messages that it has not come upon
// yet, rather than only ask closed targets again.
func (l *laneRun) scans() bool {
	if l.lane.MultiTarget {
		return l.fruitless < fruitlessPages
	}
	return l.fruitless == 0
}

func (l *laneRun) shut() bool { return !l.lane.MultiTarget && l.fruitless > 0 }

// timeSliceOf is how long a lane goes on before it returns.
func timeSliceOf(throttled bool) time.Duration {
	if throttled {
		return limitedTimeSlice
	}
	return timeSlice
}

// step runs a call of the store within its time limit, again for as long as a lock is
// in the way.
func (l *laneRun) step(ctx context.Context, call func(context.Context) error) error {
	return l.within(ctx, storeTimeout, call)
}

func (l *laneRun) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, limit)
		err := call(limited)
		cancel()
		l.beat.alive(func(r *LaneReport) { r.Waiting = textOf(err) })
		if !errors.Is(err, dlq.ErrBlocked) {
			return err
		}
		if err := sleep(ctx, longestNap); err != nil {
			return err
		}
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
