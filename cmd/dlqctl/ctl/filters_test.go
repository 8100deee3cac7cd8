package ctl_test

import (
	"io"
	"net/http"
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

func TestFlagsOfAPlanAreSentAsTheyAreGiven(t *testing.T) {
	t.Parallel()
	var sent []byte
	s := server(t, map[string]http.HandlerFunc{"POST /api/v1/plans": func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		answer(`{"id": "p", "kind": "retry", "topic": "t", "matched": 0}`)(w, r)
	}})
	for want, flags := range map[string][]string{
		`{"kind":"retry","topic":"t","rate_limit":0,"ramp":{"steps":[1,10],"max_came_back":0.05}}`: {
			"--ramp", "1,10", "--max-came-back", "0.05", "--rate", "0",
		},
		`{"kind":"retry","topic":"t","include_suspicious":false,"reason":"","key":""}`: {"--include-suspicious=false", "--reason", "", "--key", ""},
		`{"kind":"retry","topic":"t","not":{"header":["x"],"origin_offset":[7]}}`:      {"--not", "header=x", "--not", "origin-offset=+07"},
	} {
		ran := s.dlqctl(t, append([]string{"plan", "retry", "t", "-o", "json"}, flags...)...)
		require.Zero(t, ran.code, ran.err)
		require.JSONEq(t, want, string(sent), flags)
	}
	ran := s.dlqctl(t, "plan", "retry", "t", "--max-came-back", "0.05")
	require.Equal(t, 2, ran.code)
	require.Contains(t, ran.err, "need --ramp")
}
