package api_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// retries replaces the workflows. It runs goroutines that apply the same rules to the same store.
type retries struct {
	t        testing.TB
	store    *postgres.Store
	messages activities.RetryStore // the same store, unless messages are in memory

	mu      sync.Mutex
	deliver func(dlq.Envelope) error // if nil, every message is delivered
	silent  bool                     // Kafka is not configured
	// noArchive is set if the schedule of the archive does not exist.
	noArchive bool
	// stopped makes every workflow end as if someone had terminated it.
	stopped bool
	// killed makes bulk retries end at once, without writing to the store.
	killed          bool
	unavailable     error           // if not nil, every call returns it
	runs            map[string]*run // by run id
	latest          map[string]*run // by workflow id
	gate            chan struct{}   // workflows wait for it after their claim
	early           chan struct{}   // workflows wait for it before their first step
	ignoresCommands bool            // commands are accepted, but have no effect
	started         int
	read            atomic.Int32 // the number of single retries that have read their message
}

type run struct {
	workflows.Execution
	done      chan struct{}
	counted   chan struct{}
	cancelled chan struct{}
	cancel    func()
	commands  chan command
	target    string // the target of a single retry
	message   workflows.RetryMessageResult
	job       workflows.JobResult
	err       error
}

func newRetries(t testing.TB, store *postgres.Store) *retries {
	open := make(chan struct{})
	close(open)
	return &retries{t: t, store: store, messages: store, runs: map[string]*run{}, latest: map[string]*run{}, gate: open, early: open}
}

// hold makes workflows wait after their claim until release is called.
func (r *retries) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

// holdEarly makes workflows wait before their first step.
func (r *retries) holdEarly() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.early = make(chan struct{})
}

// release lets all workflows continue. Later workflows do not wait either.
func (r *retries) release() {
	r.releaseEarly()
	r.mu.Lock()
	defer r.mu.Unlock()
	open(r.gate)
}

func (r *retries) releaseEarly() {
	r.mu.Lock()
	defer r.mu.Unlock()
	open(r.early)
}

func open(gate chan struct{}) {
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (r *retries) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver = func(dlq.Envelope) error { return err }
}

func (r *retries) terminate(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = all
}

func (r *retries) terminated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed
}

func (r *retries) starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// begin joins the running workflow with this id, or starts a workflow.
func (r *retries) begin(id string, work func(*run, <-chan struct{}, <-chan struct{})) (workflows.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unavailable != nil {
		return workflows.Execution{}, r.unavailable
	}
	if running := r.latest[id]; running != nil {
		select {
		case <-running.done:
		default:
			joined := running.Execution
			joined.Joined = true
			return joined, nil
		}
	}
	cancelled := make(chan struct{})
	started := &run{
		Execution: workflows.Execution{WorkflowID: id, RunID: dlq.NewID().String()},
		commands:  make(chan command, 100),
		done:      make(chan struct{}), counted: make(chan struct{}), cancelled: cancelled, cancel: sync.OnceFunc(func() { close(cancelled) }),
	}
	r.started++
	r.runs[started.RunID], r.latest[id] = started, started
	early, gate := r.early, r.gate
	go func() {
		defer close(started.done)
		work(started, early, gate)
	}()
	return started.Execution, nil
}

func (r *retries) outcome(envelope dlq.Envelope) dlq.Outcome {
	r.mu.Lock()
	deliver := r.deliver
	r.mu.Unlock()
	if deliver == nil {
		return dlq.Outcome{ID: envelope.ID, Result: dlq.ResultDelivered}
	}
	err := deliver(envelope)
	if err == nil {
		return dlq.Outcome{ID: envelope.ID, Result: dlq.ResultDelivered}
	}
	category := dlq.CategoryOf(err)
	return dlq.Outcome{ID: envelope.ID, Result: category.Result(), Category: category, Error: err.Error()}
}

func (r *retries) StartRetryMessage(_ context.Context, _ *dlq.Operation, _ *dlq.Message, input workflows.RetryMessageInput) (workflows.Execution, error) {
	execution, err := r.begin(workflows.RetryMessageID(input.MessageID), func(w *run, early, gate <-chan struct{}) {
		ctx := context.Background()
		owner := dlq.Owner{WorkflowID: w.WorkflowID, Token: w.RunID}
		<-early
		if _, err := r.messages.Claim(ctx, input.MessageID, owner, input.OperationID); err != nil {
			w.err = err
			return
		}
		envelope, err := r.messages.Envelope(ctx, input.MessageID, owner)
		if err != nil {
			w.err = err
			return
		}
		r.read.Add(1)
		<-gate
		outcome := r.outcome(envelope)
		m, _, err := r.messages.Finalize(ctx, owner, outcome)
		w.err = err
		w.message = workflows.RetryMessageResult{
			MessageID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
			Published: !r.silent, Error: outcome.Error, Category: outcome.Category,
		}
	})
	if err != nil {
		return execution, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.runs[execution.RunID]
	if !execution.Joined {
		w.target = input.TargetTopic
	} else if w.target != input.TargetTopic {
		err = &dlq.NotRetryableError{ID: input.MessageID, Status: dlq.StatusRetrying, Reason: "it is sent to another target"}
	}
	return execution, err
}

func (r *retries) await(ctx context.Context, w *run) (*run, error) {
	r.mu.Lock()
	unavailable := r.unavailable
	r.mu.Unlock()
	switch {
	case unavailable != nil:
		return nil, unavailable
	case w == nil:
		return nil, errors.New("no such run")
	}
	select {
	case <-w.done:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.stopped {
			return nil, workflows.ErrStopped
		}
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *retries) AwaitRetryMessage(ctx context.Context, execution workflows.Execution) (workflows.RetryMessageResult, error) {
	r.mu.Lock()
	w := r.runs[execution.RunID]
	r.mu.Unlock()
	w, err := r.await(ctx, w)
	if err != nil {
		return workflows.RetryMessageResult{}, err
	}
	return w.message, w.err
}
