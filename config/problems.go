package config

import (
	"fmt"
	"sort"
	"strings"
)

// Problem is one thing that is wrong with the configuration and where it is.
type Problem struct {
	// File and Line say where the value stands; Line counts from 1 and is zero
	// when the value does not come from the file.
	File string
	Line int
	// Variable is the environment variable that gave the value, or empty.
	Variable string
	// Key is the path of the key, such as kafka.brokers; empty when the file as
	// a whole cannot be read.
	Key     string
	Message string
}

// String is the problem on one line, place first, as compilers print it.
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

// Problems is everything that is wrong with a configuration.
type Problems []Problem //nolint:errname // a list that happens to be an error; ProblemsErrors would say it twice

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

// sort puts the file's problems first, in the order of its lines.
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

// beyond leaves out what only repeats the problems of reading: a value that
// could not be read is not to be called missing or wrong a second time.
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

// source is where a value came from: a line of the file, or a variable.
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

// report collects what the sections find wrong with themselves.
type report struct {
	sources  map[string]source
	problems Problems
}

// add notes a problem of the key at path.
func (r *report) add(path, format string, args ...any) { r.addAt(path, path, format, args...) }

// addAt notes a problem of the key at path that another key is the cause of.
func (r *report) addAt(cause, path, format string, args ...any) {
	s := r.source(cause)
	r.problems = append(r.problems, Problem{
		File: s.file, Line: s.line, Variable: s.variable,
		Key: path, Message: fmt.Sprintf(format, args...),
	})
}

// source is where the key at path came from. For an item of a list it is the
// list; for a section, or a key that is missing from one, the section's first
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
