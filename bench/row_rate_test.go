package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// steady appends a tenth of a second's records every 100 ms, for that many seconds.
func steady(from time.Time, seconds, perSecond int) []appended {
	appends := make([]appended, 10*seconds)
	for i := range appends {
		appends[i] = appended{at: from.Add(time.Duration(i) * 100 * time.Millisecond), producer: int64(i % 2), records: perSecond / 10}
	}
	return appends
}

func TestWorstOffFindsTheFullestAndTheEmptiestWindow(t *testing.T) {
	t.Parallel()
	from := time.Now()
	until := from.Add(20 * time.Second)
	off := func(appends []appended) float64 { return worstOff(appends, from, until, 10*time.Second, 500) }
	require.InDelta(t, 0.01, off(steady(from, 20, 500)), 1e-9, "one claim more or less")

	burst := steady(from, 20, 500)
	burst[120].records += 500
	require.InDelta(t, 0.11, off(burst), 1e-9)

	gap := steady(from, 20, 500)
	gap = append(gap[:100:100], gap[120:]...)
	require.InDelta(t, 0.21, off(gap), 1e-9)
}

func TestUntilRateEndsWithTheFirstSecondAtTheNewRate(t *testing.T) {
	t.Parallel()
	from := time.Now()
	changed := from.Add(4 * time.Second)
	appends := append(steady(from, 5, firstRate), steady(from.Add(5*time.Second), 5, secondRate)...)
	late, err := untilRate(appends, changed, from.Add(10*time.Second))
	require.NoError(t, err)
	require.InDelta(t, 2.0, late.Seconds(), 0.25, "the old rate continued for a second")
	_, err = untilRate(steady(from, 10, firstRate), changed, from.Add(10*time.Second))
	require.Error(t, err)
}
