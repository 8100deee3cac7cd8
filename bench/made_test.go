package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReportNamesTheCommandThatRepeatsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "make bench"},
		{[]string{"-quick"}, "make bench-quick"},
		{[]string{"-soak", "30m"}, "make soak"},
		{[]string{"-soak", "30m", "-soak-rate", "150"}, "go run ./bench -soak 30m -soak-rate 150"},
		{[]string{"-runs", "2"}, "go run ./bench -runs 2"},
	} {
		require.Equal(t, c.want, command(c.args))
	}
}

func TestAReportNamesTheCommitAndTheRuns(t *testing.T) {
	t.Parallel()
	o := options{command: "make bench", commit: commitOf("0123abc\n", true), runs: 5}
	require.Equal(t, "Written by `make bench` at commit 0123abc.", o.madeBy())
	require.Equal(t, "commit 0123abc with uncommitted changes", commitOf("0123abc\n", false))
	require.Contains(t, (&bench{options: o}).heading(), "Written by `make bench` at commit 0123abc. Each side of a row ran 5 times")
}
