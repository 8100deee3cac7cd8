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
// lane, so its messages stay in order. A lane is a series of long activities, which send pages
// of messages. The store counts the progress in the transactions that change the messages.
//
// Until it ends, a job can be paused, resumed and cancelled, and its rate limit can be changed.
// The job pauses itself when all remaining messages wait for closed targets, when too many messages
// came back during a ramp, or when nobody can say whether consumers got past the messages of a step.
// A job that pauses or is cancelled stops its claims, and waits until the claimed pages are
// finalized. Then no message of the job is RETRYING.
func RetryAll(ctx workflow.Context, in JobInput) (JobResult, error) {
	r := newBulkRun(ctx, in)
	// The handlers are set first, because an update may arrive before the first workflow task.
	if err := r.handleUpdates(ctx); err != nil {
		return JobResult{}, err
	}
	runErr := r.begin(ctx)
	if runErr == nil {
		if err := checkKind(&r.job, RetryAllType); err != nil {
			return JobResult{}, err
		}
		r.phase = phaseRunning
		runErr = r.run(ctx)
	}
	r.phase = phaseEnded
	if errors.Is(runErr, errContinueAsNew) {
		r.phase = phaseContinuingAsNew
	}
	// The run must not close before every update is answered.
	if err := workflow.Await(r.jobCtx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return JobResult{}, err
	}
	if r.phase == phaseContinuingAsNew {
		if ctx.Err() == nil {
			return JobResult{}, r.continueAsNew(ctx)
		}
		runErr = ctx.Err() // cancelled just before continuing as new
	}
	return r.end(ctx, endOf(in.ID, runErr), runErr)
}

// checkKind fails if workflows of this type do not run jobs of j's kind. Anybody who may start workflows can put the id of
// any job into the input. A workflow must not end a job that another workflow runs.
func checkKind(j *dlq.Job, workflowType string) error {
	if (j.Spec.Kind == dlq.KindRetry) == (workflowType == RetryAllType) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("a job of the kind %s is not run by %s", j.Spec.Kind, workflowType), "OtherKind", nil)
}

// phase tells how far a run of RetryAll is. The handlers of updates read it.
type phase int

const (
	// phaseBeginning: the scope is being counted, or the job is read after a continue-as-new; this run sends nothing yet.
	phaseBeginning phase = iota
	// phaseRunning: the job sends, or is paused.
	phaseRunning
	// phaseContinuingAsNew: the next run does all further work and applies the updates.
	phaseContinuingAsNew
	// phaseEnded: updates are refused.
	phaseEnded
)

// bulkRun is the state of a run of RetryAll. ChangeAll uses it too, to count the job's scope and to close the job.
type bulkRun struct {
	Resumed
	in    JobInput
	steps *activities.Jobs // nil; only names the activities
	// jobCtx is not cancelled with the workflow, so that after a cancellation the lanes
	// can finish their pages and the job can be closed.
	jobCtx workflow.Context
	phase  phase

	job dlq.Job // as the store last returned it
	// resumedBy is the id of the update that resumes the job; empty if the job resumes by itself.
	resumedBy string
	// pauseUpdates counts the updates that pause or resume, so that a waiting update notices
	// a later update.
	pauseUpdates int
	// rateMutex keeps changes of the rate limit in order.
	rateMutex workflow.Mutex
}

func newBulkRun(ctx workflow.Context, in JobInput) *bulkRun {
	r := &bulkRun{in: in, phase: phaseBeginning, rateMutex: workflow.NewMutex(ctx)}
	r.jobCtx, _ = workflow.NewDisconnectedContext(ctx)
	return r
}

// begin counts the scope, or restores the state of the previous run.
func (r *bulkRun) begin(ctx workflow.Context) error {
	// Anybody who may start workflows can write any input. So the state in the input is used only
	// if an earlier run continued as this run. The job itself is always read from the store.
	if previous := r.in.Resumed; previous != nil && workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
		r.Resumed = *previous
		r.RampStep = max(r.RampStep, 0)
		return r.readJob(r.jobCtx)
	}
	return r.count(ctx, "Counting the messages to retry.")
}

