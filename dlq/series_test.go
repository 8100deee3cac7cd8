package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestARangeOfArrivalsHasWholeBucketsThatAreKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 20, 10, 30, 15, 0, time.UTC)
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 2, day, hour, minute, second, 0, time.UTC)
	}
	january := time.Date(2026, 1, 20, 11, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		step           dlq.Step
		from, to       time.Time
		wantFrom, upTo time.Time
		buckets        int
	}{
		"the last day by hour":             {dlq.StepHour, time.Time{}, time.Time{}, at(19, 11, 0, 0), at(20, 11, 0, 0), 24},
		"the last day by minute":           {dlq.StepMinute, time.Time{}, time.Time{}, at(19, 10, 31, 0), at(20, 10, 31, 0), 1440},
		"the day before":                   {dlq.StepHour, time.Time{}, at(10, 8, 0, 0), at(9, 8, 0, 0), at(10, 8, 0, 0), 24},
		"parts of buckets":                 {dlq.StepMinute, at(20, 10, 2, 30), at(20, 10, 3, 1), at(20, 10, 2, 0), at(20, 10, 4, 0), 2},
		"an end in the future":             {dlq.StepHour, at(20, 9, 0, 0), at(28, 0, 0, 0), at(20, 9, 0, 0), at(20, 11, 0, 0), 2},
		"minutes that are not kept":        {dlq.StepMinute, at(1, 0, 0, 0), time.Time{}, at(19, 10, 31, 0), at(20, 10, 31, 0), 1440},
		"hours that are not kept":          {dlq.StepHour, at(1, 0, 0, 0).AddDate(-1, 0, 0), time.Time{}, january, at(20, 11, 0, 0), 744},
		"only minutes that are not kept":   {dlq.StepMinute, at(18, 0, 0, 0), at(18, 1, 0, 0), at(19, 10, 31, 0), at(18, 1, 0, 0), 0},
		"a beginning in the future":        {dlq.StepHour, at(21, 0, 0, 0), time.Time{}, at(21, 0, 0, 0), at(20, 11, 0, 0), 0},
		"an end that is not after it":      {dlq.StepHour, at(20, 9, 0, 0), at(20, 9, 0, 0), at(20, 9, 0, 0), at(20, 9, 0, 0), 0},
		"a beginning within its last hour": {dlq.StepHour, at(20, 10, 59, 0), at(20, 10, 59, 1), at(20, 10, 0, 0), at(20, 11, 0, 0), 1},
	} {
		q := dlq.SeriesQuery{Step: test.step, From: test.from, To: test.to}
		q.Fit(now)
		require.Equal(t, test.wantFrom, q.From, name)
		require.Equal(t, test.upTo, q.To, name)
		require.Equal(t, test.buckets, q.Buckets(), name)
	}
}
