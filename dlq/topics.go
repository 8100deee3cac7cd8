package dlq

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// DefaultTopicPatterns are the two documented forms of the name of a dead-letter topic.
var DefaultTopicPatterns = []string{"*.dlq.v1", "*.dlq"}

// Topics decides which topics hold dead letters, and maps each to its original topic.
type Topics struct {
	expression string
	dlq        *regexp.Regexp
	origins    map[string]string       // of exact names
	patterns   []originPattern         // configured patterns first
	internal   []string                // internal topics that may be targets
	limits     globMap[*regexp.Regexp] // of dead-letter topics to the origins that they may have
}

// NewTopics compiles globs, in which * stands for any run of characters and ? for a character. origins maps
// dead-letter topics to their original topics. Entries may have placeholders, such as "{topic}-failed":
// "{topic}"; see originPlaceholders. The error is the first problem found.
func NewTopics(globs []string, origins map[string]string) (*Topics, error) {
	if len(globs) == 0 {
		return nil, fmt.Errorf("needs at least one pattern, such as %s", DefaultTopicPatterns[0])
	}
	for _, glob := range globs {
		if _, err := compileGlob(glob); err != nil {
			return nil, err
		}
		if strings.Trim(glob, "*?") == "" {
			return nil, fmt.Errorf("%q matches every topic, so no message could be sent back", glob)
		}
	}
	t := &Topics{expression: "^(?:" + alternatives(globs) + ")$", origins: map[string]string{}}
	// With (?s) a dot matches a newline too, as in PostgreSQL. A row that was
	// written by hand may have a newline in a topic's name.
	t.dlq = regexp.MustCompile("(?s)" + t.expression)
	if err := t.addOrigins(origins); err != nil {
		return nil, err
	}
	t.patterns = append(t.patterns, defaultOriginPatterns...)
	return t, nil
}

// addOrigins adds the configured origins. Of two patterns that match, the longer counts.
func (t *Topics) addOrigins(origins map[string]string) error {
	for from, to := range origins {
		if strings.ContainsAny(from+to, "{}") {
			pattern, err := newOriginPattern(from, to)
			if err != nil {
				return err
			}
			t.patterns = append(t.patterns, pattern)
			continue
		}
		switch {
		case !IsTopicName(from):
			return fmt.Errorf("%q is not the name of a topic", from)
		case !IsTopicName(to):
			return fmt.Errorf("%q is not the name of a topic", to)
		case from == to:
			return fmt.Errorf("%q cannot be its own origin", from)
		case t.IsDeadLetter(to):
			return fmt.Errorf("original topic %q of %q is itself a dead-letter topic", to, from)
		}
		t.origins[from] = to
	}
	slices.SortFunc(t.patterns, func(a, b originPattern) int {
		return cmp.Or(cmp.Compare(len(b.from), len(a.from)), cmp.Compare(a.from, b.from))
	})
	return nil
}

