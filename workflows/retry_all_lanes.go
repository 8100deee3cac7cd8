package workflows

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

const (
	// progressInterval is how often the details and the query are brought up
	// to date. Each costs a few events, so that a slow job continues as new
	// now and then; a fast one has ended before.
	progressInterval = 15 * time.Second
	// stopGrace is how long lanes that were told to stop may take for the page
	// in hand. Half a second passes until they hear of it, and a pause has to
	// be in force within two; a publish to a broker that hangs takes far longer.
	stopGrace = 1400 * time.Millisecond
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

// laneState is what one lane is up to.
type laneState int

const (
	laneSending laneState = iota
	// laneWaiting was refused, and rests.
	laneWaiting
	// laneOver has nothing more to do.
	laneOver
)

// laneGroup is the lanes of one call of runLanes.
type laneGroup struct {
	lanes []laneState
	// left says that the run has gone on without those that still hang. What
	// becomes of them is no longer its business.
	left bool
}

func (g *laneGroup) over() bool {
	return !slices.ContainsFunc(g.lanes, func(lane laneState) bool { return lane != laneOver })
}

// runLanes starts every lane and waits for all of them, also when one failed.
// Once they were told to stop it waits for stopGrace, and leaves those that hang
// behind. The caller then has to pause or end the job, or to run its lanes anew:
// each takes from the old attempts the power to change anything. Messages that such
// an attempt has with a broker may still be delivered, and are sent a second time
// when the job goes on.
func (r *bulkRun) runLanes(ctx workflow.Context) (lanesEnd, error) {
	lanesCtx, stop := workflow.WithCancel(ctx)
	r.stopLanes = stop
	defer func() { r.stopLanes = nil; stop() }()

	group := &laneGroup{lanes: make([]laneState, r.bulk.Lanes)}
	r.refusals.lanes = make([]laneRefusals, r.bulk.Lanes)
	end, firstErr := lanesStopped, error(nil)
	for i := range group.lanes {
		workflow.Go(lanesCtx, func(laneCtx workflow.Context) {
			laneEnd, err := r.runLane(laneCtx, group, i)
			group.lanes[i] = laneOver
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
	for {
		var result activities.LaneResult
		laneCtx := laneOptions(ctx, fmt.Sprintf("lane %d of %d", i+1, r.bulk.Lanes))
		in := activities.LaneInput{Bulk: r.in.ID, Number: i, RefusedAlone: r.refusals.lanes[i].alone}
		err := workflow.ExecuteActivity(laneCtx, r.steps.RunLane, in).Get(laneCtx, &result)
		if err != nil || group.left {
			return lanesStopped, err
		}
		if result.Progress {
			r.refusals.gotThrough(i)
		}
		switch result.End {
		case activities.LaneDone:
			return lanesDone, nil
		case activities.LaneSpent:
			return lanesSpent, nil
		case activities.LaneRefused:
			if err := r.waitRefused(ctx, group, i, result); err != nil {
				return lanesStopped, err
			}
		case activities.LaneClosed:
			return lanesClosed, nil
		case activities.LaneSlice:
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return lanesHandOver, nil
		}
	}
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
	return r.step(ctx, "read the progress", r.steps.ReadBulk, r.in.ID)
}

func secondsOf(seconds float64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(math.Min(seconds, century.Seconds()) * float64(time.Second))
}
