package dlq

import (
	"fmt"
	"regexp"
	"strings"
)

// originPattern derives an original topic from the name of a dead-letter topic.
type originPattern struct {
	from, to   string
	expression *regexp.Regexp
}

// originPlaceholders stand for parts of a name, in both halves of a pattern. {topic} matches as many characters as
// possible, so in error.a.b.c the group is c.
var originPlaceholders = map[string]string{
	"{topic}":   `(?P<topic>[A-Za-z0-9._-]+)`,
	"{group}":   `(?P<group>[A-Za-z0-9_-]+)`,
	"{version}": `(?P<version>v[0-9]+)`,
	"{n}":       `(?P<n>[0-9]+)`,
}

// defaultOriginPatterns are the documented names, and the names of Spring Kafka (-dlt, .DLT, and
// the retry topics), of Spring Cloud Stream (error), and other conventions.
var defaultOriginPatterns = mustOriginPatterns(
	"{topic}.dlq.{version}", "{topic}.{version}",
	"{topic}.dlq", "{topic}",
	"{topic}-dlq", "{topic}",
	"{topic}.DLT", "{topic}",
	"{topic}-dlt", "{topic}",
	"{topic}-retry-{n}", "{topic}",
	"error.{topic}.{group}", "{topic}",
)

func mustOriginPatterns(pairs ...string) []originPattern {
	var patterns []originPattern
	for i := 0; i+1 < len(pairs); i += 2 {
		p, err := newOriginPattern(pairs[i], pairs[i+1])
		if err != nil {
			panic(err)
		}
		patterns = append(patterns, p)
	}
	return patterns
}

func newOriginPattern(from, to string) (originPattern, error) {
	if strings.Count(from, "{topic}") != 1 {
		return originPattern{}, fmt.Errorf("%q needs {topic} once, for the original topic", from)
	}
	expression, sampleFrom, sampleTo := regexp.QuoteMeta(from), from, to
	for name, group := range originPlaceholders {
		if strings.Contains(to, name) && strings.Count(from, name) != 1 {
			return originPattern{}, fmt.Errorf("%q has %s, which %q does not have once", to, name, from)
		}
		expression = strings.ReplaceAll(expression, regexp.QuoteMeta(name), group)
		sampleFrom, sampleTo = strings.ReplaceAll(sampleFrom, name, "x"), strings.ReplaceAll(sampleTo, name, "x")
	}
	for _, sample := range []struct{ pattern, name string }{{from, sampleFrom}, {to, sampleTo}} {
		if !IsTopicName(sample.name) {
			return originPattern{}, fmt.Errorf("%q is no topic name with {topic}, {group}, {version} or {n} in it", sample.pattern)
		}
	}
	if from == to {
		return originPattern{}, fmt.Errorf("%q cannot be its own origin", from)
	}
	compiled, err := regexp.Compile("^" + expression + "$")
	return originPattern{from: from, to: to, expression: compiled}, err
}

func (p *originPattern) match(dlqTopic string) (topic, group string, ok bool) {
	found := p.expression.FindStringSubmatch(dlqTopic)
	if found == nil {
		return "", "", false
	}
	topic = p.to
	for i, name := range p.expression.SubexpNames() {
		if name == "" {
			continue
		}
		topic = strings.ReplaceAll(topic, "{"+name+"}", found[i])
		if name == "group" {
			group = found[i]
		}
	}
	return topic, group, IsTopicName(topic)
}

var groupName = regexp.MustCompile(`\?P<[a-z]+>`)

// replacement is the pattern for regexp_replace of PostgreSQL, which knows no names of capture groups.
func (p *originPattern) replacement() (expression, replacement string) {
	replacement = p.to
	for i, name := range p.expression.SubexpNames() {
		replacement = strings.ReplaceAll(replacement, "{"+name+"}", fmt.Sprintf(`\%d`, i))
	}
	return groupName.ReplaceAllString(p.expression.String(), ""), replacement
}
