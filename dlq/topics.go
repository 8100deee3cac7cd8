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

// NewTopics compiles globs, in which * stands for any run of characters, ? for
// one, and all else, dots too, for itself. origins maps the name of a
// dead-letter topic to its original topic, where its name does not tell.
func NewTopics(globs []string, origins map[string]string) (*Topics, error) {
	if len(globs) == 0 {
		return nil, fmt.Errorf("no dead-letter topic pattern: give at least one, such as %q", DefaultTopicPatterns[0])
	}
	alternatives := make([]string, len(globs))
	for i, glob := range globs {
		if strings.Trim(glob, "*?") == "" {
			return nil, fmt.Errorf("dead-letter topic pattern %q matches every topic", glob)
		}
		quoted := regexp.QuoteMeta(glob)
		quoted = strings.ReplaceAll(quoted, `\*`, `.*`)
		alternatives[i] = strings.ReplaceAll(quoted, `\?`, `.`)
	}
	t := &Topics{expression: "^(?:" + strings.Join(alternatives, "|") + ")$", origins: origins}
	var err error
	if t.dlq, err = regexp.Compile(t.expression); err != nil {
		return nil, fmt.Errorf("dead-letter topic pattern: %w", err)
	}
	for from, to := range origins {
		if t.dlq.MatchString(to) {
			return nil, fmt.Errorf("original topic %q of %q is itself a dead-letter topic", to, from)
		}
	}
	return t, nil
}

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
