package api_test

import (
	"context"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// order is a command to a running bulk retry.
type order struct {
	pause  bool
	resume bool
	reason string
	rate   int
}

func (r *retries) StartRetryAll(_ context.Context, input workflows.RetryAllInput) (workflows.Execution, error) {
	return r.begin(workflows.RetryAllID(input.Spec.Topic), input.Spec, func(w *run, early, gate <-chan struct{}) {
		ctx := context.Background()
		<-early
		if w.err = r.unplanned; w.err != nil {
			return
		}
		id, err := dlq.ParseID(w.RunID)
		if err != nil {
			w.err = err
			return
		}
		job, err := r.store.StartBulk(ctx, dlq.BulkRetry{ID: id, WorkflowID: w.WorkflowID, Spec: input.Spec, Lanes: input.Lanes})
		if err != nil {
			w.err = err
			return
		}
		if _, err := r.store.CountBulk(ctx, id); err != nil {
			w.err = err
			return
		}
		state := dlq.BulkCompleted
		for number := range input.Lanes {
			lane := dlq.Lane{Bulk: id, Owner: job.Owner(), Spec: input.Spec, Bound: job.Bound, Number: number, Of: input.Lanes}
			if !r.lane(ctx, w, lane, gate) {
				state = dlq.BulkCancelled
				break
			}
		}
		w.all.Published = !r.silent
		w.all.Bulk, w.err = r.store.EndBulk(ctx, id, state, "")
	})
}

// lane is false when the job was cancelled.
func (r *retries) lane(ctx context.Context, w *run, lane dlq.Lane, gate <-chan struct{}) bool {
	for {
		page, err := r.store.ClaimPage(ctx, lane)
		if err != nil || len(page.Envelopes) == 0 && page.Wait == 0 {
			return true
		}
		pass := gate
		if len(page.Envelopes) == 0 { // the rate limit allows nothing now
			pass = after(page.Wait)
		}
		paused, cancelled := r.obey(ctx, w, lane.Bulk, pass)
		switch {
		case cancelled:
			return false
		case paused: // the pause has returned the page
			continue
		}
		outcomes := make([]dlq.Outcome, len(page.Envelopes))
		for i, envelope := range page.Envelopes {
			outcomes[i] = r.outcome(envelope)
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

// obey follows commands until the gate opens while the job is not paused.
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
				_, err = r.store.PauseBulk(ctx, id, given.reason)
			case given.resume && paused:
				paused = false
				_, err = r.store.ResumeBulk(ctx, id)
			case !given.resume:
				err = r.store.SetBulkRate(ctx, id, given.rate)
			}
			if err != nil {
				r.t.Errorf("a command of %s: %v", id, err)
			}
		}
	}
}

func (r *retries) AwaitRetryAll(ctx context.Context, execution workflows.Execution) (workflows.RetryAllResult, error) {
	w, err := r.await(ctx, execution)
	if err != nil {
		return workflows.RetryAllResult{}, err
	}
	return w.all, w.err
}

func (r *retries) FindRetryAll(_ context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	r.mu.Lock()
	w, away := r.runs[id.String()], r.away
	r.mu.Unlock()
	switch {
	case away != nil:
		return dlq.BulkRetry{}, away
	case w == nil:
		return dlq.BulkRetry{}, dlq.ErrNotFound
	}
	if _, _, err := r.running(w.Execution); err != nil {
		return dlq.BulkRetry{}, err
	}
	return dlq.BulkRetry{ID: id, WorkflowID: w.WorkflowID, Spec: w.spec, State: dlq.BulkRunning, Counting: true, StartedAt: time.Now(), UpdatedAt: time.Now()}, nil
}

// cancelled reports whether a workflow has been asked to stop.
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

// running finds a workflow that has not closed. heard is false when its
// commands are to have no effect.
func (r *retries) running(execution workflows.Execution) (w *run, heard bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w = r.runs[execution.RunID]
	switch {
	case r.away != nil:
		return nil, false, r.away
	case w == nil || w.WorkflowID != execution.WorkflowID:
		return nil, false, dlq.ErrNotFound
	}
	select {
	case <-w.done:
		return nil, false, dlq.ErrNotFound
	default:
		return w, !r.deaf, nil
	}
}

func (r *retries) command(execution workflows.Execution, given order) error {
	w, heard, err := r.running(execution)
	if err == nil && heard {
		w.commands <- given
	}
	return err
}

func (r *retries) CancelRetryAll(_ context.Context, execution workflows.Execution) error {
	w, heard, err := r.running(execution)
	if err == nil && heard {
		w.cancel()
	}
	return err
}

func (r *retries) PauseRetryAll(_ context.Context, execution workflows.Execution, reason string) error {
	return r.command(execution, order{pause: true, reason: reason})
}

func (r *retries) ResumeRetryAll(_ context.Context, execution workflows.Execution) error {
	return r.command(execution, order{resume: true})
}

func (r *retries) SetRetryAllRate(_ context.Context, execution workflows.Execution, perSecond int) error {
	return r.command(execution, order{rate: perSecond})
}
