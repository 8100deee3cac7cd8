package activities

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// Whatever the first message of a key ends with and whenever, one that was blocked
// by it shares its fate in this round, and never gets an error.
func TestABlockedMessageNeverEndsByItself(t *testing.T) {
	t.Parallel()
	page := []dlq.Envelope{{ID: dlq.NewID(), Record: dlq.Record{Key: []byte("k")}}, {ID: dlq.NewID(), Record: dlq.Record{Key: []byte("k")}}}
	for _, category := range []dlq.Category{dlq.CategoryTransient, dlq.CategoryRateLimit, dlq.CategoryAuth, dlq.CategoryBadData} {
		for attempt := 1; attempt <= 10; attempt++ {
			for refusals := range 11 {
				l := &laneRun{in: LaneInput{RefusedAlone: refusals}, blocked: newBlockedKeys(nil)}
				cause := &dlq.DeliveryError{Category: category, Err: errors.New("refused")}
				round := l.decide(page, []error{cause, &dlq.BlockedError{Behind: cause}}, attempt)
				what := fmt.Sprintf("%s, attempt %d, %d refusals", category, attempt, refusals)
				if len(round.again) > 0 {
					require.Equal(t, page, round.again, what)
					require.Empty(t, round.outcomes, what)
					require.Equal(t, cause, round.cause, what)
					continue
				}
				require.Equal(t, []dlq.Outcome{
					{ID: page[0].ID, Result: category.Result(), Category: category, Error: "refused"},
					{ID: page[1].ID, Result: dlq.ResultSkipped},
				}, round.outcomes, what)
			}
		}
	}
}

func TestASliceOutweighsTheReadingOfBlockedKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, laneSlice, sliceOf(false, 100*time.Millisecond))
	require.Equal(t, time.Minute, sliceOf(false, 3*time.Second))
	require.Equal(t, throttledLaneSlice, sliceOf(false, time.Hour))
	require.Equal(t, throttledLaneSlice, sliceOf(true, 3*time.Second))
}
