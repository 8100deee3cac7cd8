package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"
)

// A check that takes longer than checkTimeout counts as failed. Results are
// kept for checkFresh, so that many probes cost one look.
const (
	checkTimeout = 2 * time.Second
	checkFresh   = time.Second
)

type healthView struct {
	Status string `json:"status"`
}

// healthz says that the process answers. It asks nobody else: restarting this
// process mends no database.
func (s *Server) healthz(c *fiber.Ctx) error {
	return reply(c, http.StatusOK, healthView{Status: "ok"})
}

type readyView struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// notReadyView is an error as all others are, and the same report after it.
type notReadyView struct {
	errorView
	readyView
}

func (s *Server) readyz(c *fiber.Ctx) error {
	checks := s.ready.checks()
	var details []detail
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if checks[name] != "ok" {
			details = append(details, detail{Field: name, Message: checks[name]})
		}
	}
	var status, message string
	switch {
	case s.draining.Err() != nil:
		status, message = "draining", "the server is shutting down"
	case len(details) > 0:
		names := make([]string, len(details))
		for i, d := range details {
			names[i] = d.Field
		}
		status, message = "unavailable", "away: "+strings.Join(names, ", ")
	default:
		return reply(c, http.StatusOK, readyView{Status: "ok", Checks: checks})
	}
	refused := unavailable(message, nil)
	refused.details = details
	c.Set(fiber.HeaderRetryAfter, retryAfterSeconds)
	return reply(c, refused.status, notReadyView{refused.view(requestIDOf(c)), readyView{Status: status, Checks: checks}})
}

// readiness asks the dependencies, all at once.
type readiness struct {
	logger *zap.Logger
	tests  map[string]func(context.Context) error

	mu      sync.Mutex
	asked   time.Time
	results map[string]string
	running map[string]chan error // checks that have not returned, with their answer to come
}

func newReadiness(tests map[string]func(context.Context) error, logger *zap.Logger) *readiness {
	return &readiness{logger: logger, tests: tests, results: map[string]string{}, running: map[string]chan error{}}
}

// checks returns "ok" or "away" for each dependency. The reasons go to the log,
// when they change: addresses and user names are not for everybody.
func (r *readiness) checks() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < checkFresh {
		return maps.Clone(r.results)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	for name, test := range r.tests {
		if r.running[name] == nil { // a check that hangs is not started again
			r.running[name] = start(ctx, test)
		}
	}
	for name := range r.tests {
		r.record(name, r.answer(ctx, name))
	}
	r.asked = time.Now()
	return maps.Clone(r.results)
}

// answer waits for a check until ctx ends. An answer that is already there
// counts also then: a slow check must not make the others look slow.
func (r *readiness) answer(ctx context.Context, name string) error {
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
		return fmt.Errorf("no answer within %s", checkTimeout)
	}
}

func (r *readiness) record(name string, err error) {
	before := r.results[name]
	if err == nil {
		r.results[name] = "ok"
		if before == "away" {
			r.logger.Info("dependency is back", zap.String("dependency", name))
		}
		return
	}
	r.results[name] = "away"
	if before != "away" {
		r.logger.Warn("dependency is away", zap.String("dependency", name), zap.Error(err))
	}
}

// start runs a check on its own. A panic in it would end the process, so it is
// a failure like any other.
func start(ctx context.Context, test func(context.Context) error) chan error {
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				answer <- fmt.Errorf("panic: %v", r)
			}
		}()
		answer <- test(ctx)
	}()
	return answer
}
