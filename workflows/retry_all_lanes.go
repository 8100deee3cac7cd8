package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// progressInterval is how often the details and the query are brought up to date. Each
// costs a few events, so that a slow job continues as new now and then; a fast one has
// ended before.
const progressInterval = 15 * time.Second

// lanesEnd says why the lanes ended together.
type lanesEnd int

const (
	// lanesStopped were told to stop and know nothing of what is left.
	lanesStopped lanesEnd = iota
	// lanesDone found nothing more.
	lanesDone
	// lanesAtStepLimit have sent what the ramp's step allows.
	lanesAtStepLimit
	// lanesClosed were not allowed to claim, though the job should run.
	lanesClosed
	// lanesHandOver stopped so that the workflow can continue as new.
	lanesHandOver
)

// laneGroup is the lanes of one call of runLanes.
type laneGroup struct {
	over []bool
	// waiting holds, of each lane that waits for a closed target, why.
	waiting []*activities.LaneResult
	err     error // of the first lane that failed
}

func (g *laneGroup) areOver() bool { return !slices.Contains(g.over, false) }

// allWaiting tells whether every lane that is not over waits.
func (g *laneGroup) allWaiting() bool {
	for i := range g.over {
		if !g.over[i] && g.waiting[i] == nil {
			return false
		}
	}
	return true
}

// runLanes starts every lane and waits for all of them, also when one failed, the job
// is to pause, or the workflow was cancelled: then nothing more is claimed, and the
// lanes return once their pages have ended.
func (r *bulkRun) runLanes(ctx workflow.Context) (lanesEnd, error) {
	restCtx, wake := workflow.WithCancel(ctx)
	defer wake()
	group := &laneGroup{over: make([]bool, r.bulk.Lanes), waiting: make([]*activities.LaneResult, r.bulk.Lanes)}
	end := lanesStopped
	for i := range group.over {
		workflow.Go(restCtx, func(restCtx workflow.Context) {
			laneEnd, err := r.runLane(restCtx, group, i)
			group.over[i], group.waiting[i] = true, nil
			end = max(end, laneEnd)
			if err != nil && restCtx.Err() == nil && group.err == nil {
				group.err = err
			}
		})
	}
	workflow.Go(restCtx, r.reportProgress)
	if err := r.awaitLanes(ctx, group, wake); err != nil {
		return lanesStopped, err
	}
	if restCtx.Err() != nil {
		end = lanesStopped
	}
	return end, group.err
}

// awaitLanes waits until all lanes are over, and stops them when somebody wants that.
func (r *bulkRun) awaitLanes(ctx workflow.Context, group *laneGroup, wake workflow.CancelFunc) error {
	wanted := func() activities.StopInput {
		switch {
		case ctx.Err() != nil:
			return activities.StopInput{ID: r.in.ID, State: dlq.BulkCancelling, Reason: cancelReason}
		case group.err != nil:
			return activities.StopInput{ID: r.in.ID, State: dlq.BulkCancelling, Reason: reasonOf(group.err)}
		case r.pause != nil:
			return activities.StopInput{ID: r.in.ID, State: dlq.BulkPausing, Reason: r.pause.Reason}
		default:
			return activities.StopInput{}
		}
	}
	var asked activities.StopInput
	for !group.areOver() {
		if want := wanted(); want != asked {
			asked = want
			wake()
			if want.State != "" {
				if err := r.step(r.jobCtx, "claim nothing more: "+string(want.State), r.steps.StopBulk, want); err != nil {
					return err
				}
				r.describe(ctx)
			}
			continue
		}
		if err := workflow.Await(r.jobCtx, func() bool { return group.areOver() || wanted() != asked }); err != nil {
			return err
		}
	}
	return nil
}

// runLane starts one lane again and again until it has nothing more to do. The end of
// ctx ends its rest, but not what it has under way.
func (r *bulkRun) runLane(ctx workflow.Context, group *laneGroup, i int) (lanesEnd, error) {
	in := activities.LaneInput{Bulk: r.in.ID, Number: i}
	uncut, _ := workflow.NewDisconnectedContext(ctx)
	for ctx.Err() == nil {
		var result activities.LaneResult
		laneCtx := laneOptions(uncut, fmt.Sprintf("lane %d of %d", i+1, r.bulk.Lanes))
		if err := workflow.ExecuteActivity(laneCtx, r.steps.RunLane, in).Get(laneCtx, &result); err != nil {
			return lanesStopped, err
		}
		in.Shut = result.Shut
		switch result.End {
		case activities.LaneDone:
			return lanesDone, nil
		case activities.LaneStepLimit:
			return lanesAtStepLimit, nil
		case activities.LaneClosed:
			return lanesClosed, nil
		case activities.LaneWaiting:
			if err := r.rest(ctx, group, i, &result); err != nil {
				return lanesStopped, err
			}
		case activities.LaneTimeSlice:
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return lanesHandOver, nil
		}
	}
	return lanesStopped, nil
}

// rest lets a lane wait for a closed target while others go on. When every lane that
// is left waits, the job pauses as a whole.
func (r *bulkRun) rest(ctx workflow.Context, group *laneGroup, i int, result *activities.LaneResult) error {
	group.waiting[i] = result
	if r.pause == nil && ctx.Err() == nil && group.allWaiting() && !workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		r.pause = selfPause(group.waiting) // which ends the rest below
	}
	timer := workflow.TimerOptions{Summary: fmt.Sprintf("lane %d waits: %s", i+1, result.Reason)}
	err := workflow.NewTimerWithOptions(ctx, result.For, timer).Get(ctx, nil)
	group.waiting[i] = nil
	return err
}

// closedReason begins the reason of a job that pauses itself.
const closedReason = "all that is left waits for a target that refuses everything: "

// selfPause is the pause of a job whose lanes all wait, until the first of their
// targets may be asked again.
func selfPause(waiting []*activities.LaneResult) *Pause {
	pause := &Pause{}
	for _, lane := range waiting {
		if lane == nil {
			continue
		}
		if lane.Category == dlq.CategoryAuth {
			if pause.Reason == "" {
				pause.Reason = closedReason + lane.Reason + "; mend that, then resume"
			}
			continue // no amount of waiting changes a password
		}
		if pause.For == 0 || lane.For < pause.For {
			pause.Reason, pause.For = closedReason+lane.Reason, max(lane.For, time.Second)
		}
	}
	return pause
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
