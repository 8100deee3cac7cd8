package dlq

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultTopicPatterns are the two documented forms of the name of a dead-letter topic.
var DefaultTopicPatterns = []string{"*.dlq.v1", "*.dlq"}

// Topics decides which topics hold dead letters, and maps each to its original topic.
type Topics struct {
	expression string
	dlq        *regexp.Regexp
	origins    map[string]string
}

// NewTopics compiles globs, in which * stands for any run of characters and ? for one.
// origins maps a dead-letter topic to its original topic, for names that do not contain it.
// The error is the first problem found.
func NewTopics(globs []string, origins map[string]string) (*Topics, error) {
	if len(globs) == 0 {
		return nil, fmt.Errorf("needs at least one pattern, such as %s", DefaultTopicPatterns[0])
	}
	alternatives := make([]string, len(globs))
	for i, glob := range globs {
		switch {
		case !IsTopicName(wildcards.Replace(glob)):
			return nil, fmt.Errorf("must be a topic name in which * stands for any run of characters and ? for one, not %q", glob)
		case strings.Trim(glob, "*?") == "":
			return nil, fmt.Errorf("%q matches every topic, so no message could be sent back", glob)
		}
		alternatives[i] = expressions.Replace(glob)
	}
	t := &Topics{expression: "^(?:" + strings.Join(alternatives, "|") + ")$", origins: origins}
	// With (?s) a dot matches a newline too, as it does in PostgreSQL. A row that was
	// written by hand may have one in a topic's name.
	t.dlq = regexp.MustCompile("(?s)" + t.expression)
	for from, to := range origins {
		switch {
		case !IsTopicName(from):
			return nil, fmt.Errorf("%q is not the name of a topic", from)
		case !IsTopicName(to):
			return nil, fmt.Errorf("%q is not the name of a topic", to)
		case from == to:
			return nil, fmt.Errorf("%q cannot be its own origin", from)
		case t.IsDeadLetter(to):
			return nil, fmt.Errorf("original topic %q of %q is itself a dead-letter topic", to, from)
		}
	}
	return t, nil
}

var (
	wildcards   = strings.NewReplacer("*", "x", "?", "x")
	expressions = strings.NewReplacer(".", `\.`, "*", ".*", "?", ".")
)

// IsTopicName reports whether Kafka accepts the name of a topic: 1 to 249 of A-Z a-z 0-9 .
// _ -, but not "." and not "..".
func IsTopicName(name string) bool {
	return len(name) <= 249 && topicName.MatchString(name) && name != "." && name != ".."
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// IsDeadLetter reports whether the topic's name matches a dead-letter pattern.
func (t *Topics) IsDeadLetter(topic string) bool { return t.dlq.MatchString(topic) }

// Expression is the patterns as one anchored regular expression, with the same meaning in
// RE2 and PostgreSQL.
func (t *Topics) Expression() string { return t.expression }

var versionedDLQ = regexp.MustCompile(`^(.+)\.dlq\.(v[0-9]+)$`)

// OriginOf derives the original topic from the name of a dead-letter topic. The configured
// mapping comes first; otherwise X.dlq gives X, and X.dlq.v1 gives X.v1. Any other name is
// returned unchanged, and CheckOrigin refuses it.
func (t *Topics) OriginOf(dlqTopic string) string {
	if origin, ok := t.origins[dlqTopic]; ok {
		return origin
	}
	if parts := versionedDLQ.FindStringSubmatch(dlqTopic); parts != nil {
		return parts[1] + "." + parts[2]
	}
	if origin, ok := strings.CutSuffix(dlqTopic, ".dlq"); ok && origin != "" {
		return origin
	}
	return dlqTopic
}

// CheckOrigin returns a *NotRetryableError when the original topic is a dead-letter topic.
// Sending the message there would be a loop.
func (t *Topics) CheckOrigin(m *Message) error {
	if m.OriginalTopic != "" && m.OriginalTopic != m.DLQTopic && !t.IsDeadLetter(m.OriginalTopic) {
		return nil
	}
	return &NotRetryableError{ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		Reason: fmt.Sprintf("its original topic %q is a dead-letter topic; set kafka.origin_topics for %q", m.OriginalTopic, m.DLQTopic)}
}
