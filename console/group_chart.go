package console

import (
	"context"
	"slices"
	"time"

	"dlqmanager/client"
)

// rangeOf is the time span of the chart: the span that was asked for, or else the span that fits the age of the cause.
func rangeOf(asked string, g client.Group) string {
	switch {
	case slices.Contains([]string{"hour", "hours", "day", "month"}, asked):
		return asked
	case time.Since(g.FirstSeen) < 3*time.Hour: // a column for each hour would be two or three columns
		return "hours"
	default:
		return "day"
	}
}

// arrivalsOf reads the arrivals of a cause. missing says why they could not be read.
func (v *visit) arrivalsOf(ctx context.Context, g client.Group, span string) (series *client.SeriesList, missing string) {
	step, length := client.ListSeriesParamsStepHour, 24*time.Hour
	switch span {
	case "hour":
		step, length = client.ListSeriesParamsStepMinute, time.Hour
	case "hours":
		step, length = client.ListSeriesParamsStepMinute, 3*time.Hour
	case "month":
		length = 31 * 24 * time.Hour
	}
	answer, err := v.api.ListSeries(ctx, &client.ListSeriesParams{Group: &g.ID, Step: &step, From: new(time.Now().Add(-length))})
	if err != nil {
		return nil, v.explain(err)
	}
	return &answer.Value, ""
}

// columnsAtMost is how many columns people can tell apart on a phone.
const columnsAtMost = 128

// courseOf draws the arrivals of a cause with the marks.
func (v *visit) courseOf(arrivals client.SeriesList, marks []mark) *chart {
	step := time.Hour
	if arrivals.Step == client.SeriesListStepMinute {
		step = time.Minute
	}
	count := int(arrivals.To.Sub(arrivals.From) / step)
	c := v.chartOf(arrivals, max(1, (count+columnsAtMost-1)/columnsAtMost))
	c.Title, c.Marks = v.text("Arrivals over time"), marks
	return c
}

// marksOf are the marks of the chart: the decisions about a cause, and a change of its state that nobody asked for.
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
