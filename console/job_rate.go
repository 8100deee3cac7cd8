package console

import (
	"context"
	"math"
	"slices"
	"time"

	"dlqmanager/client"
)

// rateSteps are the possible durations of a column in the chart of a job. The server samples a job no more often than the
// shortest duration. For a job that runs for months, rateChart doubles the longest duration.
var rateSteps = []time.Duration{
	5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// rateColumns is how many columns the chart of a job has at most. The server keeps at least 64 points of a long job, so each
// column has a point.
const rateColumns = 60

// seriesOfAddress reads the counts over time of the job of the address. missing says why they could not be read.
func (v *visit) seriesOfAddress(ctx context.Context) (points []client.JobPoint, missing string) {
	answer, err := v.api.GetJobSeries(ctx, v.PathValue("id"), nil)
	if err != nil {
		return nil, v.optional(err)
	}
	return answer.Value.Points, ""
}

// rateChart draws how many messages a job has sent or changed in each step of its time. While the job runs, the last step is
// left out until it is complete, since it would look like a drop. The result is nil if there are too few steps to compare.
func (v *visit) rateChart(j job, points []client.JobPoint) *chart {
	if len(points) == 0 {
		return nil
	}
	from, last := points[0].At.Truncate(time.Second), points[len(points)-1].At
	step := rateSteps[0]
	for i := 1; last.Sub(from)/rateColumns >= step; i++ {
		if step *= 2; i < len(rateSteps) {
			step = rateSteps[i]
		}
	}
	count := int(last.Sub(from) / step)
	if j.Ended() && from.Add(time.Duration(count)*step).Before(last) {
		count++
	}
	if count < 2 {
		return nil
	}
	stepped := func(value func(client.JobPoint) int64) []int64 { return perStep(points, from, step, count, value) }
	c := &chart{ID: "rate", From: from, Step: step}
	if !j.IsRetry() {
		c.Title = v.text("Messages changed in each %s", v.language.duration(step))
		c.Series = []line{{Name: v.text("changed"), Class: 3, Points: stepped(func(p client.JobPoint) int64 { return p.Changed })}}
		return c
	}
	c.Title = v.text("Messages sent in each %s", v.language.duration(step))
	c.Series = []line{{Name: v.text("sent"), Class: 1, Points: stepped(func(p client.JobPoint) int64 { return p.Retried })}}
	failed := line{Name: v.text("not delivered"), Class: 2, Points: stepped(func(p client.JobPoint) int64 { return p.Failed + p.Dead })}
	if slices.Max(failed.Points) > 0 {
		c.Series = append(c.Series, failed)
	}
	return c
}

// chartText describes the chart: its title, and the speed of the job in the step with the most messages.
func (v *visit) chartText(c *chart) string {
	return v.text("%s; at its fastest %s per second", c.Title, v.rate(float64(c.Peak().Sum)/c.Step.Seconds()))
}

// perStep returns the growth of a count in each step. It assumes that the count grows evenly between two points.
func perStep(points []client.JobPoint, from time.Time, step time.Duration, count int, value func(client.JobPoint) int64) []int64 {
	steps, before, next := make([]int64, count), value(points[0]), min(1, len(points)-1)
	for i := range steps {
		end := from.Add(time.Duration(i+1) * step)
		for next < len(points)-1 && points[next].At.Before(end) {
			next++
		}
		a, b, share := points[max(next-1, 0)], points[next], 1.0
		if end.Before(b.At) {
			share = max(0, float64(end.Sub(a.At))/float64(b.At.Sub(a.At)))
		}
		now := value(a) + int64(math.Round(share*float64(value(b)-value(a))))
		steps[i], before = max(now-before, 0), max(now, before)
	}
	return steps
}
