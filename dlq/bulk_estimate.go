package dlq

import (
	"math"
	"time"
)

const (
	// recentSpan is how far RecentPerSecond looks back.
	recentSpan = 10 * time.Second
	// longestEstimate is beyond what anybody waits for, and within what a
	// time.Duration holds.
	longestEstimate = 100 * 365 * 24 * time.Hour
)

// EstimatedEnd is when the job would end if it went on as it does now, with the
// waits of its ramp that are still to come. It is not known while the job does not
// run or counts, when nothing was sent of late, and while the steps of a ramp tell
// nothing of the speed and no limit does.
func (b *BulkRetry) EstimatedEnd(now time.Time) (end time.Time, known bool) {
	left := b.Matched - b.Counts.Done()
	if b.State != BulkRunning || b.Counting || left < 0 {
		return time.Time{}, false
	}
	rate, wait := b.RecentPerSecond, time.Duration(0)
	if b.Spec.Ramp != nil {
		rate, wait = b.rampAhead(left, now)
	}
	if limit := float64(b.Spec.RateLimit); limit > 0 {
		rate = min(rate, limit) // it may just have been lowered
	}
	if rate <= 0 || left > 0 && math.IsInf(rate, 1) {
		return time.Time{}, false
	}
	seconds := float64(left)/rate + wait.Seconds()
	if seconds > longestEstimate.Seconds() {
		return time.Time{}, false
	}
	return now.Add(time.Duration(seconds * float64(time.Second))), true
}

// rampAhead is how fast a job with a ramp sends and how long it will yet wait to see
// what comes back. The rate is infinite where only the limit bounds it: the recent
// one also counts the time in which the ramp waited, unless the first step is under
// way or the present one has lasted longer than the recent rate looks back.
//
// The row does not say which step is under way. It follows from what was sent, since
// a step is over when all that it allows was sent, and nothing changes the row until
// the next one.
func (b *BulkRetry) rampAhead(left int64, now time.Time) (rate float64, wait time.Duration) {
	ramp, sent := b.Spec.Ramp, b.Counts.Sent()
	var before, upTo int64 // sent before the present step, and with the one looked at
	for _, step := range ramp.Steps {
		upTo += int64(step)
		switch {
		case upTo > sent+left:
			// The job ends within this step, and does not wait after it.
		case upTo > sent:
			wait += ramp.Wait
		case upTo == sent:
			waited := max(now.Sub(b.UpdatedAt), 0)
			if waited > ramp.Wait+recentSpan {
				return 0, 0 // the next step should have begun
			}
			wait += max(ramp.Wait-waited, 0)
			before = upTo
		default:
			before = upTo
		}
	}
	if before > 0 && float64(sent-before) <= b.RecentPerSecond*recentSpan.Seconds() {
		return math.Inf(1), wait
	}
	return b.RecentPerSecond, wait
}
