package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// steer is a change of a running job.
type steer struct {
	// isPossible tells whether the job allows the change.
	isPossible func(job) bool
	// wanted are the states that the change leads to.
	wanted []client.JobState
	call   func(*client.Client, context.Context, string, *client.ReasonRequest, ...client.RequestOption) (*client.Answer[client.Job], error)
}

var (
	pause  = steer{job.CanPause, []client.JobState{client.JobStatePAUSED, client.JobStatePAUSING}, (*client.Client).PauseJob}
	resume = steer{job.CanResume, []client.JobState{client.JobStateRUNNING}, (*client.Client).ResumeJob}
	cancel = steer{job.CanCancel, []client.JobState{client.JobStateCANCELLED, client.JobStateCANCELLING}, (*client.Client).CancelJob}
)

// steered makes the handler of a change. name is the name of the change in the wordings. The handler changes the job of the
// address, unless the job's state has changed since the form was shown. If the job is in a wanted state already, the handler
// says so.
func steered(name string, s steer) handler {
	return func(v *visit) (*answer, error) {
		id := v.PathValue("id")
		back := v.back("/jobs/" + url.PathEscape(id))
		j, err := v.jobOfAddress(false)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(s.wanted, j.State):
			return v.done(back, v.word("steered before", name))
		case string(j.State) != v.PostFormValue("state") || !s.isPossible(j):
			return v.conflict(back, j)
		}
		answer, err := s.call(v.api, v.Context(), id, &client.ReasonRequest{Reason: v.field("reason")})
		if isStatus(err, http.StatusConflict) { // the job has changed between the two calls
			if now, missing := v.jobOfAddress(false); missing == nil {
				j = now
			}
			return v.conflict(back, j)
		}
		if err == nil && answer.Status == http.StatusAccepted {
			return v.done(back, v.word("steered soon", name))
		}
		return v.changed(back, v.word("steered", name), err)
	}
}

// changeRate changes the rate limit of the job of the address, unless another person has changed the limit
// since the form was shown.
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
	limit := int64(0) // an empty field means no limit
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

// conflict tells that the state of a job is not the state in the form. In the list of jobs, the notice stands at the job's row.
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
