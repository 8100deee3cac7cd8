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

// RetryAll sends back the messages in the scope of a bulk retry. Each key belongs to a single
// lane, and so stays in order. A lane runs as long activities that send pages of messages.
// The store counts the progress in the transactions that change the messages.
//
// A running job can be paused, resumed, slowed down and cancelled. The job pauses itself when
// its targets refuse everything, or when too many messages of a ramp came back. To pause
// or end, the job stops the claims and waits until the claimed pages are finalized. Then no
// message of the job is RETRYING.
func RetryAll(ctx workflow.Context, in JobInput) (JobResult, error) {
	r := &bulkRun{in: in, phase: phaseBeginning, rate: workflow.NewMutex(ctx)}
	r.jobCtx, _ = workflow.NewDisconnectedContext(ctx)
	// The handlers come first, because an update may be the first thing to arrive.
	if err := r.handleUpdates(ctx); err != nil {
		return JobResult{}, err
	}
	runErr := r.begin(ctx)
	if runErr == nil {
		if err := checkKind(&r.bulk, RetryAllType); err != nil {
			return JobResult{}, err
		}
		r.phase = phaseRunning
		runErr = r.run(ctx)
	}
	r.phase = phaseEnded
	if errors.Is(runErr, errContinueAsNew) {
		r.phase = phaseContinuingAsNew
	}
	// Updates are answered before the run closes.
	if err := workflow.Await(r.jobCtx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return JobResult{}, err
	}
	if r.phase == phaseContinuingAsNew {
		if ctx.Err() == nil {
			return JobResult{}, r.continueAsNew(ctx)
		}
		runErr = ctx.Err() // cancelled just before continuing as new
	}
	return r.end(ctx, runErr)
}

// checkKind refuses a job that a workflow of another type runs. Whoever starts a workflow can write anything into its
// input, and must not end the other one's job.
func checkKind(j *dlq.Job, workflowType string) error {
	if (j.Spec.Kind == dlq.KindRetry) == (workflowType == RetryAllType) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("a job of the kind %s is not run by %s", j.Spec.Kind, workflowType), "OtherKind", nil)
}

// phase is the phase of a run of RetryAll.
type phase int

const (
	// phaseBeginning counts the scope; nothing is sent yet.
	phaseBeginning phase = iota
	// phaseRunning sends, or is paused.
	phaseRunning
	// phaseContinuingAsNew leaves all further work and updates to the next run.
	phaseContinuingAsNew
	// phaseEnded refuses updates.
	phaseEnded
)

// bulkRun is a run of RetryAll.
type bulkRun struct {
	in    JobInput
	steps *activities.Jobs
	// jobCtx is not cancelled with the workflow, so that after a cancellation the lanes
	// can finish their pages and the job can be closed.
	jobCtx workflow.Context
	phase  phase

	bulk      dlq.Job
	published bool
	rampStep  int
	// stepOpen is set while the step limit belongs to step rampStep.
	stepOpen bool

	// pause is the requested pause; nil to run.
	pause *Pause
	// resumedBy is the id of the update that resumes the job; empty if the job resumes by itself.
	resumedBy string
	// pauseUpdates counts the updates that pause or resume, so that a waiting update notices
	// a later update.
	pauseUpdates int
	// rate keeps changes of the rate limit in order.
	rate workflow.Mutex
}

// begin counts the scope, or restores the state of the previous run.
func (r *bulkRun) begin(ctx workflow.Context) error {
	// Whoever starts a workflow can write anything into its input, so only a run that another run
	// continues as has a state, and the job is in the store.
	if was := r.in.Resumed; was != nil && workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
		r.published, r.pause = was.Published, was.Paused
		r.rampStep, r.stepOpen = max(was.RampStep, 0), was.StepOpen
		if err := r.readBulk(r.jobCtx); err != nil {
			return err
		}
		return r.checkOpen()
	}
	workflow.SetCurrentDetails(ctx, "Counting the messages to retry.")
	var begun activities.JobBegun
	err := workflow.ExecuteActivity(countOptions(ctx, "count the scope"), r.steps.BeginJob, r.in.ID).Get(ctx, &begun)
	if err != nil {
		return err
	}
	r.bulk, r.published = begun.Job, begun.Published
	return r.checkOpen()
}

// step runs an activity that returns the job, and stores the job in r.bulk, decoded into
// a new value, so that a field missing in the JSON gets its zero value.
func (r *bulkRun) step(ctx workflow.Context, summary string, activity, in any) error {
	var bulk dlq.Job
	ctx = storeOptions(ctx, summary)
	if err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &bulk); err != nil {
		return err
	}
	r.bulk = bulk
	return nil
}

// checkOpen fails when another client has closed the job.
func (r *bulkRun) checkOpen() error {
	if r.bulk.State.IsFinal() {
		return temporal.NewNonRetryableApplicationError("the job was closed by another client", typeEnded, nil)
	}
	return nil
}

const cancelReason = "cancelled by an operator"

// end closes the job. The state of a job that another client has closed does not change.
func (r *bulkRun) end(ctx workflow.Context, runErr error) (JobResult, error) {
	end := activities.StateInput{ID: r.in.ID, State: dlq.JobCompleted}
	switch {
	case temporal.IsCanceledError(runErr):
		end.State, end.Reason = dlq.JobCancelled, cancelReason
	case runErr != nil:
		end.State, end.Reason = dlq.JobFailed, reasonOf(runErr)
	}
	if err := r.step(r.jobCtx, "close the job: "+string(end.State), r.steps.EndJob, end); err != nil {
		return JobResult{}, err
	}
	r.describe(ctx)
	return JobResult{Job: r.bulk, Published: r.published}, runErr
}

