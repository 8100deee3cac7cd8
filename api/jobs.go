package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type jobsView struct {
	Jobs       []jobView            `json:"jobs"`
	Pagination cursorPaginationView `json:"pagination"`
}

var jobParameters = []string{"page_size", "cursor", "kind", "topic", "state", "actor", "from", "to"}

func (s *Server) jobs(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.jobs()
	if err := q.err(); err != nil {
		return err
	}
	page, err := scan(ctx, s, true, func() (dlq.PageOf[dlq.Job], error) { return s.guard.Jobs(ctx, wanted) })
	if err != nil {
		return err
	}
	now := time.Now()
	jobs := views(page.Entries, func(j *dlq.Job) jobView { return s.viewJob(j, now) })
	return reply(c, http.StatusOK, jobsView{jobs, pagination(jobList, wanted.PageSize, page.Next)})
}

func (q *query) jobs() dlq.JobQuery {
	wanted := dlq.JobQuery{PageSize: q.number("page_size", defaultPageSize, maxPageSize)}
	wanted.From, wanted.To = q.between()
	wanted.Topic, _ = q.one("topic")
	wanted.Actor, _ = q.one("actor")
	if kind := wordOf(q.body, "kind", dlq.JobKinds); kind != "" {
		wanted.Kinds = []dlq.JobKind{kind}
	}
	if state := wordOf(q.body, "state", dlq.JobStates); state != "" {
		wanted.States = []dlq.JobState{state}
	}
	wanted.After = cursorOf[dlq.Place](q, jobList)
	return wanted
}

func (s *Server) job(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error {
	isVerified := wordOf(q.body, "verified", []string{"true", "false"}) == "true"
	if err := q.err(); err != nil {
		return err
	}
	j, err := s.guard.Job(ctx, id)
	if err != nil {
		return err
	}
	view := s.viewJob(&j, time.Now())
	if view.retryJobFields != nil && isVerified {
		if view.Verified, err = s.verifyBulk(ctx, id); err != nil {
			return err
		}
	}
	return reply(c, http.StatusOK, view)
}

func jobEnded(j *dlq.Job, cause error) error {
	return conflict(fmt.Sprintf("job has already ended: state=%s", j.State), cause)
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
