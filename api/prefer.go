package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	headerPrefer            = "Prefer"
	headerPreferenceApplied = "Preference-Applied"
)

// patience says how long this request waits for a workflow: the server's
// default, or what the caller prefers (RFC 7240) up to the server's maximum.
// It tells the caller which preferences were applied, and as what.
func (s *Server) patience(c *fiber.Ctx) time.Duration {
	var lines []string
	for _, line := range c.Request().Header.PeekAll(headerPrefer) {
		lines = append(lines, string(line))
	}
	wait, async := parsePrefer(lines)
	var applied []string
	patience := max(min(s.options.RetryWait, s.options.MaxWait), 0)
	if async {
		applied = append(applied, "respond-async")
		patience = 0
	}
	if wait >= 0 {
		patience = min(time.Duration(wait)*time.Second, s.options.MaxWait)
		applied = append(applied, "wait="+strconv.Itoa(int(patience/time.Second)))
	}
	if len(applied) > 0 {
		c.Set(headerPreferenceApplied, strings.Join(applied, ", "))
	}
	return patience
}

// parsePrefer reads the lines of the Prefer header. wait is in seconds, -1 when
// not given. What is malformed or unknown is ignored, as the RFC asks; of a
// preference given twice the first counts.
func parsePrefer(lines []string) (wait int, async bool) {
	wait = -1
	waitSeen := false
	for _, preference := range splitQuoted(strings.Join(lines, ","), ',') {
		name, value, _ := strings.Cut(splitQuoted(preference, ';')[0], "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			async = async || value == ""
		case "wait":
			if !waitSeen {
				wait = seconds(value)
			}
			waitSeen = true
		}
	}
	return wait, async
}

// seconds reads delay-seconds, digits only; -1 when it is anything else. Nine
// digits are far beyond any maximum, and more could overflow.
func seconds(value string) int {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return -1
	}
	n, err := strconv.Atoi(value)
	if err != nil || n > 999_999_999 {
		return 999_999_999
	}
	return n
}

// splitQuoted splits at separators outside of double quotes.
func splitQuoted(s string, separator byte) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// waiting returns a context that ends after the given patience, or as soon as
// the server drains.
func (s *Server) waiting(c *fiber.Ctx, patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.UserContext(), patience)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
