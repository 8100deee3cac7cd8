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

// anyGlob is an expression for the names that any of the globs matches. It lets . match line breaks too, as PostgreSQL
// does anyway.
func anyGlob(globs []string) string { return "(?s)^(" + alternatives(globs) + ")$" }

// alternatives joins the expressions of globs with |. No name of a topic has a |.
func alternatives(globs []string) string { return expressions.Replace(strings.Join(globs, "|")) }

// compareGlobs sorts exact names first, then the longer globs. Of two globs of the same length, the glob with fewer wildcards is first.
func compareGlobs(a, b string) int {
	wildcards := func(glob string) int { return strings.Count(glob, "*") + strings.Count(glob, "?") }
	return cmp.Or(cmp.Compare(min(wildcards(a), 1), min(wildcards(b), 1)), cmp.Compare(len(b), len(a)), cmp.Compare(wildcards(a), wildcards(b)),
		cmp.Compare(a, b))
}

// globValue is the value of the topics that a glob matches.
type globValue[V any] struct {
	glob    string
	matches *regexp.Regexp
	value   V
}

// globMap maps topics to values. A topic has the value of the first glob that matches it.
type globMap[V any] []globValue[V]

func newGlobMap[V any](values map[string]V) (m globMap[V], err error) {
	for _, glob := range slices.SortedFunc(maps.Keys(values), compareGlobs) {
		matches, err := compileGlob(glob)
		if err != nil {
			return nil, err
		}
		m = append(m, globValue[V]{glob, matches, values[glob]})
	}
	return m, nil
}

// of is nil for a topic without a value.
func (m globMap[V]) of(topic string) *globValue[V] {
	if i := slices.IndexFunc(m, func(g globValue[V]) bool { return g.matches.MatchString(topic) }); i >= 0 {
		return &m[i]
	}
	return nil
}
