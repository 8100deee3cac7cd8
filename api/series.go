package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type seriesListView struct {
	Step   dlq.Step     `json:"step"`
	From   timestamp    `json:"from"`
	To     timestamp    `json:"to"`
	Series []dlq.Series `json:"series"`
}

func (s *Server) series(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.series()
	if err := q.err(); err != nil {
		return err
	}
	now, err := s.guard.Now(ctx)
	if err != nil {
		return err
	}
	if wanted.Fit(now); wanted.Buckets() == 0 {
		name := "from"
		if wanted := q.instant(name); wanted.IsZero() {
			name = "to"
		}
		q.reject(name, "leaves no bucket that is kept: use a time of the last day for minutes, or of the last 31 days for hours, with from before to")
		return q.err()
	}
	readsAll := wanted.Topic == "" && wanted.Group.IsZero() // reads the counts of all topics
	found, err := scan(ctx, s, readsAll, func() ([]dlq.Series, error) { return s.guard.Series(ctx, wanted) })
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, seriesListView{wanted.Step, timestamp(wanted.From), timestamp(wanted.To), append([]dlq.Series{}, found...)})
}

func (q *query) series() dlq.SeriesQuery {
	return dlq.SeriesQuery{Topic: q.topicName(), Group: q.id("group", "group"),
		Step: cmp.Or(wordOf(q.body, "step", dlq.Steps), dlq.StepHour), From: q.instant("from"), To: q.instant("to")}
}
