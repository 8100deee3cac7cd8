package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATopicThatFailsWaitsTwiceAsLongEachTime(t *testing.T) {
	t.Parallel()
	w := newWalk()
	var waits []time.Duration
	for range 9 {
		waits = append(waits, w.wait/time.Second)
		w.failed = true
		w.end()
	}
	require.Equal(t, []time.Duration{0, 3, 6, 12, 24, 48, 96, 180, 180}, waits)
	w.end()
	require.Zero(t, w.wait, "nothing failed")
	require.Zero(t, w.due)
}
