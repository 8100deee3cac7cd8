package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// steer changes a running job. It tells what it did, or that the wish was fulfilled before.
type steer struct {
	// isPossible tells whether a job can be steered so, isDone whether it is so already.
	isPossible, isDone func(job) bool
	call               func(context.Context, *client.Client, string, *string) (*client.Answer[client.Job], error)
	// done and soon are said when the change is in effect and when it will be, already when it was before.
	done, soon, already func(*visit) string
}

func (v *visit) pauseJob() (*answer, error) {
	return v.steer(steer{
		isPossible: job.CanPause,
		isDone:     func(j job) bool { return j.State == client.JobStatePAUSED || j.State == client.JobStatePAUSING },
		call: func(ctx context.Context, c *client.Client, id string, reason *string) (*client.Answer[client.Job], error) {
			return c.PauseJob(ctx, id, &client.ReasonRequest{Reason: reason})
		},
		done:    func(v *visit) string { return v.text("The job is paused. Nothing is sent until somebody resumes it.") },
		soon:    func(v *visit) string { return v.text("The job pauses: its current pages are finished first.") },
		already: func(v *visit) string { return v.text("The job is paused already.") },
	})
}

func (v *visit) resumeJob() (*answer, error) {
	return v.steer(steer{
		isPossible: job.CanResume,
		isDone:     func(j job) bool { return j.State == client.JobStateRUNNING },
		call: func(ctx context.Context, c *client.Client, id string, reason *string) (*client.Answer[client.Job], error) {
			return c.ResumeJob(ctx, id, &client.ReasonRequest{Reason: reason})
		},
		done:    func(v *visit) string { return v.text("The job runs again.") },
		soon:    func(v *visit) string { return v.text("The job will run again in a moment.") },
		already: func(v *visit) string { return v.text("The job runs already.") },
	})
}

func (v *visit) cancelJob() (*answer, error) {
	return v.steer(steer{
		isPossible: job.CanCancel,
		isDone:     func(j job) bool { return j.State == client.JobStateCANCELLED || j.State == client.JobStateCANCELLING },
		call: func(ctx context.Context, c *client.Client, id string, reason *string) (*client.Answer[client.Job], error) {
			return c.CancelJob(ctx, id, &client.ReasonRequest{Reason: reason})
		},
		done: func(v *visit) string {
			return v.text("The job is cancelled. The messages that it had not reached stay as they are.")
		},
		soon: func(v *visit) string {
			return v.text("The job will end in a moment: its current pages are finished first.")
		},
		already: func(v *visit) string { return v.text("The job is cancelled already.") },
	})
}

// steer changes the job of the address, unless its state has changed since the form was shown.
func (v *visit) steer(s steer) (*answer, error) {
	id := v.PathValue("id")
	back := v.back("/jobs/" + url.PathEscape(id))
	j, err := v.jobOfAddress(false)
	switch {
	case err != nil:
		return nil, err
	case s.isDone(j):
		return v.done(back, s.already(v))
	case string(j.State) != v.PostFormValue("state") || !s.isPossible(j):
		return v.conflict(back, j)
	}
	answer, err := s.call(v.Context(), v.api, id, v.field("reason"))
	if isStatus(err, http.StatusConflict) { // it ended between the two calls
		if now, missing := v.jobOfAddress(false); missing == nil {
			j = now
		}
		return v.conflict(back, j)
	}
	if err != nil {
		return v.refused(back, err)
	}
	if answer.Status == http.StatusAccepted {
		return v.done(back, s.soon(v))
	}
	return v.done(back, s.done(v))
}

// changeRate changes the rate limit of the job of the address, unless another person has changed it since.
func (v *visit) changeRate() (*answer, error) {
	id := v.PathValue("id")
	back := v.back("/jobs/" + url.PathEscape(id))
	j, err := v.jobOfAddress(false)
	if err != nil {
		return nil, err
	}
	if !j.CanChangeRate() {
		return v.conflict(back, j)
	}
	if seen := v.PostFormValue("seen"); seen != strconv.FormatInt(j.RateLimit, 10) {
		return v.refusedAs(back, v.text("The limit was changed meanwhile: it is %s now. Nothing was changed.", v.limitWords(j.RateLimit)))
	}
	limit := int64(0) // an empty field is no limit
	if text := strings.TrimSpace(v.PostFormValue("rate_limit")); text != "" {
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil {
			return v.refusedAs(back, v.text("“%s” is no whole number of messages per second.", text))
		}
	}
	_, err = v.api.ChangeJob(v.Context(), id, client.JobChange{RateLimit: limit, Reason: v.field("reason")})
	return v.changed(back, v.text("The limit is %s now.", v.limitWords(limit)), err)
}

func (v *visit) limitWords(limit int64) string {
	if limit == 0 {
		return v.text("no limit")
	}
	return v.text("%d per second", limit)
}

// conflict tells that a job is in another state than the form showed. In the list the notice stands beside its row.
func (v *visit) conflict(back string, j job) (*answer, error) {
	if pathOf(back) == "/jobs" {
		to, err := url.Parse(back)
		if err != nil {
			return nil, err
		}
		query := to.Query()
		query.Set("conflict", j.ID)
		return goTo("/jobs?" + query.Encode() + "#j-" + j.ID)
	}
	return v.refusedAs(back, v.text("The job has changed since this page was shown: it is %s now. Nothing was changed.", j.State))
}
