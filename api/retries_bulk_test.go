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
}

func (r *retries) StartRetryAll(_ context.Context, bulk dlq.BulkRetry) (workflows.Execution, error) {
	if r.hasEnded(workflows.RetryAllID(bulk.ID)) {
		return workflows.Execution{}, dlq.ErrNotFound
	}
	return r.begin(workflows.RetryAllID(bulk.ID), func(w *run, early, gate <-chan struct{}) {
		ctx := context.Background()
		<-early
		if r.terminated() {
			w.err = workflows.ErrStopped
			return
		}
		counted, err := r.store.CountBulk(ctx, bulk.ID)
		if err != nil || counted.State.IsFinal() {
			w.err = workflows.ErrStopped
			return
		}
		state := dlq.BulkCompleted
		for number := range bulk.Lanes {
			lane, err := r.store.OpenLane(ctx, bulk.ID, number, dlq.LaneAttempt{})
			if err != nil || !r.lane(ctx, w, lane, gate) {
				state = dlq.BulkCancelled
				break
			}
		}
		w.all.Published = !r.silent
		w.all.Bulk, w.err = r.store.EndBulk(ctx, bulk.ID, state, "")
	})
}

// hasEnded reports whether the workflow of a job has closed. A job has one workflow.
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

// lane is false when the job was cancelled.
func (r *retries) lane(ctx context.Context, w *run, lane dlq.Lane, gate <-chan struct{}) bool {
	for {
		page, err := r.store.ClaimPage(ctx, lane, true)
		if err != nil || len(page.Page) == 0 && page.Wait == 0 {
			return true
		}
		pass := gate
		if len(page.Page) == 0 { // the rate limit allows nothing now
			pass = after(page.Wait)
		}
		paused, cancelled := r.obey(ctx, w, lane.Bulk, pass)
		switch {
		case cancelled:
			return false
		case paused: // the pause has taken the page, and the lane
			if lane, err = r.store.OpenLane(ctx, lane.Bulk, lane.Number, dlq.LaneAttempt{}); err != nil {
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

// obey executes commands until the gate opens while the job is not paused.
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

func (r *retries) AwaitRetryAll(ctx context.Context, id dlq.ID) (workflows.RetryAllResult, error) {
	r.mu.Lock()
	w := r.latest[workflows.RetryAllID(id)]
	r.mu.Unlock()
	w, err := r.await(ctx, w)
	if err != nil {
		return workflows.RetryAllResult{}, err
	}
	result := w.all
	result.Bulk.Spec.Filter = dlq.Filter{Topic: result.Bulk.Spec.Topic} // as the activities of the workflow return it
	return result, w.err
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

// running finds a workflow, if it has not closed. heard is false if its commands have no
// effect.
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

func (r *retries) command(id dlq.ID, given command) error {
	w, heard, err := r.running(workflows.RetryAllID(id))
	if err == nil && heard {
		w.commands <- given
	}
	return err
}

func (r *retries) CancelRetryAll(_ context.Context, id dlq.ID) error {
	w, heard, err := r.running(workflows.RetryAllID(id))
	if err == nil && heard {
		w.cancel()
	}
	return err
}

func (r *retries) PauseRetryAll(_ context.Context, id dlq.ID, reason string) error {
	return r.command(id, command{pause: true, reason: reason})
}

func (r *retries) ResumeRetryAll(_ context.Context, id dlq.ID) error {
	return r.command(id, command{resume: true})
}

func (r *retries) SetRetryAllRate(_ context.Context, id dlq.ID, perSecond int) error {
	return r.command(id, command{rate: perSecond})
}
