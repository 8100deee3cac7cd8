package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAQuickRunBeyondABoundIsARegression(t *testing.T) {
	t.Parallel()
	b := &bench{options: options{quick: true}}
	for _, limit := range bounds {
		require.True(t, limit.goal.isMet(limit.least) && limit.goal.isMet(limit.most), limit.label)
		b.rows = append(b.rows, row{number: limit.row, label: limit.label, judged: spread{limit.most}, format: count})
	}
	require.NoError(t, b.regressions())

	b.rows[1].judged = spread{1000}
	require.ErrorContains(t, b.regressions(), "row 4, history events for 1,000 messages: 1,000 instead of ≤ ")
	b.options.rows = []int{16}
	require.NoError(t, b.regressions())
	b.options.rows, b.rows = nil, nil
	require.ErrorContains(t, b.regressions(), `row 4 has no line "history events for 1,000 messages"`)
}

func TestTheReportHasTheBounds(t *testing.T) {
	t.Parallel()
	report, err := os.ReadFile("../docs/bench.md")
	require.NoError(t, err)
	require.Contains(t, string(report), boundsTable())
}
