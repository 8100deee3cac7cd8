package ctl_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEmptyListOfAFilterIsRefused(t *testing.T) {
	t.Parallel()
	s := server(t, nil)
	for _, args := range [][]string{
		{"delete", "t", "--yes", "--error", "x", "--id", ""},
		{"delete", "t", "--yes", "--error", "x", "--id", "a,"},
		{"delete", "t", "--yes", "--error", "x", "--status", ""},
		{"delete", "t", "--yes", "--all", "--id", ""},
		{"messages", "list", "t", "--status", ""},
	} {
		ran := s.dlqctl(t, args...)
		require.Equal(t, 2, ran.code, "%v: %s", args, ran.err)
		require.Contains(t, ran.err, "is empty")
	}
}
