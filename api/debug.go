package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// LogLevel is the level of this process's log.
type LogLevel interface {
	// Level returns the current level, the configured level, and the time at which the configured level returns. The time is
	// zero if it does not return.
	Level() (current, configured string, until time.Time)
	// Set changes the level. The configured level returns after the period, or never if the period is zero.
	Set(level string, period time.Duration) error
}

// logLevels are the levels of zap that may be set.
var logLevels = []string{"debug", "info", "warn", "error"}

// profiles are profiles of net/http/pprof. The handler for the command line is left out.
var profiles = []string{"allocs", "goroutine", "heap", "profile", "threadcreate", "trace"}

// Limits of the period of a log level, and of the duration of a profile in seconds.
const (
	maxLogLevelPeriod = 24 * time.Hour
	maxProfile        = 120
)

type logLevelView struct {
	Level      string     `json:"level"`
	Configured string     `json:"configured"`
	Until      *timestamp `json:"until"`
}

func (s *Server) logLevel(_ context.Context, c *fiber.Ctx, _ *query) error {
	var view logLevelView
	var until time.Time
	view.Level, view.Configured, until = s.options.LogLevel.Level()
	view.Until = optionalTime(&until)
	return reply(c, http.StatusOK, view)
}

// changeLogLevel also works while the database is unavailable, since people need it in an outage. Then the log has the
// operation, and the audit does not.
func (s *Server) changeLogLevel(ctx context.Context, c *fiber.Ctx, q *query) error {
	if err := s.checkBrowser(c); err != nil {
		return err
	}
	b := readBody(c, "level", "for", "reason")
	b.require("level")
	level := wordOf(b, "level", logLevels)
	period := b.duration("for", 0, 1, maxLogLevelPeriod, `up to %[2]s, such as "10m"`)
	b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	if err := s.options.LogLevel.Set(level, period); err != nil {
		return err
	}
	s.options.Logger.Warn("log level changed", zap.String("request_id", requestIDOf(c)), zap.String("actor", auditOf(c).Subject),
		zap.String("log_level", level), zap.Duration("for", period))
	if s.guard.hasDatabase() {
		s.recordLogLevel(ctx, c, level, period)
	}
	return s.logLevel(ctx, c, q)
}

func (s *Server) recordLogLevel(ctx context.Context, c *fiber.Ctx, level string, period time.Duration) {
	o := auditOf(c)
	o.Outcome = dlq.OperationDone
	describe(o, map[string]string{"level": level, "for": period.String()})
	if err := s.guard.RecordOperation(ctx, o.Identified()); err != nil {
		s.options.Logger.Warn("cannot record the change of the log level", zap.String("request_id", requestIDOf(c)), zap.Error(err))
	}
}

// profile serves a profile of this process. It sets no deadline, since the request says how long the profile takes.
func (s *Server) profile() fiber.Handler {
	serve := adaptor.HTTPHandler(s.options.Profiles)
	return func(c *fiber.Ctx) error {
		name, _ := pathValue(c, "profile")
		if !slices.Contains(profiles, name) {
			return &apiError{status: http.StatusNotFound, code: codeNotFound,
				message: "there is no profile " + excerpt(name) + "; use one of " + strings.Join(profiles, ", ")}
		}
		if text := c.Query("seconds"); text != "" {
			if seconds, err := strconv.Atoi(text); err != nil || seconds < 1 || seconds > maxProfile {
				return invalid("seconds must be a number from 1 to " + strconv.Itoa(maxProfile))
			}
		}
		if err := serve(c); err != nil {
			return err
		}
		if status := c.Response().StatusCode(); status >= http.StatusBadRequest { // for example, only one CPU profile can run at a time
			return conflict(strings.TrimSpace(string(c.Response().Body())), nil)
		}
		return nil
	}
}
