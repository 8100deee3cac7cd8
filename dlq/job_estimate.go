package dlq

import (
	"math"
	"time"
)

const (
	// recentWindow is the longest time that RecentPerSecond averages over.
	recentWindow = 10 * time.Second
	// maxEstimate is a hundred years, which a time.Duration can hold; a longer estimate is unknown.
	maxEstimate = 100 * 365 * 24 * time.Hour
)

// EstimatedEnd is when the job would end at its present rate and after the remaining waits of its ramp. The end is
// unknown while the job does not run or still counts its messages, and when nothing was sent recently. Without a rate
// limit, the end is also unknown while the steps of a ramp are too short to show a rate.
func (j *Job) EstimatedEnd(now time.Time) (end time.Time, known bool) {
	left := j.Matched - j.Counts.Done()
	if j.State != JobRunning || j.Counting || left < 0 {
		return time.Time{}, false
	}
	rate, wait := j.RecentPerSecond, time.Duration(0)
	if j.Spec.Ramp != nil {
		rate, wait = j.rampRateAndWait(left, now)
	}
	if limit := float64(j.Spec.RateLimit); limit > 0 {
		rate = min(rate, limit) // the limit may have been lowered since
	}
	if rate <= 0 || left > 0 && math.IsInf(rate, 1) {
		return time.Time{}, false
	}
	seconds := float64(left)/rate + wait.Seconds()
	if seconds > maxEstimate.Seconds() {
		return time.Time{}, false
	}
	return now.Add(time.Duration(seconds * float64(time.Second))), true
}

// rampRateAndWait returns the rate of a job with a ramp and the time that the job has yet to wait after its steps.
// After a wait, the rate is infinite until the present step has lasted longer than recentWindow, because the recent
// rate still includes the wait. Until then, only the rate limit tells how fast the job is.
//
// The job's row does not say which step is under way. A step is over when all its messages are sent. The row does
// not change until the next step, so UpdatedAt is when the wait began.
func (j *Job) rampRateAndWait(left int64, now time.Time) (rate float64, wait time.Duration) {
	ramp, sent := j.Spec.Ramp, j.Counts.Sent()
	var before, upTo int64 // messages sent before the present step, and until the end of the loop's step
	for _, step := range ramp.Steps {
		upTo += int64(step)
		switch {
		case upTo > sent+left:
			// The job ends within this step, and does not wait after it.
		case upTo > sent:
			wait += ramp.Wait
		case upTo == sent:
			waited := max(now.Sub(j.UpdatedAt), 0)
			if waited > ramp.Wait+recentWindow {
				return 0, 0 // the next step is overdue: the rate is unknown
			}
			wait += max(ramp.Wait-waited, 0)
			before = upTo
		default:
			before = upTo
		}
	}
	if before > 0 && float64(sent-before) <= j.RecentPerSecond*recentWindow.Seconds() {
		return math.Inf(1), wait
	}
	return j.RecentPerSecond, wait
}
