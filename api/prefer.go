package api

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	headerPrefer            = "Prefer"
	headerPreferenceApplied = "Preference-Applied"
)

// waitTime is the time that a request waits for a workflow. The Prefer header (RFC 7240) can change the server's default, up to
// the server's maximum. The header Preference-Applied tells which preferences were applied.
func (s *Server) waitTime(c *fiber.Ctx) time.Duration {
	lines := bytes.Join(c.Request().Header.PeekAll(headerPrefer), []byte(","))
	preferred, async := parsePrefer(string(lines))
	var applied []string
	wait := max(min(s.options.RetryWait, s.options.MaxWait), 0)
	if async {
		applied = append(applied, "respond-async")
		wait = 0
	}
	if preferred >= 0 {
		wait = min(time.Duration(preferred)*time.Second, s.options.MaxWait)
		applied = append(applied, "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	if len(applied) > 0 {
		c.Set(headerPreferenceApplied, strings.Join(applied, ", "))
	}
	return wait
}

// parsePrefer reads the Prefer header. wait is in seconds, and -1 when it is not given. Malformed and unknown preferences are
// ignored, and the first value of a preference counts, as the RFC demands.
func parsePrefer(header string) (wait int, async bool) {
	wait = -1
	waitSeen := false
	for _, preference := range splitQuoted(header, ',') {
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

// seconds reads a number of seconds. It returns -1 if the value has other characters than digits. It returns at most
// 999,999,999, which exceeds every configured maximum and cannot overflow.
func seconds(value string) int {
	n, err := strconv.ParseUint(value, 10, 64) // ParseUint returns the largest number if the value is too large
	if errors.Is(err, strconv.ErrSyntax) {
		return -1
	}
	return int(min(n, 999_999_999))
}

// splitQuoted splits at separators outside double quotes.
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

// waitContext returns a context that ends after limit, or when the server drains.
func (s *Server) waitContext(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(parent, limit)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
