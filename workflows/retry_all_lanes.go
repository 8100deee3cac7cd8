package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// progressInterval is how often the details in the Web UI and the answer of the query are updated. Each update costs a few
// events, so a long job continues as new from time to time.
const progressInterval = 15 * time.Second

// lanesEnd says why runLanes returned. If the lanes have several reasons, the greatest value counts.
type lanesEnd int

const (
	// lanesDone: no message is left.
	lanesDone lanesEnd = iota
	// lanesAtStepLimit: the step limit of the ramp is reached.
	lanesAtStepLimit
	// lanesClosed: a lane was not allowed to claim, though the job should run.
	lanesClosed
	// lanesStopped: the lanes were stopped, or the workflow should continue as new. Messages may be left.
	lanesStopped
)

// laneGroup has the lanes of a call of runLanes.
type laneGroup struct {
	lanes []laneState
	err   error // of the first lane that failed
}

type laneState struct {
	ended   bool
	waiting *activities.LaneResult // of a lane that waits for a closed target, else nil
}

func (g *laneGroup) allEnded() bool {
	return !slices.ContainsFunc(g.lanes, func(l laneState) bool { return !l.ended })
}

// allWaiting tells whether every lane that has not ended waits.
func (g *laneGroup) allWaiting() bool {
	return !slices.ContainsFunc(g.lanes, func(l laneState) bool { return !l.ended && l.waiting == nil })
}

// runLanes starts every lane and waits for all of them. runLanes stops the claims when a lane fails, when the job is to
// pause, or when the workflow is cancelled. The lanes then return once their pages are finalized.
func (r *bulkRun) runLanes(ctx workflow.Context) (lanesEnd, error) {
	waitCtx, wake := workflow.WithCancel(ctx)
	defer wake()
	group := &laneGroup{lanes: make([]laneState, r.job.Lanes)}
	end := lanesDone
	for i := range group.lanes {
		workflow.Go(waitCtx, func(waitCtx workflow.Context) {
			laneEnd, err := r.runLane(waitCtx, group, i)
			group.lanes[i] = laneState{ended: true}
			end = max(end, laneEnd)
			if err != nil && waitCtx.Err() == nil && group.err == nil {
				group.err = err
			}
		})
	}
	workflow.Go(waitCtx, r.reportProgress)
	if err := r.awaitLanes(ctx, group, wake); err != nil {
		return lanesStopped, err
	}
	if waitCtx.Err() != nil {
		end = lanesStopped
	}
	return end, group.err
}

// awaitLanes waits until all lanes have ended, and stops the claims when the workflow is
// cancelled, a lane has failed, or a pause is requested.
func (r *bulkRun) awaitLanes(ctx workflow.Context, group *laneGroup, wake workflow.CancelFunc) error {
	wanted := func() activities.StateInput {
		switch {
		case ctx.Err() != nil:
			return activities.StateInput{ID: r.in.ID, State: dlq.JobCancelling, Reason: cancelReason}
		case group.err != nil:
			return activities.StateInput{ID: r.in.ID, State: dlq.JobCancelling, Reason: reasonOf(group.err)}
		case r.Paused != nil:
			return activities.StateInput{ID: r.in.ID, State: dlq.JobPausing, Reason: r.Paused.Reason}
		default:
			return activities.StateInput{}
		}
	}
	var asked activities.StateInput
	for !group.allEnded() {
		if want := wanted(); want != asked {
			asked = want
			wake()
			if want.State != "" {
				if err := r.updateJob(storeOptions(r.jobCtx, "claim nothing more: "+string(want.State)), r.steps.StopJob, want); err != nil {
					return err
				}
				r.describe(ctx)
			}
			continue
		}
		if err := workflow.Await(r.jobCtx, func() bool { return group.allEnded() || wanted() != asked }); err != nil {
			return err
		}
	}
	return nil
}

// runLane starts a lane repeatedly until nothing more is to be done. The end of ctx ends the lane's wait for a closed
// target, but not a running activity.
func (r *bulkRun) runLane(ctx workflow.Context, group *laneGroup, i int) (lanesEnd, error) {
	in := activities.LaneInput{Bulk: r.in.ID, Number: i}
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	for ctx.Err() == nil {
		var result activities.LaneResult
		laneCtx := laneOptions(uncancelled, fmt.Sprintf("lane %d of %d", i+1, r.job.Lanes))
		if err := workflow.ExecuteActivity(laneCtx, r.steps.RunLane, in).Get(laneCtx, &result); err != nil {
			return lanesStopped, err
		}
		in.TargetClosed = result.TargetClosed
		switch result.End {
		case activities.LaneDone:
			return lanesDone, nil
		case activities.LaneStepLimit:
			return lanesAtStepLimit, nil
		case activities.LaneClosed:
			return lanesClosed, nil
		case activities.LaneWaiting:
			if err := r.waitForTarget(ctx, group, i, &result); err != nil {
				return lanesStopped, err
			}
		case activities.LaneTimeSlice:
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return lanesStopped, nil
		}
	}
	return lanesStopped, nil
}

// waitForTarget lets a lane wait for a closed target while the other lanes continue.
// When every lane that has not ended waits, the job pauses.
func (r *bulkRun) waitForTarget(ctx workflow.Context, group *laneGroup, i int, result *activities.LaneResult) error {
	group.lanes[i].waiting = result
	if r.Paused == nil && ctx.Err() == nil && group.allWaiting() && !workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		r.Paused = selfPause(group.lanes) // awaitLanes then ends ctx, which cancels the timer below
	}
	timer := workflow.TimerOptions{Summary: fmt.Sprintf("lane %d waits: %s", i+1, result.Reason)}
	err := workflow.NewTimerWithOptions(ctx, result.For, timer).Get(ctx, nil)
	group.lanes[i].waiting = nil
	return err
}

// closedReason is the beginning of the reason of a self-pause.
const closedReason = "all that is left waits for a target that refuses everything: "

// selfPause is the pause of a job whose lanes all wait. The pause lasts until the first of their targets may be tried
// again. If all targets refuse the authorisation, it lasts until an operator resumes the job.
func selfPause(lanes []laneState) *Pause {
	pause := &Pause{TargetClosed: true}
	for _, l := range lanes {
		switch lane := l.waiting; {
		case lane == nil:
		case lane.Category == dlq.CategoryAuth: // waiting does not fix an authorisation
			pause.Reason = cmp.Or(pause.Reason, closedReason+lane.Reason+"; fix that, then resume")
		case pause.For == 0 || lane.For < pause.For:
			pause.Reason, pause.For = closedReason+lane.Reason, max(lane.For, time.Second)
		}
	}
	return pause
}

// reportProgress updates the details in the Web UI and the answer of the query until ctx ends.
func (r *bulkRun) reportProgress(ctx workflow.Context) {
	for workflow.NewTimerWithOptions(ctx, progressInterval, workflow.TimerOptions{Summary: "update the progress"}).Get(ctx, nil) == nil {
		if r.readJob(ctx) == nil {
			r.describe(ctx)
		}
	}
}
