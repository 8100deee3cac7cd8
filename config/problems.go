package config

import (
	"fmt"
	"sort"
	"strings"
)

// Problem is one problem of the configuration, with its location.
type Problem struct {
	// File and Line locate the value. Line counts from 1; it is 0 when the value does
	// not come from the file.
	File string
	Line int
	// Variable is the environment variable that set the value, or empty.
	Variable string
	// Key is the path of the key, such as kafka.brokers; empty when the file as
	// a whole cannot be read.
	Key     string
	Message string
}

// String is the problem on one line, which begins with the location as in a compiler's
// messages.
func (p Problem) String() string {
	var parts []string
	switch {
	case p.Variable != "":
		parts = append(parts, p.Variable)
	case p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	case p.File != "":
		parts = append(parts, p.File)
	}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// Problems are all problems of a configuration.
type Problems []Problem //nolint:errname // a list that is also an error

// Error has one line for each problem.
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

// sort orders the file's problems by line, before the variables' problems.
func (ps Problems) sort() {
	rank := func(p Problem) int {
		switch {
		case p.Line > 0:
			return 0
		case p.Variable != "":
			return 1
		default:
			return 2
		}
	}
	sort.SliceStable(ps, func(i, j int) bool {
		if a, b := rank(ps[i]), rank(ps[j]); a != b {
			return a < b
		}
		return ps[i].Line < ps[j].Line
	})
}

// beyond drops the problems of values that could not be read: those are already in
// reading.
func (ps Problems) beyond(reading Problems) Problems {
	if len(reading) == 0 {
		return ps
	}
	unread := map[string]bool{}
	for _, p := range reading {
		for key := withoutIndex(p.Key); key != ""; {
			unread[key] = true
			key = key[:max(strings.LastIndexByte(key, '.'), 0)]
		}
	}
	var rest Problems
	for _, p := range ps {
		if (p.Line > 0 || p.Variable != "") && !unread[withoutIndex(p.Key)] {
			rest = append(rest, p)
		}
	}
	return rest
}

// source is the location of a value: a line of the file, or a variable.
type source struct {
	file     string
	line     int
	variable string
}

// before orders sources: lines of the file, then variables by name.
func (s source) before(other source) bool {
	switch {
	case other == source{}:
		return true
	case s.line > 0 && other.line > 0:
		return s.line < other.line
	case s.line > 0 || other.line > 0:
		return s.line > 0
	default:
		return s.variable < other.variable
	}
}

// report collects the problems that the sections report.
type report struct {
	sources  map[string]source
	problems Problems
}

// add reports a problem of the key at path.
func (r *report) add(path, format string, args ...any) { r.addAt(path, path, format, args...) }

// addAt reports a problem of the key at path, located at the key that causes it.
func (r *report) addAt(cause, path, format string, args ...any) {
	s := r.source(cause)
	r.problems = append(r.problems, Problem{
		File: s.file, Line: s.line, Variable: s.variable,
		Key: path, Message: fmt.Sprintf(format, args...),
	})
}

// source locates the key at path. An item of a list has the location of the list. A
// section, or a key that is missing from it, has the location of the section's first
// key.
func (r *report) source(path string) source {
	if s, ok := r.sources[path]; ok {
		return s
	}
	path = withoutIndex(path)
	if s, ok := r.sources[path]; ok {
		return s
	}
	if !given(r.sources, path) {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	var first source
	for key, s := range r.sources {
		if strings.HasPrefix(key, path+".") && s.before(first) {
			first = s
		}
	}
	return first
}

// withoutIndex is the path of the list that an item such as kafka.brokers[2]
// belongs to.
func withoutIndex(path string) string {
	list, _, _ := strings.Cut(path, "[")
	return list
}

// given reports whether the file or the environment set the key at path, or any
// key below it.
func (r *report) given(path string) bool { return given(r.sources, path) }

func given(sources map[string]source, path string) bool {
	for key := range sources {
		if key == path || strings.HasPrefix(key, path+".") {
			return true
		}
	}
	return false
}
