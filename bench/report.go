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
	what   string
	// label is what in a few words, for the chart.
	label string
	// ours and base are as measured, for people; base may be empty.
	ours, base string
	// judged is what the target is about, most often ours over base.
	judged spread
	format func(float64) string
	goal   goal
	// notes say where the time went, or how it was measured.
	notes []string
}

// goal is a bound on the median. The zero value is none.
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

// verdict says whether the median meets the target. A quick run cannot tell.
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

// add takes a finished row into the table and tells it.
func (b *bench) add(r row) {
	if r.format == nil {
		r.format = count
	}
	b.rows = append(b.rows, r)
	b.step("row %d: %s: ours %s, baseline %s: %s, target %s", r.number, r.what, r.ours, r.base, r.judged.show(r.format), r.goal)
	for _, note := range r.notes {
		b.step("       %s", note)
	}
}

// markdown is the table and what stands behind it.
func (b *bench) markdown() string {
	var s strings.Builder
	s.WriteString("# Measured\n\nWritten by `make bench`. Every ratio compares two things measured in turn, in the same run on the same machine; " +
		"figures are the median [least–most] of the runs. Read the ratios: the absolute figures are this machine's.\n\n")
	if b.quick {
		s.WriteString("**A quick run with a fiftieth of the sizes: it shows that the program works, not how fast anything is.**\n\n")
	}
	s.WriteString("| # | what | ours | baseline | ratio or value | target | met |\n|--:|---|---|---|---|---|---|\n")
	for _, r := range b.rows {
		base := r.base
		if base == "" {
			base = "–"
		}
		fmt.Fprintf(&s, "| %d | %s | %s | %s | %s | %s | %s |\n", r.number, r.what, r.ours, base,
			r.judged.show(r.format), r.goal, b.verdict(r))
	}
	s.WriteString("\nNotes\n\n")
	for _, r := range b.rows {
		for _, note := range r.notes {
			fmt.Fprintf(&s, "- Row %d: %s\n", r.number, note)
		}
	}
	s.WriteString("\nThe machine and the parts\n\n")
	for _, line := range b.machine() {
		fmt.Fprintf(&s, "- %s\n", line)
	}
	return s.String()
}

// machine describes what was measured on, without names that would identify it.
func (b *bench) machine() []string {
	settings := make([]string, 0, len(postgresSettings))
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout"} {
		settings = append(settings, name+"="+postgresSettings[name])
	}
	lines := []string{
		fmt.Sprintf("%d cores%s, %s/%s, %s", runtime.NumCPU(), memory(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		fmt.Sprintf("PostgreSQL %s, data on the disk: %s, the rest as it comes", b.postgres.Version, strings.Join(settings, ", ")),
		"Temporal development server " + b.tuned.version + ", state in memory, tuned as `make run` tunes it unless a row says default; Go SDK " +
			versionOf("go.temporal.io/sdk"),
		"Kafka: kfake inside this process, so its processor time counts against both sides; franz-go " + versionOf("github.com/twmb/franz-go"),
		"Everything shares the cores: PostgreSQL, Temporal, the broker, and what is measured",
		fmt.Sprintf("every side runs %d times; messages with values of %d bytes of JSON, a key and five headers; %d lanes, pages of 100",
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

// versionOf is the version of a module that is built in.
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
