package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// RetryAll sends back every retryable message of a scope that was stored before
// it began. The work is cut into lanes by the messages' keys, so that each key
// stays in order, and every lane is a long activity that pages through the
// store. What it has done is counted in the store, in the same transactions.
//
// While it runs it can be paused, resumed, slowed down and cancelled; it pauses
// itself when its target refuses everything or when a ramp sees too much come
// back. Paused or ended, it leaves no message RETRYING.
func RetryAll(ctx workflow.Context, in RetryAllInput) (RetryAllResult, error) {
	r := &bulkRun{in: in, rate: workflow.NewMutex(ctx)}
	r.jobCtx, _ = workflow.NewDisconnectedContext(ctx)
	// Before anything that waits: a command may be the first thing to arrive.
	if err := r.handleUpdates(ctx); err != nil {
		return RetryAllResult{}, err
	}
	if err := r.begin(ctx); err != nil {
		r.ended = true
		return RetryAllResult{}, err
	}
	runErr := r.run(ctx)
	// Commands are answered before the workflow closes.
	if r.ended = !errors.Is(runErr, errHandOver); !r.ended {
		r.handingOver = true
	}
	if err := workflow.Await(r.jobCtx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return RetryAllResult{}, err
	}
	switch {
	case r.ended:
	case ctx.Err() != nil: // cancelled while it was about to hand over
		runErr = ctx.Err()
	default:
		return RetryAllResult{}, r.continueAsNew(ctx)
	}

	end := activities.EndInput{ID: r.bulk.ID, State: dlq.BulkCompleted}
	switch {
	case temporal.IsCanceledError(runErr):
		end.State, end.Reason = dlq.BulkCancelled, "cancelled by an operator"
	case runErr != nil:
		end.State, end.Reason = dlq.BulkFailed, reasonOf(runErr)
	}
	err := workflow.ExecuteActivity(storeOptions(r.jobCtx, "close the job: "+string(end.State)), r.steps.EndBulk, end).
		Get(r.jobCtx, &r.bulk)
	if err != nil {
		return RetryAllResult{}, err
	}
	r.describe(ctx)
	return RetryAllResult{Bulk: r.bulk, Published: r.published}, runErr
}

// bulkRun is one run of RetryAll.
type bulkRun struct {
	in    RetryAllInput
	steps *activities.Bulk
	// jobCtx is not cancelled with the workflow: the job is opened, paused and
	// closed on it, so that a cancellation at any moment finds no job or a
	// whole one.
	jobCtx workflow.Context

	bulk      dlq.BulkRetry
	published bool
	rampStep  int
	// stepOpen is whether the allowance of step rampStep is being sent.
	stepOpen bool
	// refusals is how often in a row the job paused itself, and through how
	// often a lane got through.
	refusals, through int

	// pause is what somebody wants; nil to run.
	pause *Pause
	// stopLanes ends the lanes that run; nil when none do.
	stopLanes workflow.CancelFunc
	// commands counts pauses and resumes, so that one knows when another has
	// taken its place.
	commands int
	// handingOver lets commands go unfinished to the next run.
	handingOver bool
	// rate keeps changes of the rate in the order in which they came.
	rate workflow.Mutex

	// begun is whether there is a job yet; ended makes commands that come too
	// late fail.
	begun, ended bool
}

// begin freezes the scope, or takes up where the run before left off.
func (r *bulkRun) begin(ctx workflow.Context) error {
	owner := ownerOf(ctx)
	id, err := dlq.ParseID(owner.RunID)
	if err != nil {
		return temporal.NewNonRetryableApplicationError("run id", "InvalidRunID", err)
	}
	if was := r.in.Resumed; was != nil {
		r.bulk, r.published, r.pause = was.Bulk, was.Published, was.Paused
		r.rampStep, r.stepOpen, r.refusals = was.RampStep, was.StepOpen, was.Refusals
		r.begun = true
		return nil
	}
	workflow.SetCurrentDetails(ctx, "Counting what is to be retried.")
	var plan activities.BulkPlan
	request := dlq.BulkRetry{ID: id, WorkflowID: owner.WorkflowID, Spec: r.in.Spec, Lanes: max(r.in.Lanes, 1)}
	err = workflow.ExecuteActivity(planOptions(r.jobCtx, "freeze the scope"), r.steps.PlanBulk, request).Get(r.jobCtx, &plan)
	if err != nil {
		return err
	}
	r.bulk, r.published, r.begun = plan.Bulk, plan.Published, true
	return nil
}

