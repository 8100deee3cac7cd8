package console

import (
	"cmp"
	"context"
	"slices"
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
		from := time.Now().UTC().Truncate(time.Hour).Add((1 - monthHours) * time.Hour)
		params.From = &from
	}
	list, err := v.api.ListSeries(ctx, &params)
	if err != nil {
		return nil, v.optional(err)
	}
	c := arrivalsChart(v, list.Value, isMonth)
	return &c, ""
}

func arrivalsChart(v *visit, list client.SeriesList, isMonth bool) chart {
	c := chart{ID: "arrivals", From: list.From, Step: time.Hour, Title: v.text("Arrivals of the last 24 hours, by hour")}
	if list.Step == client.SeriesListStepMinute {
		c.Step = time.Minute
	}
	all := make([]line, 0, len(list.Series))
	for _, series := range list.Series {
		points := series.Buckets
		if isMonth {
			points = wider(points, 24)
		}
		all = append(all, line{Name: valueOf(series.DlqTopic), Points: points})
	}
	if isMonth {
		c.Title, c.Step = v.text("Arrivals of the last 30 days, by day"), 24*time.Hour
		c.From = list.To.Add(-time.Duration(stepsOf(all)) * c.Step)
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(b.sum(), a.sum()) })
	c.Series = stacked(all, chartColours, v.text("other topics"))
	return c
}

func stepsOf(lines []line) int { return chart{Series: lines}.steps() }

func (l line) sum() int64 {
	var sum int64
	for _, value := range l.Points {
		sum += value
	}
	return sum
}
