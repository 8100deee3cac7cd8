package dlq

import "time"

// Step is how long the buckets of a series are.
type Step string

// The steps. Each hour is also counted by itself, so that hours can be kept longer than minutes.
const (
	StepMinute Step = "minute"
	StepHour   Step = "hour"
)

// Steps are all steps.
var Steps = []Step{StepMinute, StepHour}

// Duration is the length of a bucket.
func (s Step) Duration() time.Duration {
	if s == StepMinute {
		return time.Minute
	}
	return time.Hour
}

// Kept is how long buckets are kept.
func (s Step) Kept() time.Duration {
	const day = 24 * time.Hour
	if s == StepMinute {
		return day
	}
	return 31 * day
}

// MaxSeries is how many dead-letter topics have a series of their own in an answer.
const MaxSeries = 20

// SeriesQuery selects arrivals over time. Topic is a dead-letter topic or an original topic.
type SeriesQuery struct {
	Topic  string // empty for all
	Group  ID     // zero for all messages
	Within string // expression for the dead-letter topics; empty for all
	Step   Step
	// From is the beginning of the first bucket, and To the end of the last bucket.
	From, To time.Time
}

// Fit moves the range to whole buckets that are kept at this time and have begun. A zero To stands for
// now, and a zero From for the day before To. The range may be empty then.
func (q *SeriesQuery) Fit(now time.Time) {
	step := q.Step.Duration()
	end := now.Truncate(step).Add(step)
	ceiling := q.To.Add(step - 1).Truncate(step)
	if q.To.IsZero() || ceiling.After(end) {
		ceiling = end
	}
	oldest := now.Add(-q.Step.Kept()).Truncate(step).Add(step)
	from := q.From.Truncate(step)
	if q.From.IsZero() {
		from = ceiling.Add(-24 * time.Hour)
	}
	if from.Before(oldest) {
		from = oldest
	}
	q.From, q.To = from, ceiling
}

// Buckets is how many buckets the range has.
func (q *SeriesQuery) Buckets() int { return max(int(q.To.Sub(q.From)/q.Step.Duration()), 0) }

// Series is how many messages arrived in each bucket of a range.
type Series struct {
	// Topic is the dead-letter topic, or the original topic of messages without a dead-letter topic. Nil
	// stands for all topics that have no series of their own.
	Topic   *string `json:"dlq_topic"`
	Arrived int64   `json:"arrived"` // in all buckets
	Buckets []int64 `json:"buckets"`
}
