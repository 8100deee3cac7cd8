package api_test

import (
	"context"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func (r *retries) StartBulkAction(_ context.Context, job dlq.BulkAction) (workflows.Execution, error) {
	if r.hasEnded(workflows.BulkActionID(job.ID)) {
		return workflows.Execution{}, dlq.ErrNotFound
	}
	return r.begin(workflows.BulkActionID(job.ID), func(w *run, early, gate <-chan struct{}) {
		ctx := context.Background()
		<-early
		if r.terminated() {
			w.err = workflows.ErrStopped
			return
		}
		counted, err := r.store.CountAction(ctx, job.ID)
		if err != nil || counted.State.IsFinal() {
			w.err = workflows.ErrStopped
			return
		}
		select {
		case <-gate:
		case <-w.cancelled:
			if _, err = r.store.EndAction(ctx, job.ID, dlq.BulkCancelled, "cancelled by an operator"); err != nil {
				r.t.Errorf("end %s: %v", job.ID, err)
			}
			w.err = workflows.ErrStopped
			return
		}
		for step := (dlq.ActionStep{}); !step.Done && !step.Stopped && err == nil; {
			step, err = r.store.Act(ctx, job, dlq.ActionBatch)
		}
		w.action, w.err = r.store.EndAction(ctx, job.ID, dlq.BulkCompleted, "")
	})
}

func (r *retries) AwaitBulkAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	r.mu.Lock()
	w := r.latest[workflows.BulkActionID(id)]
	r.mu.Unlock()
	w, err := r.await(ctx, w)
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return w.action, w.err
}

func (r *retries) CancelBulkAction(_ context.Context, id dlq.ID) error {
	w, heard, err := r.running(workflows.BulkActionID(id))
	if err == nil && heard {
		w.cancel()
	}
	return err
}
