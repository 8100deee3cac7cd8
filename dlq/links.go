package dlq

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// TraceLink is the address of a trace in another program, with the placeholder {trace_id}. An empty TraceLink makes no links.
type TraceLink string

// RecordLink is the address of a record in a web interface of Kafka, with the placeholder {topic}, and optionally {partition}
// and {offset}. An empty RecordLink makes no links.
type RecordLink string

// Problem says why the address cannot be used; empty if the address can be used.
func (l TraceLink) Problem() string { return linkProblem(string(l), "{trace_id}") }

// Problem says why the address cannot be used; empty if the address can be used.
func (l RecordLink) Problem() string {
	return linkProblem(string(l), "{topic}", "{partition}", "{offset}")
}

// URL is the address of a trace; empty if the id is hidden, or has characters other than letters, digits, - and _. Ids of
// tracing systems have only these characters. Other characters could lead the link to another address.
func (l TraceLink) URL(id string) string {
	if !traceID.MatchString(id) {
		return ""
	}
	return strings.ReplaceAll(string(l), "{trace_id}", id)
}

var traceID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// URL is the address of a record; empty if Kafka would not accept the topic's name, or if a partition or an offset that the
// address needs is unknown. The names that Kafka accepts need no escapes in a URL.
func (l RecordLink) URL(topic string, partition *int32, offset *int64) string {
	needs := func(name string) bool { return strings.Contains(string(l), name) }
	number, at := int32(-1), int64(-1)
	if partition != nil {
		number = *partition
	}
	if offset != nil {
		at = *offset
	}
	if !IsTopicName(topic) || needs("{partition}") && number < 0 || needs("{offset}") && at < 0 {
		return ""
	}
	return strings.NewReplacer("{topic}", topic, "{partition}", strconv.Itoa(int(number)),
		"{offset}", strconv.FormatInt(at, 10)).Replace(string(l))
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// linkProblem checks an address with placeholders. The first placeholder is required.
func linkProblem(address string, placeholders ...string) string {
	if address == "" {
		return ""
	}
	known := strings.Join(placeholders, ", ")
	for _, name := range placeholder.FindAllString(address, -1) {
		if !slices.Contains(placeholders, name) {
			return fmt.Sprintf("has the unknown placeholder %s; known: %s", name, known)
		}
	}
	filled := placeholder.ReplaceAllString(address, "0")
	if strings.ContainsAny(filled, "{}") {
		return "has a brace that belongs to no placeholder; write %7B and %7D"
	}
	parsed, err := url.Parse(filled)
	switch {
	case err != nil, parsed.Hostname() == "", parsed.Scheme != "http" && parsed.Scheme != "https":
		return "must be an http or https URL"
	case parsed.User != nil:
		return "must not contain a user or password"
	}
	_, afterScheme, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(afterScheme, "/?#"); i < 0 || strings.Contains(afterScheme[:i], "{") {
		return "must have its placeholders after the host"
	}
	if !strings.Contains(address, placeholders[0]) {
		return "needs the placeholder " + placeholders[0]
	}
	return ""
}
