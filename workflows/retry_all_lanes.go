package workflows

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

const (
	// progressInterval is how often the details and the query are brought up
	// to date. Each costs a few events, so that a slow job continues as new
	// now and then; a fast one has ended before.
	progressInterval = 15 * time.Second
	// firstRefusalPause doubles up to longestRefusalPause: soon enough after a
	// broker's restart, rare enough through a night's outage.
	firstRefusalPause   = time.Second
	longestRefusalPause = 30 * time.Second
	// stopGrace is how long lanes that were told to stop may take for the page
	// in hand. Half a second passes until they hear of it, and a pause has to
	// be in force within two; a publish to a broker that hangs takes far longer.
	stopGrace = 1400 * time.Millisecond
	// leaveHangingLanes is the change since which a run goes on without them. A
	// run that was stopped before it waits for them until it continues as new.
	leaveHangingLanes = "leave-hanging-lanes"
)

// lanesEnd says why the lanes ended together.
type lanesEnd int

const (
	// lanesStopped were told to stop and know nothing of what is left.
	lanesStopped lanesEnd = iota
	// lanesDone found nothing more.
	lanesDone
	// lanesSpent have sent what the ramp's step allows.
	lanesSpent
	// lanesClosed were not allowed to claim, though the job should run.
	lanesClosed
	// lanesHandOver stopped so that the workflow can continue as new.
	lanesHandOver
)

// laneState is what one lane of a run is up to.
type laneState struct {
	over bool
	// waiting is why a refused lane waits; nil while it sends.
	waiting *activities.LaneResult
	// refusals in a row, and of those the ones while others got through.
	refusals, alone int
	// seen is how often any lane had got through at the last refusal.
	seen int
}

// laneGroup is the lanes of one call of runLanes.
type laneGroup struct {
	lanes []laneState
	// left says that the run has gone on without those that still hang. What
	// becomes of them is no longer its business.
	left bool
}

func (g *laneGroup) over() bool {
	return !slices.ContainsFunc(g.lanes, func(lane laneState) bool { return !lane.over })
}

// runLanes starts every lane and waits for all of them, also when one failed.
// Once they were told to stop it waits for stopGrace, and leaves those that hang
// behind. The caller then has to pause or end the job, or to run its lanes anew:
// each takes from the old attempts the power to change anything. What such an
// attempt has with a broker may still be delivered, and is sent a second time
// when the job goes on.
func (r *bulkRun) runLanes(ctx workflow.Context) (lanesEnd, error) {
	lanesCtx, stop := workflow.WithCancel(ctx)
	r.stopLanes = stop
	defer func() { r.stopLanes = nil; stop() }()

	group := &laneGroup{lanes: make([]laneState, r.bulk.Lanes)}
	end, firstErr := lanesStopped, error(nil)
	for i := range group.lanes {
		workflow.Go(lanesCtx, func(laneCtx workflow.Context) {
			laneEnd, err := r.runLane(laneCtx, group, i)
			group.lanes[i].over = true
			switch {
			case err != nil && laneCtx.Err() == nil:
				firstErr = err
				stop()
			case err == nil:
				end = max(end, laneEnd)
			}
		})
	}
	ticking, stopTicking := workflow.WithCancel(lanesCtx)
	workflow.Go(ticking, r.reportProgress)
	err := r.awaitLanes(lanesCtx, group)
	stopTicking()
	if err != nil {
		return lanesStopped, err
	}
	if lanesCtx.Err() != nil && firstErr == nil {
		end = lanesStopped
	}
	return end, firstErr
}

// awaitLanes waits until all lanes are over or have been left behind.
func (r *bulkRun) awaitLanes(lanesCtx workflow.Context, group *laneGroup) error {
	err := workflow.Await(r.jobCtx, func() bool { return group.over() || lanesCtx.Err() != nil })
	if err != nil || group.over() {
		return err
	}
	if workflow.GetVersion(r.jobCtx, leaveHangingLanes, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return workflow.Await(r.jobCtx, group.over)
	}
	graceCtx, endGrace := workflow.WithCancel(r.jobCtx)
	defer endGrace()
	over, err := workflow.AwaitWithOptions(graceCtx, workflow.AwaitOptions{
		Timeout: stopGrace, TimerOptions: workflow.TimerOptions{Summary: "the lanes are stopping"},
	}, group.over)
	group.left = !over
	return err
}

