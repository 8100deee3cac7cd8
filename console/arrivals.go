package console

import (
	"context"
	"time"

	"dlqmanager/client"
)

// span is the time of the chart of arrivals: a day by hours or a month by days.
func (v *visit) span() string {
	if v.URL.Query().Get("span") == "month" {
		return "month"
	}
	return "day"
}

// arrivals makes the chart of the messages that arrived, of one topic or of all.
func (v *visit) arrivals(ctx context.Context, topic string) (*chart, string) {
	params := client.ListSeriesParams{}
	if topic != "" {
		params.Topic = &topic
	}
	isMonth := v.span() == "month"
	if isMonth {
		params.From = new(time.Now().UTC().Truncate(time.Hour).Add((1 - monthHours) * time.Hour))
	}
	list, err := v.api.ListSeries(ctx, &params)
	if err != nil {
		return nil, v.optional(err)
	}
	return arrivalsChart(v, list.Value, isMonth), ""
}

func arrivalsChart(v *visit, list client.SeriesList, isMonth bool) *chart {
	title, wide := v.text("Arrivals of the last 24 hours, by hour"), 1
	if isMonth {
		title, wide = v.text("Arrivals of the last 30 days, by day"), 24
	}
	c := v.chartOf(list, wide)
	c.Title = title
	return c
}

// chartOf draws arrivals. A column is the sum of several steps of the list; wide is their number. The first topics are the
// largest, and each gets a colour.
func (v *visit) chartOf(list client.SeriesList, wide int) *chart {
	c := &chart{ID: "arrivals", Step: time.Hour * time.Duration(wide)}
	if list.Step == client.SeriesListStepMinute {
		c.Step = time.Minute * time.Duration(wide)
	}
	all := make([]line, 0, len(list.Series))
	for _, series := range list.Series {
		name := valueOf(series.DlqTopic)
		if series.DlqTopic == nil {
			name = v.text("other topics")
		}
		all = append(all, line{Name: name, Points: wider(series.Buckets, wide)})
	}
	if len(all) == 0 {
		all = []line{{Points: make([]int64, max(0, (list.To.Sub(list.From)+c.Step-1)/c.Step))}}
	}
	c.Series = stacked(all, chartColours, v.text("other topics"))
	c.From = list.To.Add(-c.Step * time.Duration(c.steps()))
	return c
}
