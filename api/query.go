package api

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// query reads the parameters of a request.
type query struct {
	faults
	values url.Values
}

// readQuery refuses unknown parameters too: a filter that is misspelt and
// ignored shows, or retries, more than was meant.
func readQuery(raw string, known []string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{values: values}
	if err != nil {
		q.reject("query", "is malformed: check its percent-encoding, and write %%3B for a semicolon")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			q.reject(excerpt(name), "unknown parameter; there are none here")
		case !slices.Contains(known, name):
			q.reject(excerpt(name), "unknown parameter; known are %s", strings.Join(known, ", "))
		case !isText(strings.Join(values[name], "")):
			q.reject(name, "must be UTF-8 without NUL")
			delete(values, name)
		}
	}
	return q
}

func (q *query) err() error { return q.refusal("invalid query parameters") }

// one returns the value of a parameter that may occur once.
func (q *query) one(name string) (value string, given bool) {
	values := q.values[name]
	if len(values) > 1 {
		q.reject(name, "is given %d times; give it once", len(values))
		return "", false
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

func (q *query) integer(name string, fallback, least, most int) int {
	value, given := q.one(name)
	if !given {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		q.reject(name, "must be an integer from %d to %d", least, most)
		return fallback
	}
	return n
}

// instant reads RFC 3339. A plus sign that was not escaped arrives as a space.
// The answers of this API have one, so what was copied from them is understood.
func (q *query) instant(name string) time.Time {
	value, given := q.one(name)
	if !given {
		return time.Time{}
	}
	t, ok := parseInstant(strings.Replace(value, " ", "+", 1))
	if !ok {
		q.reject(name, notAnInstant)
		return time.Time{}
	}
	return t
}

const notAnInstant = "must be a time such as 2026-02-20T10:30:00Z (RFC 3339), not before the year 2"

// parseInstant reads RFC 3339, into UTC. An offset may lead out of the years that
// JSON and SQL can write. The first of them is what some programs send when they
// mean no time, which would be taken for no bound.
func parseInstant(value string) (_ time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, value)
	t = t.UTC()
	return t, err == nil && t.Year() > 1 && t.Year() <= 9999
}

// pathValue decodes a path parameter. It is taken from the path as it was sent,
// so an escaped slash is part of the value and not of the route.
func pathValue(c *fiber.Ctx, name string) (string, bool) {
	raw := c.Params(name)
	value, err := url.PathUnescape(raw)
	if err != nil {
		return raw, false
	}
	return value, true
}

func pathID(c *fiber.Ctx, what string) (dlq.ID, error) {
	value, ok := pathValue(c, "id")
	id, err := dlq.ParseID(value)
	if !ok || err != nil {
		return dlq.ID{}, invalid("invalid " + what + " id: " + excerpt(value))
	}
	note(c, zap.Stringer(strings.ReplaceAll(what, " ", "_")+"_id", id))
	return id, nil
}

func pathTopic(c *fiber.Ctx) (string, error) {
	topic, ok := pathValue(c, "topic")
	if !ok || !dlq.IsTopicName(topic) {
		return "", invalid("invalid topic: "+excerpt(topic), detail{Field: "topic", Message: badTopic})
	}
	note(c, zap.String("topic", topic))
	return topic, nil
}

// badTopic says which names dlq.IsTopicName accepts.
const badTopic = "must be 1 to 249 of A-Z a-z 0-9 . _ -"

// isText reports whether PostgreSQL can take s as TEXT.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// excerpt makes a caller's own text fit to be shown in an error.
func excerpt(s string) string {
	const limit = 100
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return dlq.StorableText(s)
}

// statuses reads the status parameter: repeated, or a list with commas.
func (q *query) statuses() []dlq.Status {
	var statuses []dlq.Status
	for _, value := range q.values["status"] {
		for name := range strings.SplitSeq(value, ",") {
			status, err := dlq.ParseStatus(name)
			switch {
			case err != nil:
				q.reject("status", "%q is not one of PENDING, RETRYING, RESOLVED, DEAD", excerpt(name))
			case !slices.Contains(statuses, status):
				statuses = append(statuses, status)
			}
		}
	}
	return statuses
}
