package workflows

import (
	"fmt"
	"math"
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

// runLanes starts every lane and waits for all of them, also when one failed:
// only then is it certain that nothing is being sent any more.
func (r *bulkRun) runLanes(ctx workflow.Context) (lanesEnd, error) {
	lanesCtx, stop := workflow.WithCancel(ctx)
	r.stopLanes = stop
	defer func() { r.stopLanes = nil; stop() }()

	lanes := make([]laneState, r.bulk.Lanes)
	end, firstErr := lanesStopped, error(nil)
	running := workflow.NewWaitGroup(ctx)
	for i := range lanes {
		running.Add(1)
		workflow.Go(lanesCtx, func(laneCtx workflow.Context) {
			defer running.Done()
			laneEnd, err := r.runLane(laneCtx, lanes, i)
			lanes[i].over = true
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
	running.Wait(r.jobCtx)
	stopTicking()
	if lanesCtx.Err() != nil && firstErr == nil {
		end = lanesStopped
	}
	return end, firstErr
}

// runLane starts one lane again and again until it has nothing more to do.
func (r *bulkRun) runLane(ctx workflow.Context, lanes []laneState, i int) (lanesEnd, error) {
	lane := dlq.Lane{Bulk: r.bulk.ID, Owner: r.bulk.Owner(), Spec: r.bulk.Spec, Bound: r.bulk.Bound, Mixed: r.bulk.Mixed, Number: i, Of: r.bulk.Lanes}
	for {
		var result activities.LaneResult
		laneCtx := laneOptions(ctx, fmt.Sprintf("lane %d of %d", i+1, r.bulk.Lanes))
		err := workflow.ExecuteActivity(laneCtx, r.steps.RunLane,
			activities.LaneInput{Lane: lane, Refusals: lanes[i].alone}).Get(laneCtx, &result)
		if err != nil {
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
