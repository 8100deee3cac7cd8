package ctl

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func TestTextOfStrangersCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	for hostile, shown := range map[string]string{
		"\x1b[31mred\x1b[0m": `\u001b[31mred\u001b[0m`,
		"\u009b2J":           `\u009b2J`,
		"a\u202eb\u2066c":    `a\u202eb\u2066c`,
		"zero\u200bwidth":    `zero\u200bwidth`,
		"bell\a\r\x7f":       `bell\u0007\u000d\u007f`,
		"\xffraw\x9b":        `\xffraw\x9b`,
		"tag\U000e0041":      `tag\U000e0041`,
		"plain 日本 é":         "plain 日本 é",
	} {
		require.Equal(t, shown, printable(hostile))
		require.Equal(t, shown, oneLine(hostile))
	}
	require.Equal(t, "a\n\tb", printable("a\n\tb"))
	require.Equal(t, `a\n\tb`, oneLine("a\n\tb"))
}

func TestJSONOnATerminalMeansTheSame(t *testing.T) {
	t.Parallel()
	content := []byte("{\"a\":\n\t\"\u009b\u202e\U000e0041 日本\"}")
	safe := safeJSON(content)
	require.NotContains(t, string(safe), "\u009b")
	require.NotContains(t, string(safe), "\u202e")
	require.JSONEq(t, string(content), string(safe))
}

func TestTheBarFitsItsTerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	end := at.Add(12 * time.Second)
	running := progress{
		JobSummary: client.JobSummary{Kind: "retry", Topic: "orders.dlq.v1", State: client.JobStateRUNNING, Matched: 1000, Progress: 0.37},
		Retried:    358, Failed: 12, PerSecond: 52, UpdatedAt: at, EstimatedEnd: &end,
	}
	require.Equal(t, "retry orders.dlq.v1 [#######--------------] 37% 358 of 1,000, 12 failed, 52/s, 12s left", barLine(running, 88))
	for width := range 200 {
		require.Less(t, len(barLine(running, width)), max(width, 1), width)
	}
	require.Equal(t, "37% 358 of 1,000, 12 failed, 52/s, 12s left", barLine(running, 44))
	paused := running
	paused.State, paused.Reason = client.JobStatePAUSED, "the broker\x1b is away"
	require.Contains(t, barLine(paused, 150), `PAUSED: the broker\u001b is away`)
	paused.Reason = strings.Repeat("日本", 50)
	for width := range 200 {
		require.Less(t, runewidth.StringWidth(barLine(paused, width)), max(width, 1), width)
	}
	strange := running
	strange.Progress = -3
	require.Contains(t, barLine(strange, 100), "[----")
	running.Counting = true
	require.Equal(t, "retry orders.dlq.v1: counting the messages", barLine(running, 80))
}

func TestAServerHasSeveralSpellings(t *testing.T) {
	t.Parallel()
	require.True(t, sameServer("https://dlq.example.com", "HTTPS://DLQ.example.com.:443/base/"))
	require.True(t, sameServer("http://[::1]:80", "http://[::1]"))
	require.False(t, sameServer("http://dlq.example.com", "https://dlq.example.com"))
	require.False(t, sameServer("http://a:1", "http://a:2"))
}

func TestNumbersHaveCommas(t *testing.T) {
	t.Parallel()
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 12431: "12,431", 1234567: "1,234,567", -1234: "-1,234", -123: "-123", -123456: "-123,456"} {
		require.Equal(t, text, thousands(n))
	}
}

// --fields can name every field of the types in the contract.
func TestFieldsAreTheContracts(t *testing.T) {
	t.Parallel()
	known := knownFields(client.MessageDetail{})
	for _, path := range []string{"id", "origin.topic", "payload.any.thing.0", "headers.0.key", "created_at"} {
		require.True(t, known.has(path), path)
	}
	for _, path := range []string{"", "idx", "id.x", "origin.x", "created_at.x"} {
		require.False(t, known.has(path), path)
	}
	_, err := json.Marshal(strings.Join(known.names(), ","))
	require.NoError(t, err)
}
