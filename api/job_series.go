package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type jobSeriesView struct {
	Points []jobPointView `json:"points"`
}

type jobPointView struct {
	At        timestamp `json:"at"`
	PerSecond float64   `json:"per_second"`
	Retried   int64     `json:"retried"`
	Failed    int64     `json:"failed"`
	Dead      int64     `json:"dead"`
	Changed   int64     `json:"changed"`
	Skipped   int64     `json:"skipped"`
}

func (s *Server) jobSeries(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error {
	if err := q.err(); err != nil {
		return err
	}
	j, err := s.guard.Job(ctx, id)
	if err != nil {
		return err
	}
	samples, err := s.guard.JobSamples(ctx, id)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, viewJobSeries(j.Series(samples)))
}

func viewJobSeries(points []dlq.JobSample) jobSeriesView {
	view := jobSeriesView{make([]jobPointView, 0, len(points))}
	for i := range points {
		p, counts := &points[i], &points[i].Counts
		view.Points = append(view.Points, jobPointView{At: timestamp(p.At), PerSecond: rounded(p.PerSecond(&points[max(i-1, 0)])),
			Retried: counts.Retried, Failed: counts.Failed, Dead: counts.Dead, Changed: counts.Changed, Skipped: counts.Skipped})
	}
	return view
}
