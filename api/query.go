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

// query has the parameters of a request. They are read like the fields of a body.
type query struct {
	*body
	values url.Values
}

// readQuery also refuses unknown parameters: if a misspelt filter were ignored, the list would show more than the caller meant.
func readQuery(raw string, known []string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{&body{fieldErrors: &fieldErrors{}, isQuery: true}, values}
	if err != nil {
		q.reject("query", "is malformed: check its percent-encoding, and write %%3B for a semicolon")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !isKnown(name, known) && len(known) == 0:
			q.reject(excerpt(name), "unknown parameter; this request has no parameters")
		case !isKnown(name, known):
			q.reject(excerpt(name), "unknown parameter; known are %s", strings.Join(known, ", "))
		case !isText(name) || slices.ContainsFunc(values[name], func(value string) bool { return !isText(value) }):
			q.reject(excerpt(name), "must be UTF-8 without NUL")
		default:
			continue
		}
		delete(values, name)
	}
	q.readFields()
	return q
}

// isKnown reports whether a parameter is known. The known name "header.NAME" stands for every name that begins with "header.".
func isKnown(name string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool {
		prefix := k[:strings.LastIndexByte(k, '.')+1]
		isPattern := strings.ToUpper(k[len(prefix):]) == k[len(prefix):]
		return k == name || isPattern && len(name) > len(prefix) && strings.HasPrefix(name, prefix)
	})
}

func (q *query) err() error { return q.toError("invalid query parameters") }

// number reads a number from 1 to most.
func (q *query) number(name string, fallback, most int) int {
	value, given := q.one(name)
	if !given {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		q.reject(name, "must be an integer from 1 to %d", most)
		return fallback
	}
	return n
}

// wordOf reads one of the known words. It returns an empty word if the parameter is not given.
func wordOf[W ~string](b *body, name string, known []W) W {
	value, given := b.one(name)
	if given && !slices.Contains(known, W(value)) {
		b.reject(name, "must be %s", listed(known))
	}
	return W(value)
}

// topicName reads the name of a topic. It returns an empty name if the parameter is not given.
func (b *body) topicName() string {
	value, given := b.one("topic")
	if given && !dlq.IsTopicName(value) {
		b.reject("topic", "%s", badTopic)
	}
	return value
}

// id reads an id. It returns the zero id if the parameter is not given. what is the kind of resource, for errors.
func (b *body) id(name, what string) dlq.ID {
	value, given := b.one(name)
	id, err := dlq.ParseID(value)
	if given && (err != nil || id.IsZero()) {
		b.reject(name, "must be the UUID of a %s", what)
	}
	return id
}

// instant reads an RFC 3339 time, also with small letters, and converts it to UTC. It returns the zero time if the parameter is
// not given. Times outside the years 2 to 9999 are refused: JSON and SQL cannot write later years, and some programs send year
// 1 for "no time", which would be read as no filter.
func (b *body) instant(name string) time.Time {
	value, given := b.one(name)
	if !given {
		return time.Time{}
	}
	if b.isQuery { // an unescaped plus sign arrives as a space, and the times in our answers have a plus sign
		value = strings.Replace(value, " ", "+", 1)
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(value))
	t = t.UTC()
	if err != nil || t.Year() <= 1 || t.Year() > 9999 {
		b.reject(name, "must be a time such as 2026-02-20T10:30:00Z (RFC 3339), not before the year 2")
		return time.Time{}
	}
	return t
}

// between reads the limits of a range of time. A limit that is not given is zero.
func (q *query) between() (from, to time.Time) {
	from, to = q.instant("from"), q.instant("to")
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		q.reject("to", "must be later than from")
	}
	return from, to
}

// pathValue decodes a path parameter from the raw path. So an escaped slash belongs to the value and not to the route.
func pathValue(c *fiber.Ctx, name string) (string, bool) {
	raw := c.Params(name)
	value, err := url.PathUnescape(raw)
	if err != nil {
		return raw, false
	}
	return value, true
}

func pathID(c *fiber.Ctx, kind string) (dlq.ID, error) {
	value, ok := pathValue(c, "id")
	id, err := dlq.ParseID(value)
	if !ok || err != nil {
		return dlq.ID{}, invalid("invalid " + kind + " id: " + excerpt(value))
	}
	addLogField(c, zap.Stringer(kind+"_id", id))
	return id, nil
}

func pathTopic(c *fiber.Ctx) (string, error) {
	topic, ok := pathValue(c, "topic")
	if !ok || !dlq.IsTopicName(topic) {
		return "", invalid("invalid topic: "+excerpt(topic), detail{Field: "topic", Message: badTopic})
	}
	addLogField(c, zap.String("topic", topic))
	return topic, nil
}

// badTopic describes the topic names that dlq.IsTopicName accepts.
const badTopic = "must be 1 to 249 of A-Z a-z 0-9 . _ -"

// isText reports whether PostgreSQL accepts s as TEXT.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// excerpt shortens and cleans a caller's text for an error.
func excerpt(s string) string {
	const limit = 100
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return dlq.StorableText(s)
}
