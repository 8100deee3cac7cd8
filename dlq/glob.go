package dlq

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	wildcards   = strings.NewReplacer("*", "x", "?", "x")
	expressions = strings.NewReplacer(".", `\.`, "*", ".*", "?", ".")
)

// compileGlob compiles a glob of topics, in which * stands for any run of characters and ? for a single
// character. The expression has the same meaning in RE2 and PostgreSQL.
func compileGlob(glob string) (*regexp.Regexp, error) {
	if !IsTopicName(wildcards.Replace(glob)) {
		return nil, fmt.Errorf("must be a topic name in which * stands for any run of characters and ? for one, not %q", glob)
	}
	return regexp.MustCompile("(?s)^" + expressions.Replace(glob) + "$"), nil
}

// compareGlobs sorts exact names first, then the longer globs.
func compareGlobs(a, b string) int {
	wildcards := func(glob string) int { return strings.Count(glob, "*") + strings.Count(glob, "?") }
	return cmp.Or(cmp.Compare(wildcards(a), wildcards(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}

// globMap maps topics to values. The first glob that matches a topic has its value.
type globMap []struct {
	value   string
	matches *regexp.Regexp
}

func newGlobMap(values map[string]string) (globMap, error) {
	m := make(globMap, len(values))
	for i, glob := range slices.SortedFunc(maps.Keys(values), compareGlobs) {
		matches, err := compileGlob(glob)
		if err != nil {
			return nil, err
		}
		m[i].value, m[i].matches = values[glob], matches
	}
	return m, nil
}

func (m globMap) of(topic string) (value string, found bool) {
	for i := range m {
		if m[i].matches.MatchString(topic) {
			return m[i].value, true
		}
	}
	return "", false
}

// columns are the expressions and the values in their order, for a store.
func (m globMap) columns() (expressions, values []string) {
	for i := range m {
		expressions, values = append(expressions, m[i].matches.String()), append(values, m[i].value)
	}
	return expressions, values
}
