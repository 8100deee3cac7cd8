package dlq

import "time"

const (
	// SampleInterval is the shortest time between two samples of a job.
	SampleInterval = 5 * time.Second
	// MaxSamples is how many samples of a job are kept. A chart has fewer columns.
	MaxSamples = 128
	// leastGap is the shortest time between points of a series, so that a single page does not look like a high rate.
	leastGap = time.Second
)

// JobSample is the counts of a job at a time.
type JobSample struct {
	At     time.Time
	Counts JobCounts
}

// SampleTick returns the tick of a sample: the age of the job in units of SampleInterval. Only the newest three samples,
// and the samples whose tick is a multiple of step, are kept. The step doubles with the age, so there are never more than
// MaxSamples.
func SampleTick(age time.Duration) (tick, step int64) {
	tick, step = max(int64(age/SampleInterval), 0), 1
	for tick/step >= MaxSamples-3 {
		step *= 2
	}
	return tick, step
}

// Series returns the counts of the job over time: first zero at its start, then the samples, which are in the order of time,
// and last the present counts. If the job has ended, the time of the last counts is its end.
func (j *Job) Series(samples []JobSample) []JobSample {
	hasEnded, last := j.EndedAt != nil, JobSample{j.UpdatedAt, j.Counts}
	if hasEnded {
		last.At = *j.EndedAt
	}
	points := []JobSample{{At: j.StartedAt}}
	isAfter := func(at time.Time) bool { return at.Sub(points[len(points)-1].At) >= leastGap }
	for _, sample := range samples {
		// A sample may have been taken while the job ended.
		if isAfter(sample.At) && (!hasEnded || last.At.Sub(sample.At) >= leastGap) {
			points = append(points, sample)
		}
	}
	if hasEnded || isAfter(last.At) {
		points = append(points, last)
	}
	return points
}

// PerSecond is how many messages per second were sent or changed since an earlier sample.
func (s *JobSample) PerSecond(earlier *JobSample) float64 {
	elapsed := s.At.Sub(earlier.At).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return max(0, float64(s.Counts.Sent()-earlier.Counts.Sent())/elapsed)
}