// IsTopicName reports whether Kafka accepts the name of a topic: 1 to 249 of the characters A-Z a-z 0-9 . _ -, but neither
// "." nor "..".
func IsTopicName(name string) bool {
	return len(name) <= 249 && topicName.MatchString(name) && name != "." && name != ".."
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// IsDeadLetter reports whether the topic's name matches a dead-letter pattern.
func (t *Topics) IsDeadLetter(topic string) bool { return t.dlq.MatchString(topic) }

// Expression is the patterns as an anchored expression, with the same meaning in RE2 and PostgreSQL.
func (t *Topics) Expression() string { return t.expression }

// OriginOf derives the original topic from the name of a dead-letter topic, and the consumer group if the name
// has one. The configured mapping comes first, then defaultOriginPatterns. Any other name is returned
// unchanged, and refused by CheckOrigin.
func (t *Topics) OriginOf(dlqTopic string) (topic, group string) {
	if origin, ok := t.origins[dlqTopic]; ok {
		return origin, ""
	}
	for i := range t.patterns {
		if topic, group, ok := t.patterns[i].match(dlqTopic); ok {
			return topic, group
		}
	}
	return dlqTopic, ""
}

// MaySend decides whether somebody who is limited to some topics may send a message to its original topic. Whoever wrote the
// dead letter can claim any original topic, so the topic must follow from the name of the dead-letter topic, or be covered by
// a grant. A caller that sends or shows an empty record must count its topic as not covered: the record may be a pointer,
// and the record that the pointer names would be copied.
func (t *Topics) MaySend(dlqTopic, originalTopic string, isCovered bool) bool {
	origin, _ := t.OriginOf(dlqTopic)
	return originalTopic == origin || isCovered
}

// Origins are OriginOf for PostgreSQL: the replacement of the first expression that matches
// the name of a dead-letter topic is the original topic.
func (t *Topics) Origins() (expressions, replacements []string) {
	for from, to := range t.origins {
		expressions, replacements = append(expressions, "^"+regexp.QuoteMeta(from)+"$"), append(replacements, to)
	}
	for i := range t.patterns {
		expression, replacement := t.patterns[i].replacement()
		expressions, replacements = append(expressions, expression), append(replacements, replacement)
	}
	return expressions, replacements
}

// LimitOrigins limits the origins that dead letters may name, by a map from globs of dead-letter topics to
// globs of original topics. It is called before the first use. The error is the first problem found.
func (t *Topics) LimitOrigins(limits map[string][]string) (err error) {
	compiled := map[string]*regexp.Regexp{}
	for glob, origins := range limits {
		for _, origin := range origins {
			if _, err := compileGlob(origin); err != nil {
				return fmt.Errorf("an origin of %q %w", glob, err)
			}
		}
		compiled[glob] = regexp.MustCompile(anyGlob(origins))
	}
	t.limits, err = newGlobMap(compiled)
	return err
}

// ForeignOrigin says why this origin makes a dead letter of a topic suspicious; empty if the dead letter is not suspicious.
// The origin that follows from the name of the dead-letter topic is never suspicious.
func (t *Topics) ForeignOrigin(dlqTopic, originalTopic string) string {
	limit := t.limits.of(dlqTopic)
	if limit == nil || limit.value.MatchString(originalTopic) || t.MaySend(dlqTopic, originalTopic, false) {
		return ""
	}
	return fmt.Sprintf("its original topic %s is not among those of %s in kafka.origins", originalTopic, limit.glob)
}

// AllowInternal lets messages go to the internal topics among the names. It is called before the first use.
func (t *Topics) AllowInternal(names []string) {
	t.internal = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !IsTopicName(name) || !isInternal(name) })
}

// isInternal reports whether Kafka, or a program beside Kafka, keeps its own state in a topic of this name.
func isInternal(topic string) bool { return strings.HasPrefix(topic, "__") || topic == "_schemas" }

// refusal says why nothing is sent to a topic; empty if messages may be sent.
func (t *Topics) refusal(topic string) string {
	switch {
	case t.IsDeadLetter(topic):
		return "is a dead-letter topic, from which the messages would come back at once"
	case isInternal(topic) && !slices.Contains(t.internal, topic):
		return "is an internal topic, to which nothing is sent unless targets.allowed has its exact name"
	default:
		return ""
	}
}

// NoTargets is an expression for PostgreSQL that matches the topics to which nothing is sent.
func (t *Topics) NoTargets() string {
	internal := "__.*|_schemas"
	if len(t.internal) > 0 {
		internal = "(?!(?:" + alternatives(t.internal) + ")$)(?:" + internal + ")"
	}
	return strings.TrimSuffix(t.expression, ")$") + "|" + internal + ")$"
}

// UsualOrigin is the original topic that follows from the name of a dead-letter topic; empty if nothing is sent to the original topic.
func (t *Topics) UsualOrigin(dlqTopic string) string {
	if origin, _ := t.OriginOf(dlqTopic); t.refusal(origin) == "" {
		return origin
	}
	return ""
}

// CheckOrigin returns a *NotRetryableError when nothing is sent to the original topic. Sending
// to a dead-letter topic would be a loop.
func (t *Topics) CheckOrigin(m *Message) error {
	refused := m.refusal("")
	switch reason := t.refusal(m.OriginalTopic); {
	case m.OriginalTopic == "" || m.OriginalTopic == m.DLQTopic || t.IsDeadLetter(m.OriginalTopic):
		refused.Reason = fmt.Sprintf("its original topic %q is a dead-letter topic; set kafka.origin_topics for %q", m.OriginalTopic, m.DLQTopic)
	case reason != "":
		refused.Reason = fmt.Sprintf("its original topic %q %s", m.OriginalTopic, reason)
	default:
		return nil
	}
	return refused
}
