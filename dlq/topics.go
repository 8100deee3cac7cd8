package dlq

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultTopicPatterns are the two documented ways to name a dead-letter topic.
var DefaultTopicPatterns = []string{"*.dlq.v1", "*.dlq"}

// Topics knows which topics hold dead letters and where those came from.
type Topics struct {
	expression string
	dlq        *regexp.Regexp
	origins    map[string]string
}

// NewTopics compiles globs, in which * stands for any run of characters and ? for
// one. origins maps the name of a dead-letter topic to its original topic, where
// its name does not tell. The error is the first thing that is wrong.
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
			return nil, fmt.Errorf("%q matches every topic, so that no message could ever go back", glob)
		}
		alternatives[i] = expressions.Replace(glob)
	}
	t := &Topics{expression: "^(?:" + strings.Join(alternatives, "|") + ")$", origins: origins}
	// With (?s), a dot stands for a newline too, as it does in PostgreSQL: a row that was
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

// IsTopicName reports whether Kafka takes name for a topic: 1 to 249 of
// A-Z a-z 0-9 . _ -, but not "." and not "..".
func IsTopicName(name string) bool {
	return len(name) <= 249 && topicName.MatchString(name) && name != "." && name != ".."
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// IsDeadLetter reports whether the topic's name matches a dead-letter pattern.
func (t *Topics) IsDeadLetter(topic string) bool { return t.dlq.MatchString(topic) }

// Expression is the patterns as one anchored regular expression, which RE2 and
// PostgreSQL read alike.
func (t *Topics) Expression() string { return t.expression }

var versionedDLQ = regexp.MustCompile(`^(.+)\.dlq\.(v[0-9]+)$`)

// OriginOf tells the original topic from the name of a dead-letter topic: from
// the configured mapping, else X.dlq is X and X.dlq.v1 is X.v1. A name that
// tells nothing is its own origin, which CheckOrigin then refuses.
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

// CheckOrigin returns a *NotRetryableError when sending the message to its
// original topic would feed a dead-letter topic: a loop.
func (t *Topics) CheckOrigin(m *Message) error {
	if m.OriginalTopic != "" && m.OriginalTopic != m.DLQTopic && !t.IsDeadLetter(m.OriginalTopic) {
		return nil
	}
	return &NotRetryableError{ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		Reason: fmt.Sprintf("its original topic %q is a dead-letter topic; set kafka.origin_topics for %q", m.OriginalTopic, m.DLQTopic)}
}
