package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"dlqmanager/dlq"
)

// readyFresh is how long results are cached, so that many probes run one check only.
const readyFresh = time.Second

// Check returns why a dependency is unavailable, or nil. A dlq.NoticeError is a notice for operators. Its field Unavailable
// tells whether the dependency is unavailable. A check should return when its context ends.
type Check = func(context.Context) error

// Readiness checks the dependencies of a program in parallel.
type Readiness struct {
	checks map[string]Check
	limit  time.Duration
	logger *zap.Logger
	// running has the checks that have not returned yet. A check that hangs is not started again.
	running singleflight.Group

	mu      sync.Mutex
	asked   time.Time
	results map[string]error
}

// noAnswerError is the result of a check that has not returned within this duration.
type noAnswerError time.Duration

func (n noAnswerError) Error() string { return "no answer within " + time.Duration(n).String() }

// NewReadiness takes the checks by the names of their dependencies. A check fails if it takes longer than limit.
func NewReadiness(checks map[string]Check, limit time.Duration, logger *zap.Logger) *Readiness {
	return &Readiness{checks: checks, limit: limit, logger: logger, results: map[string]error{}}
}

// Results returns an error for each unavailable dependency, and nil or a notice for each available dependency. The errors name
// hosts and users, so clients must not see them. When a dependency becomes unavailable, its error is logged.
func (r *Readiness) Results() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < readyFresh {
		return maps.Clone(r.results)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	answers := map[string]<-chan singleflight.Result{}
	for name, check := range r.checks {
		answers[name] = r.running.DoChan(name, func() (any, error) { return nil, recovered(ctx, check) })
	}
	for name, answer := range answers {
		r.record(name, r.wait(ctx, answer))
	}
	r.asked = time.Now()
	return maps.Clone(r.results)
}

// wait waits for the result of a check until ctx ends. A result that is there when ctx ends still counts: a slow check must not
// make other checks look slow.
func (r *Readiness) wait(ctx context.Context, answer <-chan singleflight.Result) error {
	select {
	case <-ctx.Done():
	case result := <-answer:
		return result.Err
	}
	select {
	case result := <-answer:
		return result.Err
	default:
		return noAnswerError(r.limit)
	}
}

func (r *Readiness) record(name string, err error) {
	before := withoutNotice(r.results[name])
	r.results[name] = err
	err = withoutNotice(err)
	if err != nil && before == nil {
		r.logger.Warn("dependency is unavailable", zap.String("dependency", name), zap.Error(err))
	}
	if err == nil && before != nil {
		r.logger.Info("dependency is available again", zap.String("dependency", name))
	}
}

// withoutNotice returns err, or nil for a notice about an available dependency.
func withoutNotice(err error) error {
	if notice, isNotice := errors.AsType[*dlq.NoticeError](err); isNotice && !notice.Unavailable {
		return nil
	}
	return err
}

// recovered runs a check. If the check panics, it counts as failed, since a panic would end the process.
func recovered(ctx context.Context, check Check) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return check(ctx)
}