// runLane starts one lane again and again until it has nothing more to do.
func (r *bulkRun) runLane(ctx workflow.Context, group *laneGroup, i int) (lanesEnd, error) {
	lanes := group.lanes
	lane := dlq.Lane{Bulk: r.bulk.ID, Owner: r.bulk.Owner(), Spec: r.bulk.Spec, Bound: r.bulk.Bound, Mixed: r.bulk.Mixed, Number: i, Of: r.bulk.Lanes}
	for {
		var result activities.LaneResult
		laneCtx := laneOptions(ctx, fmt.Sprintf("lane %d of %d", i+1, r.bulk.Lanes))
		err := workflow.ExecuteActivity(laneCtx, r.steps.RunLane,
			activities.LaneInput{Lane: lane, Refusals: lanes[i].alone}).Get(laneCtx, &result)
		if err != nil || group.left {
			return lanesStopped, err
		}
		if result.Progress {
			lanes[i].refusals, lanes[i].alone, r.refusals = 0, 0, 0
			r.through++
		}
		switch result.End {
		case activities.LaneDone:
			return lanesDone, nil
		case activities.LaneSpent:
			return lanesSpent, nil
		case activities.LaneRefused:
			lane := &lanes[i]
			if lane.refusals++; lane.refusals > 1 && r.through > lane.seen {
				lane.alone++
			}
			lane.seen, lane.waiting = r.through, &result
			if err := r.waitRefused(ctx, lanes, i); err != nil {
				return lanesStopped, err
			}
			lanes[i].waiting = nil
		case activities.LaneClosed:
			return lanesClosed, nil
		case activities.LaneSlice:
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return lanesHandOver, nil
		}
	}
}

// waitRefused lets a refused lane rest while others go on. When every lane that
// is left is refused, the job pauses as a whole.
func (r *bulkRun) waitRefused(ctx workflow.Context, lanes []laneState, i int) error {
	refused := lanes[i]
	rest := refusalPause(refused.refusals)
	if r.pause == nil && allWaiting(lanes) && !workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		r.refusals++
		r.pause = &Pause{Reason: "the target refuses everything: " + refused.waiting.Reason, For: refusalPause(r.refusals)}
		if refused.waiting.Category == dlq.CategoryAuth {
			r.pause.For = 0 // no amount of waiting changes a password
			r.pause.Reason += "; mend that, then resume"
		}
		r.stopLanes()
		return ctx.Err()
	}
	note := storeOptions(ctx, fmt.Sprintf("lane %d waits", i+1))
	err := workflow.ExecuteActivity(note, r.steps.NoteLane, activities.PauseInput{
		ID: r.bulk.ID, Reason: fmt.Sprintf("lane %d of %d waits: %s", i+1, len(lanes), refused.waiting.Reason),
	}).Get(note, nil)
	if err != nil {
		return err
	}
	return workflow.NewTimerWithOptions(ctx, rest, workflow.TimerOptions{Summary: fmt.Sprintf("lane %d was refused", i+1)}).Get(ctx, nil)
}

func allWaiting(lanes []laneState) bool {
	for _, lane := range lanes {
		if !lane.over && lane.waiting == nil {
			return false
		}
	}
	return true
}

func refusalPause(refusals int) time.Duration {
	return min(firstRefusalPause<<min(refusals-1, 10), longestRefusalPause)
}

// reportProgress keeps the details and the query up to date until ctx ends.
func (r *bulkRun) reportProgress(ctx workflow.Context) {
	for workflow.NewTimerWithOptions(ctx, progressInterval, workflow.TimerOptions{Summary: "look at the progress"}).Get(ctx, nil) == nil {
		if r.readBulk(ctx) == nil {
			r.describe(ctx)
		}
	}
}

func (r *bulkRun) readBulk(ctx workflow.Context) error {
	var bulk dlq.BulkRetry
	read := storeOptions(ctx, "read the progress")
	if err := workflow.ExecuteActivity(read, r.steps.ReadBulk, r.bulk.ID).Get(read, &bulk); err != nil {
		return err
	}
	r.bulk = bulk
	return nil
}

func secondsOf(seconds float64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(math.Min(seconds, century.Seconds()) * float64(time.Second))
}
