package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type jobPointView struct {
	At        timestamp `json:"at"`
	PerSecond float64   `json:"per_second"`
	Retried   int64     `json:"retried"`
	Failed    int64     `json:"failed"`
	Dead      int64     `json:"dead"`
	Changed   int64     `json:"changed"`
	Skipped   int64     `json:"skipped"`
}

func (s *Server) jobSeries(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	j, err := s.guard.Job(ctx, id)
	if err != nil {
		return err
	}
	samples, err := s.guard.JobSamples(ctx, id)
	if err != nil {
		return err
	}
	points := j.Series(samples)
	shown := make([]jobPointView, len(points))
	for i := range points {
		p, counts := &points[i], &points[i].Counts
		shown[i] = jobPointView{At: timestamp(p.At), PerSecond: rounded(p.PerSecond(&points[max(i-1, 0)])),
			Retried: counts.Retried, Failed: counts.Failed, Dead: counts.Dead, Changed: counts.Changed, Skipped: counts.Skipped}
	}
	return reply(c, http.StatusOK, map[string][]jobPointView{"points": shown})
}
