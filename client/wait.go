package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// JobSummary has the fields that jobs of every kind have.
type JobSummary struct {
	ID       string   `json:"id"`
	Kind     JobKind  `json:"kind"`
	Topic    string   `json:"topic"`
	State    JobState `json:"state"`
	Reason   *string  `json:"reason"`
	Matched  int64    `json:"matched"`
	Progress float64  `json:"progress"`
}

// Ended tells whether the state is final.
func (s JobSummary) Ended() bool {
	return s.State == JobStateCOMPLETED || s.State == JobStateCANCELLED || s.State == JobStateFAILED
}

// Summary returns the fields that jobs of every kind have.
func (t Job) Summary() (JobSummary, error) {
	var summary JobSummary
	err := json.Unmarshal(t.union, &summary)
	return summary, err
}

// RunJob starts a job, or joins the running job for the same work, and waits for its end. seen, which may be nil, gets the
// job after each change. When ctx ends, RunJob returns and the job continues. Once the job is started, RunJob outlasts an
// outage of the server as Follow does.
func (c *Client) RunJob(ctx context.Context, start JobStart, seen func(Job)) (Job, error) {
	prefer := "respond-async"
	answer, err := c.CreateJob(ctx, &CreateJobParams{Prefer: &prefer}, start)
	if err != nil {
		return Job{}, err
	}
	if answer.Status == http.StatusOK || answer.Location() == "" {
		if seen != nil {
			seen(answer.Value)
		}
		return answer.Value, nil
	}
	return Follow(ctx, c, answer.Location(), jobEnded, seen)
}

// WaitForJob waits for the end of a job as RunJob does.
func (c *Client) WaitForJob(ctx context.Context, id string, seen func(Job)) (Job, error) {
	return Follow(ctx, c, "/api/v1/jobs/"+url.PathEscape(id), jobEnded, seen)
}

func jobEnded(job Job) (bool, error) {
	summary, err := job.Summary()
	return summary.Ended(), err
}

// Follow polls the Location of an answer until ended returns true or an error, or ctx ends. The server sends an answer
// only if it has changed. seen, which may be nil, gets each changed answer. While the server is unreachable or unavailable,
// Follow continues regardless of Config.Retries, and tells Config.Unreachable.
func Follow[T any](ctx context.Context, c *Client, location string, ended func(T) (bool, error), seen func(T)) (T, error) {
	var last T
	path, err := c.pathOf(location)
	if err != nil {
		return last, err
	}
	tag, isKnown := "", false
	for {
		r := newRequest(http.MethodGet, path)
		r.isPoll, r.isKnown = true, isKnown
		if tag != "" {
			r.header.Set("If-None-Match", tag)
		}
		answer, err := send[T](ctx, c, r, nil)
		if err != nil {
			return last, err
		}
		isKnown = true
		if !answer.NotModified() {
			last, tag = answer.Value, answer.ETag()
			if seen != nil {
				seen(last)
			}
			if done, err := ended(last); done || err != nil {
				return last, err
			}
		}
		if err := sleep(ctx, c.config.PollEvery); err != nil {
			return last, err
		}
	}
}

// pathOf returns the path of a location below the server's address. It refuses other servers, which must not get the token.
func (c *Client) pathOf(location string) (string, error) {
	to, err := url.Parse(location)
	if err != nil {
		return "", fmt.Errorf("the location of an answer: %w", err)
	}
	if to.Host != "" && to.Host != c.server.Host || !strings.HasPrefix(to.Path, "/") || to.RawQuery != "" {
		return "", fmt.Errorf("the answer names %q as its location, which is no path of the server", location)
	}
	return strings.TrimPrefix(to.EscapedPath(), c.server.EscapedPath()), nil
}
