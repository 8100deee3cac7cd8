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
// the job was created. The work is cut into lanes by the messages' keys, so that each key
// stays in order, and every lane is a long activity that pages through the
// store. Its progress is counted in the store, in the same transactions.
//
// While it runs it can be paused, resumed, slowed down and cancelled; it pauses
// itself when every target refuses everything or when a ramp sees too much come
// back. To pause or end it lets nothing more be claimed, and waits until the pages in
// hand have ended. Paused or ended, it leaves no message RETRYING.
func RetryAll(ctx workflow.Context, in RetryAllInput) (RetryAllResult, error) {
	r := &bulkRun{in: in, phase: phaseBeginning, rate: workflow.NewMutex(ctx)}
	r.jobCtx, _ = workflow.NewDisconnectedContext(ctx)
	// Before anything that waits: a command may be the first thing to arrive.
	if err := r.handleUpdates(ctx); err != nil {
		return RetryAllResult{}, err
	}
	runErr := r.begin(ctx)
	if runErr == nil {
		r.phase = phaseRunning
		runErr = r.run(ctx)
	}
	r.phase = phaseEnded
	if errors.Is(runErr, errHandOver) {
		r.phase = phaseHandingOver
	}
	// Commands are answered before the workflow closes.
	if err := workflow.Await(r.jobCtx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return RetryAllResult{}, err
	}
	if r.phase == phaseHandingOver {
		if ctx.Err() == nil {
			return RetryAllResult{}, r.continueAsNew(ctx)
		}
		runErr = ctx.Err() // cancelled while it was about to hand over
	}
	return r.end(ctx, runErr)
}

// phase is where a run of RetryAll stands.
type phase int

const (
	// phaseBeginning counts the scope; nothing is sent yet.
	phaseBeginning phase = iota
	// phaseRunning sends, or is paused.
	phaseRunning
	// phaseHandingOver leaves everything else, commands too, to the next run.
	phaseHandingOver
	// phaseEnded refuses commands: they come too late.
	phaseEnded
)

// bulkRun is one run of RetryAll.
type bulkRun struct {
	in    RetryAllInput
	steps *activities.Bulk
	// jobCtx is not cancelled with the workflow: the job is sent, paused and closed on
	// it. A cancellation lets the lanes come to their end.
	jobCtx workflow.Context
	phase  phase

	bulk      dlq.BulkRetry
	published bool
	rampStep  int
	// stepOpen is whether the allowance of step rampStep is being sent.
	stepOpen bool

	// pause is what somebody wants; nil to run.
	pause *Pause
	// commands counts pauses and resumes, so that one knows when another has
	// taken its place.
	commands int
	// rate keeps changes of the rate in the order in which they came.
	rate workflow.Mutex
}

// begin counts the scope, or takes up where the run before left off.
func (r *bulkRun) begin(ctx workflow.Context) error {
	if was := r.in.Resumed; was != nil {
		r.bulk, r.published, r.pause = was.Bulk, was.Published, was.Paused
		r.rampStep, r.stepOpen = was.RampStep, was.StepOpen
		return nil
	}
	workflow.SetCurrentDetails(ctx, "Counting what is to be retried.")
	var begun activities.BulkBegun
	err := workflow.ExecuteActivity(countOptions(ctx, "count the scope"), r.steps.BeginBulk, r.in.ID).Get(ctx, &begun)
	if err != nil {
		return err
	}
	r.bulk, r.published = begun.Bulk, begun.Published
	return r.checkOpen()
}

// step runs an activity that returns the job, and keeps that. It decodes into a new
// value: a field that is left out in JSON must not keep what it was.
func (r *bulkRun) step(ctx workflow.Context, summary string, activity, in any) error {
	var bulk dlq.BulkRetry
	ctx = storeOptions(ctx, summary)
	if err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &bulk); err != nil {
		return err
	}
	r.bulk = bulk
	return nil
}

