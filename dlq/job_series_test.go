package dlq_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// The test thins a month of samples as a store does.
func TestAJobNeverHasMoreSamplesThanTheLimit(t *testing.T) {
	t.Parallel()
	kept := map[int64]bool{}
	for age := time.Duration(0); age < 30*24*time.Hour; age += dlq.SampleInterval {
		tick, step := dlq.SampleTick(age)
		if kept[tick] {
			continue
		}
		kept[tick] = true
		for old := range kept {
			if old%step != 0 && old <= tick-3 {
				delete(kept, old)
			}
		}
		if age > dlq.MaxSamples*dlq.SampleInterval {
			require.GreaterOrEqual(t, len(kept), dlq.MaxSamples/2)
		}
		require.LessOrEqual(t, len(kept), dlq.MaxSamples)
	}
	for _, odd := range []time.Duration{math.MinInt64, -1, 0} {
		tick, step := dlq.SampleTick(odd)
		require.Equal(t, []int64{0, 1}, []int64{tick, step})
	}
	_, step := dlq.SampleTick(math.MaxInt64)
	require.Positive(t, step)
}

func TestTheSeriesOfAJobGoesFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	at := func(seconds float64, sent int64) dlq.JobSample {
		return dlq.JobSample{At: start.Add(time.Duration(seconds * float64(time.Second))), Counts: dlq.JobCounts{Retried: sent}}
	}
	samples := []dlq.JobSample{at(0.2, 1), at(5, 50), at(5.5, 60), at(10, 100), at(12.9, 130), at(13.2, 130)}
	for name, test := range map[string]struct {
		updated, ended float64 // 0 if it runs
		samples, want  []dlq.JobSample
	}{
		"running":                         {15, 0, samples[:4], []dlq.JobSample{at(0, 0), at(5, 50), at(10, 100), at(15, 130)}},
		"paused since the latest sample":  {9, 0, samples[:4], []dlq.JobSample{at(0, 0), at(5, 50), at(10, 100)}},
		"just started":                    {0, 0, nil, []dlq.JobSample{at(0, 0)}},
		"ended":                           {13, 13, samples, []dlq.JobSample{at(0, 0), at(5, 50), at(10, 100), at(13, 130)}},
		"ended at once":                   {0.3, 0.3, samples[:1], []dlq.JobSample{at(0, 0), at(0.3, 130)}},
		"ended before it began, by hand":  {-9, -9, samples[:2], []dlq.JobSample{at(0, 0), at(-9, 130)}},
		"sampled before it began, it ran": {15, 0, []dlq.JobSample{at(-5, 1)}, []dlq.JobSample{at(0, 0), at(15, 130)}},
	} {
		j := dlq.Job{StartedAt: start, UpdatedAt: at(test.updated, 0).At, Counts: dlq.JobCounts{Retried: 130}}
		if test.ended != 0 {
			j.EndedAt = new(at(test.ended, 0).At)
		}
		require.Equal(t, test.want, j.Series(test.samples), name)
	}
}

func TestTheRateBetweenTwoSamplesCountsMessagesThatWereSentOrChanged(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	earlier := dlq.JobSample{At: start, Counts: dlq.JobCounts{Retried: 10, Skipped: 3}}
	later := dlq.JobSample{At: start.Add(4 * time.Second), Counts: dlq.JobCounts{Retried: 15, Failed: 2, Dead: 1, Changed: 2, Skipped: 90}}
	require.InDelta(t, 2.5, later.PerSecond(&earlier), 0)
	require.Zero(t, earlier.PerSecond(&later))
	require.Zero(t, later.PerSecond(&later))
	later.Counts = dlq.JobCounts{} // edited by hand
	require.Zero(t, later.PerSecond(&earlier))
}