// run alternates between sending and pausing until nothing is left to send.
func (r *bulkRun) run(ctx workflow.Context) error {
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return errContinueAsNew
		}
		if r.pause != nil {
			if err := r.waitPaused(ctx); err != nil {
				return err
			}
			continue
		}
		if r.bulk.State != dlq.JobRunning { // paused or pausing
			if err := r.resume(ctx); err != nil {
				return err
			}
			continue
		}
		if err := r.openStep(); err != nil {
			return err
		}
		if r.pause != nil {
			continue // paused meanwhile
		}
		end, err := r.runLanes(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case r.pause != nil:
		case end == lanesContinueAsNew, end == lanesStopped:
		case end == lanesClosed:
			if err := r.recheckJob(ctx); err != nil {
				return err
			}
		case end == lanesDone:
			return nil
		default: // the step limit is reached
			if done, err := r.watchStep(ctx); done || err != nil {
				return err
			}
		}
	}
}

// errContinueAsNew ends run when the history is long.
var errContinueAsNew = errors.New("continue as new")

// resume sets the job's state to RUNNING.
func (r *bulkRun) resume(ctx workflow.Context) error {
	in := activities.ResumeInput{ID: r.in.ID, Update: r.resumedBy}
	r.resumedBy = ""
	if err := r.step(r.jobCtx, "resume", r.steps.ResumeJob, in); err != nil {
		return err
	}
	if err := r.checkOpen(); err != nil {
		return err
	}
	if r.bulk.State != dlq.JobRunning {
		return workflow.Sleep(ctx, time.Second) // the row was written by hand
	}
	return nil
}

// recheckJob reads the job again after its lanes were not allowed to claim although the job
// should run: another client has changed its row, or the lanes have newer attempts.
func (r *bulkRun) recheckJob(ctx workflow.Context) error {
	if err := r.readBulk(r.jobCtx); err != nil {
		return err
	}
	if err := r.checkOpen(); err != nil {
		return err
	}
	return workflow.Sleep(ctx, time.Second)
}

// waitPaused pauses the job and waits until an operator resumes the job, or until Pause.For has
// passed.
func (r *bulkRun) waitPaused(ctx workflow.Context) error {
	pause := r.pause
	r.resumedBy = "" // of an earlier pause
	in := activities.PauseInput{ID: r.in.ID, Reason: pause.Reason, TargetClosed: pause.TargetClosed, Update: pause.Update}
	err := r.step(r.jobCtx, "pause: "+pause.Reason, r.steps.PauseJob, in)
	if err == nil {
		err = r.checkOpen() // nothing resumes a closed job
	}
	if err != nil {
		return err
	}
	if r.bulk.State == dlq.JobPausing && r.pause == pause { // its target is open again
		r.pause = nil
		return nil
	}
	r.describe(ctx)
	resumed := func() bool { return r.pause != pause || workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
	if pause.For > 0 {
		passed, err := workflow.AwaitWithTimeout(ctx, pause.For, resumed)
		if !passed && err == nil && r.pause == pause {
			r.pause = nil
		}
		return err
	}
	return r.awaitResume(ctx, resumed)
}

// The wait between two looks at a paused job doubles.
const (
	pauseCheckMin = 2 * time.Second
	pauseCheckMax = 5 * time.Minute
)

// awaitResume returns when the job is resumed, and also when the database no longer has the job
// as paused. A restore to an earlier moment forgets a pause; the job is then paused again.
func (r *bulkRun) awaitResume(ctx workflow.Context, resumed func() bool) error {
	for wait := pauseCheckMin; ; wait = min(2*wait, pauseCheckMax) {
		if done, err := workflow.AwaitWithTimeout(ctx, wait, resumed); done || err != nil {
			return err
		}
		if err := r.readBulk(r.jobCtx); err != nil || r.bulk.State != dlq.JobPaused {
			return err
		}
	}
}

// continueAsNew starts the next run with an empty history. The lanes are in the store, so
// the next run needs little input.
func (r *bulkRun) continueAsNew(ctx workflow.Context) error {
	in := r.in
	in.Resumed = &Resumed{
		Published: r.published, Paused: r.pause,
		RampStep: r.rampStep, StepOpen: r.stepOpen,
	}
	return workflow.NewContinueAsNewError(ctx, RetryAllType, in)
}

// describe shows the job's progress in the Temporal Web UI.
func (r *bulkRun) describe(ctx workflow.Context) {
	b := r.bulk
	text := fmt.Sprintf("**%s** %s: %d of %d done, %d retried, %d failed, %d dead, %d skipped, %d came back.",
		b.State, markdown(b.Spec.Topic), b.Counts.Done(), b.Matched, b.Counts.Retried, b.Counts.Failed, b.Counts.Dead, b.Counts.Skipped, b.CameBack)
	if b.State == dlq.JobRunning && b.RecentPerSecond > 0 {
		text += fmt.Sprintf(" %.0f messages a second.", b.RecentPerSecond)
	}
	if end, known := b.EstimatedEnd(b.UpdatedAt); known {
		text += fmt.Sprintf(" It ends at about %s.", end.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if b.Waiting > 0 {
		text += fmt.Sprintf(" %d wait.", b.Waiting)
	}
	if b.Reason != "" {
		text += " " + markdown(b.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
