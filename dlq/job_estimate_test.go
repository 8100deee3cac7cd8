package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTheEstimatedEndKnowsTheRateLimitAndTheRamp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	const unknown = time.Duration(-1)
	ramp := &dlq.Ramp{Steps: []int{1, 10, 1000}, Wait: 30 * time.Second} // over after 1, 11 and 1011 messages
	for name, c := range map[string]struct {
		matched, sent, skipped int64
		recent                 float64
		limit                  int
		ramp                   *dlq.Ramp
		idle                   time.Duration // since the row last changed
		left                   time.Duration
	}{
		"at the recent rate":                     {matched: 4000, sent: 1000, recent: 30, left: 100 * time.Second},
		"at the limit, which was lowered":        {matched: 4000, sent: 1000, recent: 30, limit: 5, left: 600 * time.Second},
		"slower than the limit":                  {matched: 4000, sent: 1000, recent: 3, limit: 5, left: 1000 * time.Second},
		"skipped messages are not left":          {matched: 4000, sent: 1000, skipped: 2000, recent: 10, left: 100 * time.Second},
		"nothing sent recently, though limited":  {matched: 4000, sent: 1000, limit: 5, left: unknown},
		"nothing left to send, nothing sent":     {left: unknown},
		"more done than matched":                 {matched: 1, sent: 2, recent: 1, left: unknown},
		"after a hundred years":                  {matched: 1 << 40, sent: 1000, recent: 0.1, left: unknown},
		"beyond the range of a duration":         {matched: 1 << 60, sent: 1000, recent: 5, limit: 1, left: unknown},
		"ramp, nothing sent yet":                 {matched: 5011, limit: 50, ramp: ramp, left: unknown},
		"wait after the first step, unlimited":   {matched: 5011, sent: 1, recent: 0.1, ramp: ramp, left: unknown},
		"wait after the first step, limited":     {matched: 5001, sent: 1, recent: 0.1, limit: 50, ramp: ramp, left: 90*time.Second + 100*time.Second},
		"half of that wait is over":              {matched: 5001, sent: 1, limit: 50, ramp: ramp, idle: 15 * time.Second, left: 75*time.Second + 100*time.Second},
		"that wait is just over":                 {matched: 5001, sent: 1, limit: 50, ramp: ramp, idle: 31 * time.Second, left: 60*time.Second + 100*time.Second},
		"that wait is long over":                 {matched: 5001, sent: 1, limit: 50, ramp: ramp, idle: 41 * time.Second, left: unknown},
		"the row's time is in the future":        {matched: 5001, sent: 1, limit: 50, ramp: ramp, idle: -time.Hour, left: 90*time.Second + 100*time.Second},
		"second step begun, limited":             {matched: 5001, sent: 6, recent: 0.6, limit: 50, ramp: ramp, left: 60*time.Second + 99900*time.Millisecond},
		"second step begun, unlimited":           {matched: 5001, sent: 6, recent: 0.6, ramp: ramp, left: unknown},
		"second step stuck":                      {matched: 5001, sent: 6, limit: 50, ramp: ramp, left: unknown},
		"third step, its speed known":            {matched: 5011, sent: 411, recent: 20, ramp: ramp, left: 30*time.Second + 230*time.Second},
		"third step, slower than its limit":      {matched: 5011, sent: 411, recent: 20, limit: 50, ramp: ramp, left: 30*time.Second + 230*time.Second},
		"third step, faster than its new limit":  {matched: 5011, sent: 411, recent: 20, limit: 10, ramp: ramp, left: 30*time.Second + 460*time.Second},
		"third step, stuck":                      {matched: 5011, sent: 411, limit: 50, ramp: ramp, left: unknown},
		"wait after the third step":              {matched: 6011, sent: 1011, recent: 20, limit: 50, ramp: ramp, idle: 20 * time.Second, left: 10*time.Second + 100*time.Second},
		"the rest, its speed not known yet":      {matched: 6011, sent: 1111, recent: 10, ramp: ramp, left: unknown},
		"the rest, its speed not known, limited": {matched: 6111, sent: 1111, recent: 10, limit: 50, ramp: ramp, left: 100 * time.Second},
		"the rest":                               {matched: 6011, sent: 2011, recent: 40, ramp: ramp, left: 100 * time.Second},
		"a long first step has a known speed":    {matched: 5000, sent: 200, recent: 100, ramp: &dlq.Ramp{Steps: []int{1000}, Wait: time.Minute}, left: 60*time.Second + 48*time.Second},
		"it ends with a step, and waits":         {matched: 11, sent: 1, limit: 1, ramp: ramp, left: 60*time.Second + 10*time.Second},
		"it ends within a step, without a wait":  {matched: 10, sent: 1, limit: 1, ramp: ramp, left: 30*time.Second + 9*time.Second},
		"all is sent, last wait, unlimited":      {matched: 11, sent: 11, recent: 1, ramp: ramp, idle: 10 * time.Second, left: 20 * time.Second},
		"skipped messages shorten the ramp too":  {matched: 5011, sent: 1, skipped: 5000, limit: 1, ramp: ramp, left: 60*time.Second + 10*time.Second},
		"after a hundred years, with a ramp":     {matched: 1 << 40, sent: 1, limit: 1, ramp: ramp, left: unknown},
		"steps that are larger than all of it":   {matched: 100, sent: 10, recent: 10, ramp: &dlq.Ramp{Steps: []int{1_000_000_000, 1_000_000_000}, Wait: 24 * time.Hour}, left: 9 * time.Second},
		"a ramp without steps has no effect":     {matched: 4000, sent: 1000, recent: 30, ramp: &dlq.Ramp{Wait: time.Minute}, left: 100 * time.Second},
		"a wait of a day":                        {matched: 5001, sent: 1, limit: 50, ramp: &dlq.Ramp{Steps: []int{1}, Wait: 24 * time.Hour}, idle: time.Hour, left: 23*time.Hour + 100*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := dlq.Job{
				State: dlq.JobRunning, Matched: c.matched, RecentPerSecond: c.recent, UpdatedAt: now.Add(-c.idle),
				Counts: dlq.JobCounts{Retried: c.sent, Skipped: c.skipped}, Spec: dlq.JobSpec{Kind: dlq.KindRetry, RateLimit: c.limit, Ramp: c.ramp},
			}
			end, known := b.EstimatedEnd(now)
			require.Equal(t, c.left != unknown, known, "%s", end.Sub(now))
			if known {
				require.WithinDuration(t, now.Add(c.left), end, time.Millisecond)
			}
		})
	}
}

func TestAJobThatDoesNotRunHasNoEstimatedEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	running := dlq.Job{State: dlq.JobRunning, Matched: 10, RecentPerSecond: 1, UpdatedAt: now}
	_, known := running.EstimatedEnd(now)
	require.True(t, known)
	for _, state := range []dlq.JobState{dlq.JobPausing, dlq.JobPaused, dlq.JobCancelling, dlq.JobCompleted, dlq.JobCancelled, dlq.JobFailed} {
		still := running
		still.State = state
		_, known := still.EstimatedEnd(now)
		require.False(t, known, state)
	}
	counting := running
	counting.Counting = true
	_, known = counting.EstimatedEnd(now)
	require.False(t, known)
}

func TestMessagesThatFailedOrDiedWereSentAndSkippedOnesWereNot(t *testing.T) {
	t.Parallel()
	counts := dlq.JobCounts{Retried: 1, Failed: 10, Dead: 100, Skipped: 1000}
	require.EqualValues(t, 111, counts.Sent())
	require.EqualValues(t, 1111, counts.Done())
}
