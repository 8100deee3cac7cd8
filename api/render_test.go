package api

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// Rows that were written by hand may have any time.
func TestEveryTimeIsATimestamp(t *testing.T) {
	t.Parallel()
	for text, at := range map[string]time.Time{
		"2026-02-20T10:30:00.000+00:00": time.Date(2026, 2, 20, 12, 30, 0, 0, time.FixedZone("", 7200)),
		"9999-12-31T23:59:59.999+00:00": time.UnixMicro(math.MaxInt64),
		"0001-01-01T00:00:00.000+00:00": time.UnixMicro(math.MinInt64),
	} {
		encoded, err := json.Marshal(timestamp(at))
		require.NoError(t, err)
		require.Equal(t, `"`+text+`"`, string(encoded))
		_, err = time.Parse(time.RFC3339, text)
		require.NoError(t, err)
	}
}

func TestACursorKeepsAnyTime(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.UnixMicro(math.MaxInt64), time.UnixMicro(math.MinInt64), time.UnixMicro(1)} {
		q := readQuery("cursor="+messageCursor(dlq.Keyset{CreatedAt: at.UTC(), Seq: 1}, true), listParameters)
		place := q.keyset(true)
		require.NoError(t, q.err())
		require.True(t, place.CreatedAt.Equal(at))
	}
}
