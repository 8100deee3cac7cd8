package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// healthz answers as long as the process runs. It checks no dependency, since a restart would not repair a dependency.
func (s *Server) healthz(c *fiber.Ctx) error {
	return reply(c, http.StatusOK, map[string]string{"status": "ok"})
}

type readyView struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// notReadyView is an error, together with the report of readyView.
type notReadyView struct {
	errorView
	readyView
}

func (s *Server) readyz(c *fiber.Ctx) error {
	results, checks := s.options.Ready(), map[string]string{}
	var down []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		checks[name] = "ok"
		notice, isNotice := errors.AsType[*dlq.NoticeError](results[name])
		if results[name] != nil && (!isNotice || notice.Unavailable) {
			checks[name] = "away"
			down = append(down, name)
		}
		if isNotice {
			checks[name] += "; " + notice.Notice
		}
	}
	var status, message string
	switch {
	case s.draining.Err() != nil:
		status, message = "draining", "the server is shutting down"
	case len(down) > 0:
		status, message = "unavailable", "unavailable: "+strings.Join(down, ", ")
	default:
		return reply(c, http.StatusOK, readyView{Status: "ok", Checks: checks})
	}
	refused := unavailable(message, nil)
	refused.details = views(down, func(name *string) detail { return detail{*name, "unavailable"} })
	c.Set(fiber.HeaderRetryAfter, retryAfterSeconds)
	return reply(c, refused.status, notReadyView{refused.view(requestIDOf(c)), readyView{Status: status, Checks: checks}})
}