// checkOpen fails when somebody else has closed the job.
func (r *bulkRun) checkOpen() error {
	if r.bulk.State.IsFinal() {
		return temporal.NewNonRetryableApplicationError("the job was closed by somebody else", typeEnded, nil)
	}
	return nil
}

const cancelReason = "cancelled by an operator"

// end closes the job, unless somebody else has: the first end counts.
func (r *bulkRun) end(ctx workflow.Context, runErr error) (RetryAllResult, error) {
	end := activities.EndInput{ID: r.in.ID, State: dlq.BulkCompleted}
	switch {
	case temporal.IsCanceledError(runErr):
		end.State, end.Reason = dlq.BulkCancelled, cancelReason
	case runErr != nil:
		end.State, end.Reason = dlq.BulkFailed, reasonOf(runErr)
	}
	if err := r.step(r.jobCtx, "close the job: "+string(end.State), r.steps.EndBulk, end); err != nil {
		return RetryAllResult{}, err
	}
	r.describe(ctx)
	return RetryAllResult{Bulk: r.bulk, Published: r.published}, runErr
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
		if r.bulk.State != dlq.BulkRunning { // it was paused, or about to be
			if err := r.resume(ctx); err != nil {
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
			if err := r.lookAgain(ctx); err != nil {
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

// resume makes the job's row say that it runs.
func (r *bulkRun) resume(ctx workflow.Context) error {
	if err := r.step(r.jobCtx, "go on", r.steps.ResumeBulk, r.in.ID); err != nil {
		return err
	}
	if err := r.checkOpen(); err != nil {
		return err
	}
	if r.bulk.State != dlq.BulkRunning {
		return workflow.Sleep(ctx, time.Second) // somebody has written the row by hand
	}
	return nil
}

// lookAgain reads the job whose lanes were not allowed to claim though it should run:
// its row was changed by somebody else, or the lanes have newer attempts.
func (r *bulkRun) lookAgain(ctx workflow.Context) error {
	if err := r.readBulk(r.jobCtx); err != nil {
		return err
	}
	if err := r.checkOpen(); err != nil {
		return err
	}
	return workflow.Sleep(ctx, time.Second)
}

// waitPaused records that nothing is sent and waits for an operator, or, where
// the reason may pass by itself, for a while.
func (r *bulkRun) waitPaused(ctx workflow.Context) error {
	pause := r.pause
	err := r.step(r.jobCtx, "pause: "+pause.Reason, r.steps.PauseBulk, activities.PauseInput{ID: r.in.ID, Reason: pause.Reason})
	if err == nil {
		err = r.checkOpen() // or it would wait for ever
	}
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
	return nil
}

// continueAsNew starts over with an empty history. The job is in the store, so
// the next run needs little.
func (r *bulkRun) continueAsNew(ctx workflow.Context) error {
	in := r.in
	in.Resumed = &Resumed{
		Bulk: r.bulk, Published: r.published, Paused: r.pause,
		RampStep: r.rampStep, StepOpen: r.stepOpen,
	}
	return workflow.NewContinueAsNewError(ctx, RetryAllType, in)
}

// describe tells people in the Temporal Web UI how far the job is.
func (r *bulkRun) describe(ctx workflow.Context) {
	b := r.bulk
	text := fmt.Sprintf("**%s** %s: %d of %d done, %d retried, %d failed, %d dead, %d skipped, %d came back.",
		b.State, b.Spec.Topic, b.Counts.Done(), b.Matched, b.Counts.Retried, b.Counts.Failed, b.Counts.Dead, b.Counts.Skipped, b.CameBack)
	if b.State == dlq.BulkRunning && b.RecentPerSecond > 0 {
		text += fmt.Sprintf(" %.0f messages a second.", b.RecentPerSecond)
	}
	if end, known := b.EstimatedEnd(b.UpdatedAt); known {
		text += fmt.Sprintf(" It ends at about %s.", end.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if b.Waiting > 0 {
		text += fmt.Sprintf(" %d wait.", b.Waiting)
	}
	if b.Reason != "" {
		text += " " + b.Reason
	}
	workflow.SetCurrentDetails(ctx, text)
}
