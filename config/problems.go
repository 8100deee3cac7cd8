package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// source is the location of a value: a line of the file, or an environment variable.
type source struct {
	file string
	// line counts from 1. It is 0 if the value is not from the file.
	line     int
	variable string
}

// compare orders lines of the file before variables, and variables before unknown locations.
func (s source) compare(other source) int {
	return cmp.Or(cmp.Compare(s.rank(), other.rank()), cmp.Compare(s.line, other.line), cmp.Compare(s.variable, other.variable))
}

func (s source) rank() int {
	switch {
	case s.line > 0:
		return 0
	case s.variable != "":
		return 1
	default:
		return 2
	}
}

// Problem is a problem of the configuration with its location.
type Problem struct {
	source
	// Key is the path of the key, such as kafka.brokers. It is empty when the whole file cannot be read.
	Key     string
	Message string
}

// String is the problem in one line. The line begins with the location, like a message of a compiler.
func (p Problem) String() string {
	at := cmp.Or(p.variable, p.file)
	if p.line > 0 {
		at = fmt.Sprintf("%s:%d", p.file, p.line)
	}
	parts := []string{at, p.Key, p.Message}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Problems are all problems of a configuration.
type Problems []Problem //nolint:errname // a list that is also an error

// Error has a line for each problem.
func (ps Problems) Error() string {
	if len(ps) == 1 {
		return "configuration: " + ps[0].String()
	}
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = "\n  " + p.String()
	}
	return fmt.Sprintf("configuration: %d problems:%s", len(ps), strings.Join(lines, ""))
}

// report collects the problems of a configuration. sources has the locations of all values that are set.
type report struct {
	sources  map[string]source
	problems Problems
	// unread are the problems of values that could not be read. Such a value stays at its default. Problems of the default are
	// not reported.
	unread Problems
}

func (r *report) add(at source, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{source: at, Key: path, Message: fmt.Sprintf(format, args...)})
}

// addAt reports a problem of the key at path. The location is the location of the key cause.
func (r *report) addAt(cause, path, format string, args ...any) {
	at := r.source(cause)
	isUnread := func(p Problem) bool { return isWithin(p.Key, withoutIndex(path)) }
	if len(r.unread) > 0 && (at == source{} || slices.ContainsFunc(r.unread, isUnread)) {
		return
	}
	r.add(at, path, format, args...)
}

// source returns the location of the key at path. An item of a list in the file has its own line. An item of a list in a
// variable has the location of the list. A section has the location of its first key, and so has a missing key of the section.
func (r *report) source(path string) source {
	if at, ok := r.sources[path]; ok {
		return at
	}
	path = withoutIndex(path)
	if !r.given(path) {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	var first source
	for key, at := range r.sources {
		if isWithin(key, path) && at.compare(first) < 0 {
			first = at
		}
	}
	return first
}

// withoutIndex is the path of a list, from the path of an item such as kafka.brokers[2].
func withoutIndex(path string) string {
	list, _, _ := strings.Cut(path, "[")
	return list
}

// isWithin reports whether a key is the section at path, or a key of the section.
func isWithin(key, path string) bool {
	key = withoutIndex(key)
	return key == path || strings.HasPrefix(key, path+".")
}

// given reports whether the file or the environment sets the key at path, or a key in the section at path.
func (r *report) given(path string) bool {
	for key := range r.sources {
		if isWithin(key, path) {
			return true
		}
	}
	return false
}

// section is a section that is being validated. Its keys are relative to path.
type section struct {
	*report
	path string
}

// add reports a problem of a key; an empty key stands for the section.
func (s section) add(key, format string, args ...any) {
	path := below(s.path, key)
	s.addAt(path, path, format, args...)
}

// refuse reports a problem of a key if isWrong is set.
func (s section) refuse(isWrong bool, key, format string, args ...any) {
	if isWrong {
		s.add(key, format, args...)
	}
}

// refuseError reports the error of a value. A nil error means that the value is correct.
func (s section) refuseError(key string, err error) { s.refuse(err != nil, key, "%v", err) }

// given reports whether the file or the environment sets a key, or a key in that section.
func (s section) given(key string) bool { return s.report.given(below(s.path, key)) }
