package activities

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"dlqmanager/dlq"
)

const (
	// storeTimeout bounds a call of the store, in case the connection is broken. The call itself waits only a second for a lock.
	storeTimeout = 4 * time.Second

	// finishTimeout is how long a stopping lane tries to finalize a page. The default stop timeout of a worker is longer.
	finishTimeout = 8 * time.Second

	// A lane returns after its time slice, and continues on the worker that polls first. The slice of a job with
	// limits is longer, since a start is expensive compared with the few messages that a limited lane sends.
	timeSlice        = 15 * time.Second
	limitedTimeSlice = 5 * time.Minute

	// maxSleep is how long a lane sleeps at most before it reads the limits and the state of the job again.
	maxSleep = 500 * time.Millisecond

	// A lane of a job with several targets scans on after a page whose topics are all closed, since later messages may have
	// open targets. After maxClosedPages such pages in a row, the lane claims only from queues.
	maxClosedPages = 100
)

// LaneEnd says why a lane returned.
type LaneEnd string

const (
	// LaneDone means that no message is left in the lane's scope, and no message waits in a queue.
	LaneDone LaneEnd = "done"
	// LaneTimeSlice means that the time slice is over, and messages may be left.
	LaneTimeSlice LaneEnd = "slice"
	// LaneStepLimit means that the step limit of the ramp is reached.
	LaneStepLimit LaneEnd = "spent"
	// LaneClosed means that the job does not run, or a newer attempt has the lane. Messages may be left.
	LaneClosed LaneEnd = "closed"
	// LaneWaiting means that the lane can send nothing until a closed target is tried again.
	LaneWaiting LaneEnd = "waiting"
)

// LaneInput names a lane of a bulk retry.
type LaneInput struct {
	Bulk   dlq.ID `json:"job_id"`
	Number int    `json:"lane"`
	// TargetClosed is set when the only target of the job was closed. The lane then tries the target before it scans.
	TargetClosed bool `json:"shut,omitempty"`
}

