package main

import (
	"errors"
	"fmt"
	"strings"
)

// bound is the limit of a line of the table in a quick run.
type bound struct {
	row   int
	label string
	goal  goal
	// least and most are the extreme values of 20 quick runs on a busy machine.
	least, most float64
}

// bounds are for the lines whose values differ little between quick runs, even on a busy machine. These lines
// count things, compare processor times, or are far better than their targets. Each bound leaves a margin
// beyond the worst of 20 runs: go run ./bench -quick -runs 20 -rows 3,4,15,16.
var bounds = []bound{
	{3, "bulk retry vs a workflow for each message", goal{atLeast: 50}, 197, 404},
	{4, "history events for 1,000 messages", goal{atMost: 16}, 9.25, 10.8},
	{15, "core of PostgreSQL for each message vs the same loop", goal{atMost: 2.3}, 0.857, 1.79},
	{15, "WAL for each message vs the same loop", goal{atMost: 0.42}, 0.362, 0.381},
	{16, "rows read for each message, 16 lanes vs 4", goal{atMost: 1.5}, 0.625, 1.07},
}

// regressions returns an error that names the lines beyond their bounds.
func (b *bench) regressions() error {
	var beyond []error
	for _, limit := range bounds {
		if !b.wants(limit.row) {
			continue
		}
		r, err := b.rowOf(limit)
		switch value := r.judged.median(); {
		case err != nil:
			beyond = append(beyond, err)
		case !limit.goal.isMet(value):
			beyond = append(beyond, fmt.Errorf("row %d, %s: %s instead of %s; 20 runs had %s to %s", limit.row, limit.label, r.format(value), limit.goal,
				r.format(limit.least), r.format(limit.most)))
		}
	}
	return errors.Join(beyond...)
}

func (b *bench) rowOf(limit bound) (row, error) {
	for _, r := range b.rows {
		if r.number == limit.row && r.label == limit.label {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("row %d has no line %q", limit.row, limit.label)
}

// boundsTable is the part of the report about quick runs.
func boundsTable() string {
	var s strings.Builder
	s.WriteString("\nBounds of a quick run\n\n" +
		"`make bench-quick` fails beyond these bounds. Its other lines vary too much on a busy machine.\n\n" +
		"| line | 20 quick runs | bound |\n|---|---|---|\n")
	for _, limit := range bounds {
		fmt.Fprintf(&s, "| row %d: %s | %s–%s | %s |\n", limit.row, limit.label, count(limit.least), count(limit.most), limit.goal)
	}
	return s.String()
}
