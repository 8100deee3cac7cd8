package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

const (
	// firstRefusalPause doubles up to longestRefusalPause: soon enough after a
	// broker's restart, rare enough through a night's outage.
	firstRefusalPause   = time.Second
	longestRefusalPause = 30 * time.Second
)

// refusals counts how often the target refused a page. It tells a target that is
// away from one that refuses what one lane sends, and says how long to wait.
type refusals struct {
	// selfPauses is how often in a row the whole job has paused itself.
	selfPauses int
	lanes      []laneRefusals
}

// laneRefusals are those of one lane since it last got through.
type laneRefusals struct {
	inARow int
	// alone is how many of them came after another lane had got through since the
	// refusal before.
	alone         int
	othersThrough bool
}

// gotThrough notes that the target took, or judged, what lane i sent.
func (r *refusals) gotThrough(i int) {
	r.selfPauses = 0
	for other := range r.lanes {
		r.lanes[other].othersThrough = true
	}
	r.lanes[i] = laneRefusals{}
}

// refused notes that the target refused a whole page of lane i, and returns how long
// the lane waits.
func (r *refusals) refused(i int) time.Duration {
	lane := &r.lanes[i]
	if lane.inARow++; lane.inARow > 1 && lane.othersThrough {
		lane.alone++
	}
	lane.othersThrough = false
	return refusalPause(lane.inARow)
}

func refusalPause(inARow int) time.Duration {
	return min(firstRefusalPause<<min(inARow-1, 10), longestRefusalPause)
}

// waitRefused lets a refused lane rest while others go on. When every lane that
// is left is refused, the job pauses as a whole.
func (r *bulkRun) waitRefused(ctx workflow.Context, group *laneGroup, i int, result activities.LaneResult) error {
	rest := r.refusals.refused(i)
	group.lanes[i] = laneWaiting
	if r.pause == nil && !slices.Contains(group.lanes, laneSending) && !workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		r.refusals.selfPauses++
		r.pause = &Pause{Reason: "the target refuses everything: " + result.Reason, For: refusalPause(r.refusals.selfPauses)}
		if result.Category == dlq.CategoryAuth {
			r.pause.For = 0 // no amount of waiting changes a password
			r.pause.Reason += "; mend that, then resume"
		}
		r.stopLanes()
		return ctx.Err()
	}
	note := storeOptions(ctx, fmt.Sprintf("lane %d waits", i+1))
	err := workflow.ExecuteActivity(note, r.steps.NoteLane, activities.PauseInput{
		ID: r.in.ID, Reason: fmt.Sprintf("lane %d of %d waits: %s", i+1, len(group.lanes), result.Reason),
	}).Get(note, nil)
	if err != nil {
		return err
	}
	err = workflow.NewTimerWithOptions(ctx, rest, workflow.TimerOptions{Summary: fmt.Sprintf("lane %d was refused", i+1)}).Get(ctx, nil)
	group.lanes[i] = laneSending
	return err
}
