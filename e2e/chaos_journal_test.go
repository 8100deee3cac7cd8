package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// journal records the faults and commands with their times, and the violations.
type journal struct {
	mu      sync.Mutex
	started time.Time
	lines   []string
	wrong   []string
	counts  map[string]int
}

func newJournal() *journal { return &journal{started: time.Now(), counts: map[string]int{}} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(fmt.Sprintf(format, args...))
}

func (j *journal) add(text string) {
	now := time.Now()
	j.lines = append(j.lines, fmt.Sprintf("%s %8.3fs  %s", now.Format("15:04:05.000"), now.Sub(j.started).Seconds(), text))
}

// violate records a violation, and lets the run continue: further violations help to find
// the cause.
func (j *journal) violate(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	j.add("VIOLATION: " + text)
	j.wrong = append(j.wrong, text)
}

// count adds to the summary.
func (j *journal) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

func (j *journal) violations() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.wrong)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

func (j *journal) summary() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(j.counts)) {
		lines = append(lines, fmt.Sprintf("%5d × %s", j.counts[what], what))
	}
	return lines
}

// window is the time in which a fault lasted; see fault.excuses.
type window struct {
	what     string // the name of the fault
	from, to time.Time
	// message is the only message that the fault affects; empty if it affects all messages.
	message string
}

// windows collects the windows of a run.
type windows struct {
	mu   sync.Mutex
	list []window
}

func (w *windows) add(what string, from, to time.Time) {
	w.insert(window{what: what, from: from, to: to})
}

func (w *windows) insert(more ...window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, more...)
}

func (w *windows) all() []window {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// anyIn reports whether a fault lasted in the given time or shortly before.
func (w *windows) anyIn(from, to time.Time) bool {
	return slices.ContainsFunc(w.all(), func(w window) bool {
		return w.from.Before(to) && w.to.Add(keepAlive).After(from)
	})
}

// strikes counts how often each kind of fault took effect.
type strikes struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *strikes) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[string]int{}
	}
	s.n[name]++
}

func (s *strikes) of(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[name]
}
