package console

import (
	"context"
	"slices"
	"time"

	"dlqmanager/client"
)

// rangeOf is the time of the chart: the one that was asked for, else what fits the age of the cause.
func rangeOf(asked string, g client.Group) string {
	switch {
	case slices.Contains([]string{"hour", "hours", "day", "month"}, asked):
		return asked
	case time.Since(g.FirstSeen) < 3*time.Hour: // hours would be two or three columns
		return "hours"
	default:
		return "day"
	}
}

// arrivalsOf reads the arrivals of a cause; if it cannot, it says why.
func (v *visit) arrivalsOf(ctx context.Context, g client.Group, span string) (series *client.SeriesList, missing string) {
	now := time.Now()
	step, from := client.SeriesListStep("hour"), now.Add(-24*time.Hour)
	switch span {
	case "hour":
		step, from = "minute", now.Add(-time.Hour)
	case "hours":
		step, from = "minute", now.Add(-3*time.Hour)
	case "month":
		from = now.Add(-31 * 24 * time.Hour)
	}
	answer, err := v.api.ListSeries(ctx, &client.ListSeriesParams{Group: &g.ID, Step: (*client.ListSeriesParamsStep)(&step), From: &from})
	if err != nil {
		return nil, v.explain(err)
	}
	return &answer.Value, ""
}

// columnsAtMost is how many columns are told apart on a phone.
const columnsAtMost = 128

// arrivalsChart draws the arrivals, the largest topics apart.
func (v *visit) arrivalsChart(arrivals *client.SeriesList, marks []mark) *chart {
	step := time.Hour
	if arrivals.Step == "minute" {
		step = time.Minute
	}
	count := int(arrivals.To.Sub(arrivals.From) / step)
	wide := max(1, (count+columnsAtMost-1)/columnsAtMost)
	lines := make([]line, 0, len(arrivals.Series))
	for _, one := range arrivals.Series {
		name := valueOf(one.DlqTopic)
		if one.DlqTopic == nil {
			name = v.text("Other topics")
		}
		lines = append(lines, line{Name: name, Points: wider(one.Buckets, wide)})
	}
	if len(lines) == 0 {
		lines = append(lines, line{Points: make([]int64, (count+wide-1)/wide)})
	}
	c := &chart{ID: "arrivals", Title: v.text("Arrivals over time"), Step: step * time.Duration(wide), Marks: marks}
	c.Series = stacked(lines, 5, v.text("Other topics"))
	c.From = arrivals.To.Add(-c.Step * time.Duration(c.steps()))
	return c
}

// marksOf are the decisions about a cause as marks of the chart, and what happened by itself.
func marksOf(v *visit, g client.Group, history []decision) []mark {
	var marks []mark
	for _, one := range history {
		if one.State != "" {
			marks = append(marks, mark{At: one.At, Kind: one.State, Text: v.word("decision", one.State)})
		}
	}
	same := func(m mark) bool { return m.At.Sub(g.StateAt).Abs() < 2*time.Second }
	if g.State == client.GroupStateOpen && g.StateReason == nil || slices.ContainsFunc(marks, same) {
		return marks
	}
	now := mark{At: g.StateAt, Kind: string(g.State), Text: v.word("decision", g.State)}
	if g.RegressedBy != nil {
		now.Kind, now.Text = "warning", v.text("Came back after the fix")
	}
	return append(marks, now)
}