// count counts the scope.
func (r *bulkRun) count(ctx workflow.Context, details string) error {
	workflow.SetCurrentDetails(ctx, details)
	var begun activities.JobBegun
	err := workflow.ExecuteActivity(countOptions(ctx, "count the scope"), r.steps.BeginJob, r.in.ID).Get(ctx, &begun)
	if err != nil {
		return err
	}
	r.job, r.Published = begun.Job, begun.Published
	return r.checkOpen()
}

// updateJob runs an activity that returns the job, and keeps the returned job in r.job. The JSON
// is decoded into a new value, so a field that is missing in the JSON gets its zero value.
func (r *bulkRun) updateJob(ctx workflow.Context, activity, in any) error {
	var job dlq.Job
	if err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &job); err != nil {
		return err
	}
	r.job = job
	return nil
}

// updateOpenJob is updateJob for a job that must be open afterwards.
func (r *bulkRun) updateOpenJob(ctx workflow.Context, activity, in any) error {
	if err := r.updateJob(ctx, activity, in); err != nil {
		return err
	}
	return r.checkOpen()
}

func (r *bulkRun) readJob(ctx workflow.Context) error {
	return r.updateOpenJob(storeOptions(ctx, "read the progress"), r.steps.ReadJob, r.in.ID)
}

// checkOpen fails if the job is closed. Only another client can have closed it.
func (r *bulkRun) checkOpen() error {
	if r.job.State.IsFinal() {
		return temporal.NewNonRetryableApplicationError("the job was closed by another client", typeEnded, nil)
	}
	return nil
}

const cancelReason = "cancelled by an operator"

// endOf is the end of a job whose run has returned err.
func endOf(id dlq.ID, err error) activities.StateInput {
	switch {
	case err == nil:
		return activities.StateInput{ID: id, State: dlq.JobCompleted}
	case temporal.IsCanceledError(err):
		return activities.StateInput{ID: id, State: dlq.JobCancelled, Reason: cancelReason}
	default:
		return activities.StateInput{ID: id, State: dlq.JobFailed, Reason: reasonOf(err)}
	}
}

// end closes the job. If another client has closed the job, the job's state does not change.
func (r *bulkRun) end(ctx workflow.Context, end activities.StateInput, runErr error) (JobResult, error) {
	if err := r.updateJob(storeOptions(r.jobCtx, "close the job: "+string(end.State)), r.steps.EndJob, end); err != nil {
		return JobResult{}, err
	}
	r.describe(ctx)
	return JobResult{Job: r.job, Published: r.Published}, runErr
}

// run sends and pauses by turns until nothing is left to send.
func (r *bulkRun) run(ctx workflow.Context) error {
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return errContinueAsNew
		}
		if r.Paused != nil {
			if err := r.waitPaused(ctx); err != nil {
				return err
			}
			continue
		}
		if r.job.State != dlq.JobRunning { // paused or pausing
			if err := r.resume(ctx); err != nil {
				return err
			}
			continue
		}
		if err := r.openRampStep(); err != nil {
			return err
		}
		if r.Paused != nil {
			continue // an update has asked for a pause meanwhile
		}
		end, err := r.runLanes(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case r.Paused != nil: // the loop pauses the job
		case end == lanesStopped:
		case end == lanesClosed:
			if err := r.recheckJob(ctx); err != nil {
				return err
			}
		case end == lanesDone:
			return nil
		default: // the step limit is reached
			if done, err := r.watchRampStep(ctx); done || err != nil {
				return err
			}
		}
	}
}

// errContinueAsNew is returned by run when the history is long.
var errContinueAsNew = errors.New("continue as new")

// resume sets the job's state to RUNNING.
func (r *bulkRun) resume(ctx workflow.Context) error {
	in := activities.StateInput{ID: r.in.ID, State: dlq.JobRunning, Update: r.resumedBy}
	r.resumedBy = ""
	if err := r.updateOpenJob(storeOptions(r.jobCtx, "resume"), r.steps.ResumeJob, in); err != nil {
		return err
	}
	if r.job.State != dlq.JobRunning {
		return workflow.Sleep(ctx, time.Second) // somebody changed the row by hand; run tries again
	}
	return nil
}