// LaneResult is the result of a time slice of a lane.
type LaneResult struct {
	End LaneEnd `json:"end"`
	// For is how long to wait before the closed target is tried again. Reason and Category are the target's error. All
	// three are set only with LaneWaiting.
	For      time.Duration `json:"for_ns,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Category dlq.Category  `json:"category,omitempty"`
	// TargetClosed is for the next LaneInput.
	TargetClosed bool `json:"shut,omitempty"`
}

// RunLane sends the messages of one lane, page by page; LaneEnd lists the reasons why it returns. RunLane first finalizes
// the messages that an earlier attempt knew to be acknowledged. Then RunLane sends the messages that the earlier attempt
// claimed and did not finalize. Some of these may be sent a second time.
//
// Once the job stops running or the worker stops, RunLane finalizes its current page and claims no more.
func (a *Jobs) RunLane(ctx context.Context, in LaneInput) (LaneResult, error) {
	// If the heartbeat's details come from another version and cannot be decoded, the page is sent again.
	report := LaneReport{}
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &report) != nil {
		report = LaneReport{} // without the parts that could be decoded
	}
	for i := range report.Acknowledged {
		report.Acknowledged[i].Result = dlq.ResultDelivered // any other result would count as a failure
	}
	report.Lane, report.Waiting = in.Number, ""
	beat, stop := startHeartbeat(ctx, report, maxStepDuration)
	defer stop()
	defer beat.send(true) // after an error or a panic the next attempt has to know the acknowledged messages
	l := &laneRun{Jobs: a, in: in, beat: beat, previous: report, started: time.Now()}
	if in.TargetClosed {
		l.closedPages = 1
	}
	result, err := l.run(ctx)
	if errors.Is(err, dlq.ErrFenced) {
		result, err = LaneResult{End: LaneClosed}, nil
	}
	return result, toTemporal(err)
}

// laneRun is a time slice of a lane.
type laneRun struct {
	*Jobs
	in      LaneInput
	lane    dlq.Lane
	beat    *heartbeat[LaneReport]
	started time.Time
	// previous is the last report of the previous attempt.
	previous LaneReport
	// closedPages counts successive pages whose topics are all closed.
	closedPages int
	// doubtful is set when the messages that closed the target may be at fault themselves. The lane then scans on, to
	// find a message that shows whether the target is open.
	doubtful bool
	// inHand are the outcomes of the page that was published last. They are recorded together with the next claim.
	inHand []dlq.PageOutcome
	// unanswered is set if the store did not answer a call that records inHand. The outcomes may have been recorded.
	unanswered bool
}

func (l *laneRun) run(ctx context.Context) (LaneResult, error) {
	if err := l.open(ctx); err != nil {
		return LaneResult{}, err
	}
	if l.lane.State != dlq.JobRunning {
		err := l.step(ctx, storeTimeout, func(ctx context.Context) error { return l.Store.ReleasePage(ctx, l.lane) })
		return LaneResult{End: LaneClosed}, err
	}
	// A page has more than dlq.PageBytes only if messages have grown since they were claimed. Then NextPage fails with
	// dlq.ErrUnfinished, and the next attempt sends the rest.
	_, err := l.sendPage(ctx, dlq.PageBytes, func(ctx context.Context) (dlq.LaneClaim, error) {
		return l.Store.ClaimedPage(ctx, l.lane, dlq.PageBytes)
	})
	if err != nil {
		return LaneResult{}, err
	}
	result, err := l.sendPages(ctx)
	return result, errors.Join(err, l.finishPage(ctx))
}

func (l *laneRun) sendPages(ctx context.Context) (LaneResult, error) {
	slice := timeSlice
	for {
		if time.Since(l.started) > slice {
			return LaneResult{End: LaneTimeSlice, TargetClosed: l.targetClosed()}, nil
		}
		if err := stopRequested(ctx); err != nil {
			return LaneResult{}, err
		}
		claim, err := l.sendPage(ctx, dlq.PageBytes, func(limited context.Context) (dlq.LaneClaim, error) {
			return l.nextPage(ctx, limited)
		})
		if err != nil {
			return LaneResult{}, err
		}
		if slice = timeSlice; claim.Limited {
			slice = limitedTimeSlice
		}
		l.lane.ScanFirst = claim.Queue != nil // alternate between the queues and the scan
		if len(claim.Page) > 0 {
			continue
		}
		if result, returns := l.endOf(&claim); returns {
			return result, nil
		}
		wait := claim.Wait
		if claim.Next != nil {
			wait = max(wait, claim.Next.Due)
		}
		if err := sleep(ctx, min(wait, maxSleep)); err != nil {
			return LaneResult{}, err
		}
	}
}

// nextPage ends the page in hand and claims the next page. When the claim fails, nextPage ends the page in hand without a
// claim, so that the page does not wait until a claim succeeds. limited is ctx with the timeout of the claim.
func (l *laneRun) nextPage(ctx, limited context.Context) (dlq.LaneClaim, error) {
	claim, ended, err := l.Store.NextPage(limited, l.lane, l.inHand, l.scans())
	if err != nil {
		l.notRecorded(err)
		l.beat.stepReturned(func(r *LaneReport) { r.InParts = r.InParts || errors.Is(err, context.DeadlineExceeded) })
		return claim, cmp.Or(l.finishPage(ctx), err)
	}
	if len(l.inHand) > 0 {
		l.pageEnded(ended, l.inHand)
		l.inHand = nil
	}
	return claim, nil
}

// sendPage waits for memory, gets a page from the store, and sends the page. A message that is larger than the memory
// comes without its record: for this message, sendPage waits for more memory and reads the page again. The result is the
// claim of the first read: before the second read another client may finalize the message.
func (l *laneRun) sendPage(ctx context.Context, bytes int64, claimPage func(context.Context) (dlq.LaneClaim, error)) (claim dlq.LaneClaim, err error) {
	release, err := l.memory(ctx, bytes)
	if err != nil {
		return claim, err
	}
	release = sync.OnceFunc(release)
	defer release()
	err = l.step(ctx, readTimeout(bytes), func(ctx context.Context) (err error) {
		claim, err = claimPage(ctx)
		return err
	})
	switch {
	case err != nil:
	case claim.Bytes > bytes:
		release()
		_, err = l.sendPage(ctx, claim.Bytes, func(ctx context.Context) (dlq.LaneClaim, error) {
			whole, err := l.Store.ClaimedPage(ctx, l.lane, claim.Bytes)
			whole.Queue, whole.Closed = claim.Queue, claim.Closed
			return whole, err
		})
	default:
		l.send(ctx, &claim)
	}
	return claim, err
}

// readTimeout bounds a call that reads a page: storeTimeout, and a second more for each further dlq.PageBytes.
func readTimeout(bytes int64) time.Duration {
	return min(storeTimeout+time.Duration(bytes/dlq.PageBytes-1)*time.Second, maxStepDuration-5*time.Second)
}

// memory waits for memory that other lanes and single retries hold. Meanwhile it keeps the heartbeat alive and ends the page in hand.
func (l *laneRun) memory(ctx context.Context, bytes int64) (release func(), err error) {
	if release, isTaken := l.Memory.tryAcquire(bytes); isTaken {
		return release, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := make(chan error, 1)
	go func() {
		var err error
		release, err = l.Memory.acquire(ctx, bytes)
		taken <- err
	}()
	ticker := time.NewTicker(maxSleep)
	defer ticker.Stop()
	for {
		select {
		case err := <-taken:
			return release, err
		case <-ticker.C:
		}
		l.beat.stepReturned(func(r *LaneReport) { r.Waiting = "other lanes use all of the memory" })
		if err := errors.Join(stopRequested(ctx), l.finishPage(ctx)); err != nil {
			cancel()
			if <-taken == nil {
				release()
			}
			return nil, err
		}
	}
}

// open fences earlier attempts, which may still run, and finalizes the messages that they knew to be acknowledged.
func (l *laneRun) open(ctx context.Context) error {
	info := activity.GetInfo(ctx)
	attempt := dlq.LaneAttempt{Scheduled: info.ScheduledTime, Number: int(info.Attempt)}
	err := l.step(ctx, storeTimeout, func(ctx context.Context) (err error) {
		l.lane, err = l.Store.OpenLane(ctx, l.in.Bulk, l.in.Number, attempt)
		return err
	})
	if err != nil {
		return err
	}
	l.lane.Bounded = l.previous.InParts
	l.published(l.previous.Acknowledged)
	return l.finishPage(ctx)
}

// endOf decides after a claim without a page whether the lane returns, and with which result.
func (l *laneRun) endOf(claim *dlq.LaneClaim) (result LaneResult, returns bool) {
	next := claim.Next
	switch {
	case claim.Stopped:
		return LaneResult{End: LaneClosed}, true
	case claim.StepLimitReached:
		return LaneResult{End: LaneStepLimit}, true
	case claim.Wait > 0:
	case next == nil && l.scans():
		return LaneResult{End: LaneDone}, true
	case next == nil:
		l.closedPages = 0 // no queue is left
	case !next.OfKey() && next.Due > maxSleep:
		return LaneResult{End: LaneWaiting, For: next.Due, Reason: next.Reason, Category: next.Category, TargetClosed: l.targetClosed()}, true
	}
	return LaneResult{}, false
}

// scans tells whether the lane claims messages beyond its cursor, besides the messages in queues.
func (l *laneRun) scans() bool {
	if l.lane.MultiTarget || l.doubtful {
		return l.closedPages < maxClosedPages
	}
	return l.closedPages == 0
}

func (l *laneRun) targetClosed() bool { return !l.lane.MultiTarget && l.closedPages > 0 }

// step calls the store with a timeout, and repeats the call while the error is dlq.ErrBlocked.
func (l *laneRun) step(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	for {
		err := l.call(ctx, limit, call)
		if !errors.Is(err, dlq.ErrBlocked) {
			return err
		}
		if err := sleep(ctx, maxSleep); err != nil {
			return err
		}
	}
}

// call calls the store once, with a timeout. The heartbeat says why the call failed.
func (l *laneRun) call(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(ctx)
	l.beat.stepReturned(func(r *LaneReport) {
		if r.Waiting = ""; err != nil {
			r.Waiting = err.Error()
		}
	})
	return err
}

// errWorkerStopping makes Temporal retry the activity, on another worker or on the same worker after its restart.
var errWorkerStopping = errors.New("the worker is stopping; another worker continues")

func stopRequested(ctx context.Context) error {
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
