package api_test

import (
	"context"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// command is a command to a running bulk retry.
type command struct {
	pause  bool
	resume bool
	reason string
	rate   int
	obeyed chan struct{}
}

func (r *retries) StartJob(_ context.Context, _ *dlq.Operation, job dlq.Job) (workflows.Execution, error) {
	if r.hasEnded(job.WorkflowID) {
		return workflows.Execution{}, dlq.ErrNotFound
	}
	return r.begin(job.WorkflowID, func(w *run, early, gate <-chan struct{}) {
		ctx := context.Background()
		<-early
		if r.terminated() {
			w.err = workflows.ErrStopped
			return
		}
		counted, err := r.store.CountJob(ctx, job.ID)
		if err != nil || counted.State.IsFinal() {
			w.err = workflows.ErrStopped
			return
		}
		close(w.counted)
		if job.Spec.Kind != dlq.KindRetry {
			r.change(ctx, w, job, gate)
			return
		}
		state := dlq.JobCompleted
		for number := range job.Lanes {
			lane, err := r.store.OpenLane(ctx, job.ID, number, dlq.LaneAttempt{})
			if err != nil || !r.lane(ctx, w, lane, gate) {
				state = dlq.JobCancelled
				break
			}
		}
		w.job.Published = !r.silent
		w.job.Job, w.err = r.store.EndJob(ctx, nil, job.ID, state, "")
	})
}

// change runs a job that changes messages.
func (r *retries) change(ctx context.Context, w *run, job dlq.Job, gate <-chan struct{}) {
	select {
	case <-gate:
	case <-w.cancelled:
		if _, err := r.store.EndJob(ctx, nil, job.ID, dlq.JobCancelled, "cancelled by an operator"); err != nil {
			r.t.Errorf("end %s: %v", job.ID, err)
		}
		w.err = workflows.ErrStopped
		return
	}
	var err error
	for step := (dlq.ChangeStep{}); !step.Done && !step.Stopped && err == nil; {
		step, err = r.store.Act(ctx, job, dlq.ChangeBatch)
	}
	w.job.Job, w.err = r.store.EndJob(ctx, nil, job.ID, dlq.JobCompleted, "")
}

// hasEnded reports whether the workflow of a job has closed.
func (r *retries) hasEnded(workflowID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.latest[workflowID]
	if known == nil {
		return false
	}
	select {
	case <-known.done:
		return true
	default:
		return false
	}
}

// lane runs a lane. It returns false if the job was cancelled.
func (r *retries) lane(ctx context.Context, w *run, lane dlq.Lane, gate <-chan struct{}) bool {
	for {
		page, _, err := r.store.NextPage(ctx, lane, nil, true)
		if err != nil || len(page.Page) == 0 && page.Wait == 0 {
			return true
		}
		pass := gate
		if len(page.Page) == 0 { // the rate limit allows no message now
			pass = after(page.Wait)
		}
		paused, cancelled := r.obey(ctx, w, lane.Job, pass)
		switch {
		case cancelled:
			return false
		case paused: // the pause has released the page and ended the lane
			if lane, err = r.store.OpenLane(ctx, lane.Job, lane.Number, dlq.LaneAttempt{}); err != nil {
				return true
			}
			continue
		}
		outcomes := make([]dlq.PageOutcome, len(page.Page))
		for i := range page.Page {
			e := &page.Page[i].Envelope
			outcomes[i] = dlq.PageOutcome{Outcome: r.outcome(*e), RetryCount: e.RetryCount}
		}
		if _, err := r.store.FinalizePage(ctx, lane, outcomes); err != nil {
			return true
		}
	}
}

func after(wait time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(wait, func() { close(over) })
	return over
}

// obey executes commands until the gate opens. While the job is paused, it does not wait for the gate.
func (r *retries) obey(ctx context.Context, w *run, id dlq.ID, gate <-chan struct{}) (wasPaused, cancelled bool) {
	paused := false
	for {
		pass := gate
		if paused {
			pass = nil
		} else if wasPaused {
			return true, false
		}
		select {
		case <-pass:
			return wasPaused, false
		case <-w.cancelled:
			return wasPaused, true
		case given := <-w.commands:
			var err error
			switch {
			case given.pause:
				paused, wasPaused = true, true
				_, err = r.store.PauseJob(ctx, nil, id, given.reason)
			case given.resume && paused:
				paused = false
				_, err = r.store.ResumeJob(ctx, nil, id)
			case !given.resume:
				err = r.store.SetJobRate(ctx, nil, id, given.rate)
			}
			if err != nil {
				r.t.Errorf("a command of %s: %v", id, err)
			}
			close(given.obeyed)
		}
	}
}

func (r *retries) AwaitJob(ctx context.Context, job dlq.Job) (workflows.JobResult, error) {
	r.mu.Lock()
	w := r.latest[job.WorkflowID]
	r.mu.Unlock()
	w, err := r.await(ctx, w)
	if err != nil {
		return workflows.JobResult{}, err
	}
	result := w.job
	result.Job.Spec.Filter = dlq.Filter{Topic: result.Job.Spec.Topic} // the activities of the workflow leave out the filter too
	return result, w.err
}

// cancelled reports whether any workflow was asked to stop.
func (r *retries) cancelled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.runs {
		select {
		case <-w.cancelled:
			return true
		default:
		}
	}
	return false
}

// running returns a workflow that has not closed. heard is false if commands to the workflow have no effect.
func (r *retries) running(workflowID string) (w *run, heard bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w = r.latest[workflowID]
	switch {
	case r.unavailable != nil:
		return nil, false, r.unavailable
	case w == nil:
		return nil, false, dlq.ErrNotFound
	}
	select {
	case <-w.done:
		return nil, false, dlq.ErrNotFound
	default:
		return w, !r.ignoresCommands, nil
	}
}

// command returns once the workflow has obeyed the command, like an update of a workflow.
func (r *retries) command(ctx context.Context, id dlq.ID, given command) error {
	w, heard, err := r.running(workflows.JobWorkflowID(dlq.KindRetry, id))
	if err != nil {
		return err
	}
	given.obeyed = make(chan struct{})
	if heard {
		w.commands <- given
	}
	select {
	case <-given.obeyed:
		return nil
	case <-w.done:
		return dlq.ErrNotFound
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *retries) AwaitCount(ctx context.Context, workflowID string) error {
	r.mu.Lock()
	w := r.latest[workflowID]
	r.mu.Unlock()
	select {
	case <-w.counted:
	case <-w.done:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (r *retries) SteerJob(ctx context.Context, _ *dlq.Operation, job dlq.Job, c dlq.Command) error {
	switch c.Name {
	case dlq.CommandPause:
		return r.command(ctx, job.ID, command{pause: true, reason: c.Reason})
	case dlq.CommandResume:
		return r.command(ctx, job.ID, command{resume: true})
	case dlq.CommandRate:
		return r.command(ctx, job.ID, command{rate: *c.RateLimit})
	}
	w, heard, err := r.running(job.WorkflowID)
	if err == nil && heard {
		w.cancel()
	}
	return err
}
