package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// row is one line of the table.
type row struct {
	number int
	title  string
	// label is the short form of title, for the chart.
	label string
	// ours and base are the formatted results; base may be empty.
	ours, base string
	// judged is compared with the target. Most often it is the ratio of ours to base.
	judged spread
	format func(float64) string
	goal   goal
	// notes tell how the time is divided between steps, or how the row was measured.
	notes []string
}

// goal is the target of a median. The zero value is no target.
type goal struct{ atLeast, atMost float64 }

func (g goal) String() string {
	switch {
	case g.atLeast > 0:
		return "≥ " + strconv.FormatFloat(g.atLeast, 'f', -1, 64)
	case g.atMost > 0:
		return "≤ " + strconv.FormatFloat(g.atMost, 'f', -1, 64)
	}
	return "–"
}

// verdict tells whether the median meets the target. A quick run has bounds instead of verdicts.
func (b *bench) verdict(r row) string {
	switch {
	case b.quick || r.goal == goal{}:
		return "–"
	case r.goal.isMet(r.judged.median()):
		return "yes"
	}
	return "**no**"
}

func (g goal) isMet(value float64) bool {
	return (g.atLeast == 0 || value >= g.atLeast) && (g.atMost == 0 || value <= g.atMost)
}

// add adds a finished row to the table and prints it.
func (b *bench) add(r row) {
	if r.format == nil {
		r.format = count
	}
	b.rows = append(b.rows, r)
	b.step("row %d: %s: ours %s, baseline %s: %s, target %s", r.number, r.title, r.ours, r.base, r.judged.show(r.format), r.goal)
	for _, note := range r.notes {
		b.step("       %s", note)
	}
}

// heading says how the report was made, and how to read it.
func (b *bench) heading() string {
	return fmt.Sprintf("%s Each side of a row ran %d times, alternately, on one machine. "+
		"Figures are the median [minimum–maximum] of these runs. The ratios matter; the absolute figures depend on the machine.", b.madeBy(), b.runs)
}

// markdown is the table with its notes.
func (b *bench) markdown() string {
	var s strings.Builder
	s.WriteString("# Measurements\n\n" + b.heading() + "\n\n")
	if b.quick {
		s.WriteString("**A quick run with a fiftieth of the sizes. Its stable lines have bounds; it is no measurement.**\n\n")
	}
	s.WriteString("| # | measurement | ours | baseline | ratio or value | target | met |\n|--:|---|---|---|---|---|---|\n")
	for _, r := range b.rows {
		base := r.base
		if base == "" {
			base = "–"
		}
		fmt.Fprintf(&s, "| %d | %s | %s | %s | %s | %s | %s |\n", r.number, r.title, r.ours, base,
			r.judged.show(r.format), r.goal, b.verdict(r))
	}
	s.WriteString("\nNotes\n\n")
	for _, r := range b.rows {
		for _, note := range r.notes {
			fmt.Fprintf(&s, "- Row %d: %s\n", r.number, note)
		}
	}
	s.WriteString(boundsTable())
	s.WriteString("\nThe machine and the services\n\n")
	for _, line := range b.machine() {
		fmt.Fprintf(&s, "- %s\n", line)
	}
	return s.String()
}

// machine describes the machine and the services, without identifying names.
func (b *bench) machine() []string {
	settings := make([]string, 0, len(postgresSettings))
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout"} {
		settings = append(settings, name+"="+postgresSettings[name])
	}
	lines := []string{
		fmt.Sprintf("%d cores%s, %s/%s, %s", runtime.NumCPU(), memory(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		fmt.Sprintf("PostgreSQL %s, data on the disk: %s, otherwise default settings", b.postgres.Version, strings.Join(settings, ", ")),
		"Temporal development server " + b.tuned.version + ", state in memory, tuned as by `make run` unless a row says default; Go SDK " +
			versionOf("go.temporal.io/sdk"),
		"Kafka: kfake in this process, so its processor time slows ours and the baseline alike; franz-go " + versionOf("github.com/twmb/franz-go"),
		"PostgreSQL, Temporal, the broker and the measured programs share the cores",
		fmt.Sprintf("ours and the baseline run %d times each; messages with values of %d bytes of JSON, a key and five headers; %d lanes, pages of 100",
			b.runs, valueBytes, b.lanes),
	}
	return lines
}

func memory() string {
	text, err := os.ReadFile("/proc/meminfo")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return ""
	}
	kilobytes, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(", %.0f GiB of memory", kilobytes/(1<<20))
}

// versionOf is the version of a linked module.
func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}