// recheckJob reads the job again after its lanes were not allowed to claim although the job should run. Either another
// client has changed the job's row, or newer attempts at the lanes run.
func (r *bulkRun) recheckJob(ctx workflow.Context) error {
	if err := r.readJob(r.jobCtx); err != nil {
		return err
	}
	return workflow.Sleep(ctx, time.Second)
}

// waitPaused pauses the job. But it drops a pause for a closed target if the target is open again. After it has paused the
// job, it waits until the pause is lifted or replaced, until Pause.For has passed, until the job's row is not PAUSED, or
// until the run should continue as new.
func (r *bulkRun) waitPaused(ctx workflow.Context) error {
	pause := r.Paused
	r.resumedBy = "" // forget the update that ended an earlier pause
	in := activities.StateInput{
		ID: r.in.ID, State: dlq.JobPaused, Reason: pause.Reason, TargetClosed: pause.TargetClosed, Update: pause.Update,
	}
	if err := r.updateOpenJob(storeOptions(r.jobCtx, "pause: "+pause.Reason), r.steps.PauseJob, in); err != nil {
		return err // nothing resumes a closed job
	}
	if r.job.State == dlq.JobPausing && r.Paused == pause { // the activity did not pause the job, since the target is open again
		r.Paused = nil
		return nil
	}
	r.describe(ctx)
	mustReturn := func() bool { return r.Paused != pause || workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
	if pause.For > 0 {
		inTime, err := workflow.AwaitWithTimeout(ctx, pause.For, mustReturn)
		if !inTime && err == nil && r.Paused == pause {
			r.Paused = nil // Pause.For has passed
		}
		return err
	}
	return r.awaitResume(ctx, mustReturn)
}

// A job that waits for an operator is read from the store after pauseCheckMin. Each further wait is twice as long, up to pauseCheckMax.
const (
	pauseCheckMin = 2 * time.Second
	pauseCheckMax = 5 * time.Minute
)

// awaitResume waits until mustReturn holds, or until the job's row is no longer PAUSED. A database
// that was restored to an earlier moment may not have the pause. In that case, run pauses the job again.
func (r *bulkRun) awaitResume(ctx workflow.Context, mustReturn func() bool) error {
	for wait := pauseCheckMin; ; wait = min(2*wait, pauseCheckMax) {
		if done, err := workflow.AwaitWithTimeout(ctx, wait, mustReturn); done || err != nil {
			return err
		}
		if err := r.readJob(r.jobCtx); err != nil || r.job.State != dlq.JobPaused {
			return err
		}
	}
}

// continueAsNew starts the next run with an empty history. The lanes are in the store, so
// the next run needs little input.
func (r *bulkRun) continueAsNew(ctx workflow.Context) error {
	return workflow.NewContinueAsNewError(ctx, RetryAllType, JobInput{ID: r.in.ID, Resumed: &r.Resumed})
}

// describe shows the job's progress in the Temporal Web UI.
func (r *bulkRun) describe(ctx workflow.Context) {
	job, counts := r.job, r.job.Counts
	if job.Spec.Kind != dlq.KindRetry {
		describeChange(ctx, &job)
		return
	}
	text := fmt.Sprintf("**%s** %s: %d of %d done, %d retried, %d failed, %d dead, %d skipped, %d came back.",
		job.State, markdown(job.Spec.Topic), counts.Done(), job.Matched, counts.Retried, counts.Failed, counts.Dead, counts.Skipped, job.CameBack)
	if job.State == dlq.JobRunning && job.RecentPerSecond > 0 {
		text += fmt.Sprintf(" %.0f messages a second.", job.RecentPerSecond)
	}
	if end, known := job.EstimatedEnd(job.UpdatedAt); known {
		text += fmt.Sprintf(" It ends at about %s.", end.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if job.Waiting > 0 {
		text += fmt.Sprintf(" %d wait.", job.Waiting)
	}
	if job.Reason != "" {
		text += " " + markdown(job.Reason)
	}
	workflow.SetCurrentDetails(ctx, text)
}