// run alternates between sending and pausing until nothing is left to send.
func (r *bulkRun) run(ctx workflow.Context) error {
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return errHandOver
		}
		if r.pause != nil {
			if err := r.waitPaused(ctx); err != nil {
				return err
			}
			continue
		}
		if err := r.openStep(); err != nil {
			return err
		}
		if r.pause != nil {
			continue // somebody paused it meanwhile
		}
		end, err := r.runLanes(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case r.pause != nil:
		case end == lanesHandOver, end == lanesStopped:
		case end == lanesClosed:
			if err := r.reopen(ctx); err != nil {
				return err
			}
		case end == lanesDone:
			return nil
		default: // the step is sent
			if done, err := r.watchStep(ctx); done || err != nil {
				return err
			}
		}
	}
}

// errHandOver ends a run whose history has grown long.
var errHandOver = errors.New("continue as new")

// reopen makes the job's row agree that it runs. It disagrees when a pause that
// was taken for lost got through after all.
func (r *bulkRun) reopen(ctx workflow.Context) error {
	err := workflow.ExecuteActivity(storeOptions(r.jobCtx, "go on"), r.steps.ResumeBulk, r.bulk.ID).Get(r.jobCtx, &r.bulk)
	if err != nil {
		return err
	}
	if r.bulk.State.IsFinal() {
		return temporal.NewNonRetryableApplicationError("the job was closed by somebody else", typeEnded, nil)
	}
	return workflow.Sleep(ctx, time.Second)
}

// waitPaused records that nothing is sent and waits for an operator, or, where
// the reason may pass by itself, for a while.
func (r *bulkRun) waitPaused(ctx workflow.Context) error {
	pause := r.pause
	err := workflow.ExecuteActivity(storeOptions(r.jobCtx, "pause: "+pause.Reason), r.steps.PauseBulk,
		activities.PauseInput{ID: r.bulk.ID, Reason: pause.Reason}).Get(r.jobCtx, &r.bulk)
	if err != nil {
		return err
	}
	r.describe(ctx)
	resumed := func() bool { return r.pause != pause || workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
	if pause.For > 0 {
		var passed bool
		if passed, err = workflow.AwaitWithTimeout(ctx, pause.For, resumed); !passed && err == nil && r.pause == pause {
			r.pause = nil
		}
	} else {
		err = workflow.Await(ctx, resumed)
	}
	if err != nil {
		return err
	}
	if r.pause != nil {
		return nil // paused anew, for another reason, or about to hand over
	}
	return workflow.ExecuteActivity(storeOptions(r.jobCtx, "go on"), r.steps.ResumeBulk, r.bulk.ID).Get(r.jobCtx, &r.bulk)
}

// continueAsNew starts over with an empty history. The job is in the store, so
// the next run needs little.
func (r *bulkRun) continueAsNew(ctx workflow.Context) error {
	in := r.in
	in.Resumed = &Resumed{
		Bulk: r.bulk, Published: r.published, Paused: r.pause,
		RampStep: r.rampStep, StepOpen: r.stepOpen, Refusals: r.refusals,
	}
	return workflow.NewContinueAsNewError(ctx, RetryAllType, in)
}

// describe tells people in the Temporal Web UI how far the job is.
func (r *bulkRun) describe(ctx workflow.Context) {
	b := r.bulk
	text := fmt.Sprintf("**%s** %s: %d of %d done, %d retried, %d failed, %d dead, %d skipped, %d came back.",
		b.State, b.Spec.Topic, b.Counts.Done(), b.Matched, b.Counts.Retried, b.Counts.Failed, b.Counts.Dead, b.Counts.Skipped, b.CameBack)
	if b.State == dlq.BulkRunning && b.RecentPerSecond > 0 {
		left := float64(b.Matched-b.Counts.Done()) / b.RecentPerSecond
		end := b.UpdatedAt.Add(secondsOf(left))
		text += fmt.Sprintf(" %.0f messages a second; it ends at about %s.", b.RecentPerSecond, end.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if b.Reason != "" {
		text += " " + b.Reason
	}
	workflow.SetCurrentDetails(ctx, text)
}
