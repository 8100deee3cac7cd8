package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// readyFresh is how long results are kept, so that many probes cost one look.
const readyFresh = time.Second

// Check says why a dependency is away, or nil when it is there. A dlq.NoticeError says that
// it is there, and more. It should heed its context.
type Check = func(context.Context) error

// Readiness asks the dependencies of a program, all at once.
type Readiness struct {
	checks map[string]Check
	limit  time.Duration
	logger *zap.Logger

	mu      sync.Mutex
	asked   time.Time
	results map[string]error
	running map[string]chan error // checks that have not returned, with their answer to come
}

// noAnswerError is the result of a check that took longer than this.
type noAnswerError time.Duration

func (n noAnswerError) Error() string { return "no answer within " + time.Duration(n).String() }

// NewReadiness takes the checks by the names of their dependencies. A check that
// takes longer than limit counts as failed.
func NewReadiness(checks map[string]Check, limit time.Duration, logger *zap.Logger) *Readiness {
	return &Readiness{checks: checks, limit: limit, logger: logger, results: map[string]error{}, running: map[string]chan error{}}
}

// Results returns for every dependency why it is away, or nil. The reasons are
// logged when a dependency goes; they name hosts and users, so they are not for
// whoever can reach the port.
func (r *Readiness) Results() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < readyFresh {
		return maps.Clone(r.results)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	for name, check := range r.checks {
		if r.running[name] == nil { // a check that hangs is not started again
			r.running[name] = start(ctx, check)
		}
	}
	for name := range r.checks {
		r.record(name, r.answer(ctx, name))
	}
	r.asked = time.Now()
	return maps.Clone(r.results)
}

// answer waits for a check until ctx ends. An answer that is already there
// counts also then: a slow check must not make the others look slow.
func (r *Readiness) answer(ctx context.Context, name string) error {
	select {
	case <-ctx.Done():
	case err := <-r.running[name]:
		delete(r.running, name)
		return err
	}
	select {
	case err := <-r.running[name]:
		delete(r.running, name)
		return err
	default:
		return noAnswerError(r.limit)
	}
}

func (r *Readiness) record(name string, err error) {
	before := r.results[name]
	r.results[name] = err
	if isThere(err) {
		err = nil
	}
	if isThere(before) {
		before = nil
	}
	if err != nil && before == nil {
		r.logger.Warn("dependency is away", zap.String("dependency", name), zap.Error(err))
	}
	if err == nil && before != nil {
		r.logger.Info("dependency is back", zap.String("dependency", name))
	}
}

// isThere reports whether a check has only something to say.
func isThere(err error) bool {
	notice, isNotice := errors.AsType[*dlq.NoticeError](err)
	return isNotice && !notice.Unavailable
}

// start runs a check on its own. A panic in it would end the process, so it is
// a failure like any other.
func start(ctx context.Context, check Check) chan error {
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				answer <- fmt.Errorf("panic: %v", r)
			}
		}()
		answer <- check(ctx)
	}()
	return answer
}
