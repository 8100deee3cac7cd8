package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// chaosClient does not reuse connections. On a reused connection to a killed API, the next
// request would fail although the API is running again.
var chaosClient = &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// job is a bulk retry as the API returns it.
type job struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
	RateLimit int    `json:"rate_limit"`
	Matched   int    `json:"matched"`
	Retried   int    `json:"retried"`
	Failed    int    `json:"failed"`
	Dead      int    `json:"dead"`
	Skipped   int    `json:"skipped"`
	CameBack  int    `json:"came_back"`
	Order     string `json:"order"`

	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

func (j *job) live() bool { return isLive(j.State) }

// isLive reports whether a bulk retry in this state has not ended.
func isLive(state string) bool {
	return slices.Contains([]string{"RUNNING", "PAUSING", "PAUSED", "CANCELLING"}, state)
}

// isPaused is also true for PAUSING, since a claimed page may delay PAUSED for long.
func (j *job) isPaused() bool { return j.State == "PAUSED" || j.State == "PAUSING" }

// operate gives commands, one after the other, until ctx ends.
func (c *chaos) operate(ctx context.Context) {
	for ctx.Err() == nil {
		var (
			topic   = chaosTopics[c.operatorDice.IntN(len(chaosTopics))]
			choice  = c.operatorDice.IntN(100)
			command = c.operatorDice.IntN(100)
			number  = c.operatorDice.IntN(1 << 30)
			rest    = between(c.operatorDice, 50*time.Millisecond, 700*time.Millisecond)
		)
		if choice < 15 {
			c.retryOne(ctx, topic, number)
		} else {
			c.steerTopic(ctx, topic, command, number)
		}
		pause(ctx, rest)
	}
}

func (c *chaos) steerTopic(ctx context.Context, topic chaosTopic, command, number int) {
	running, known := c.liveJob(ctx, topic.dlq)
	switch {
	case known && running == nil && command < 40:
		c.startJob(ctx, topic, command, number)
	case known && running == nil: // the operator waits for more arrivals, so that the next job has messages
	case running == nil: // the API does not tell whether a job runs; the last known job may have ended
		if id := c.lastJob[topic.dlq]; id != "" {
			c.steer(ctx, id, []string{"pause", "resume", "cancel", "rate"}[number%4], number)
		}
	case running.isPaused() && command < 70:
		c.steer(ctx, running.ID, "resume", number)
	case running.isPaused() && command < 80:
		c.steer(ctx, running.ID, "cancel", number)
	case command < 30:
		c.steer(ctx, running.ID, "pause", number)
	case command < 65:
		c.steer(ctx, running.ID, "rate", number)
	case command < 75:
		c.steer(ctx, running.ID, "cancel", number)
	case command < 85:
		c.steer(ctx, running.ID, "resume", number) // although the job is not paused
	default:
		c.startJob(ctx, topic, command, number) // joins the running job, or is refused
	}
}

var chaosRates = []int{0, 150, 300, 600, 600, 1200}

func (c *chaos) startJob(ctx context.Context, topic chaosTopic, command, number int) {
	order := "key"
	if number%5 == 0 {
		order = "none"
	}
	answer := c.ask(ctx, "start", http.MethodPost, "/api/v1/jobs", map[string]any{
		"kind": "retry", "topic": topic.dlq, "rate_limit": chaosRates[command%len(chaosRates)], "order": order, "reason": "chaos",
	})
	var started job
	if answer.ok() && json.Unmarshal(answer.body, &started) == nil {
		c.lastJob[topic.dlq] = started.ID
	}
}

// steer gives a command to a job.
func (c *chaos) steer(ctx context.Context, id, command string, number int) {
	path := "/api/v1/jobs/" + id
	switch command {
	case "rate":
		c.ask(ctx, "rate", http.MethodPatch, path, map[string]any{"rate_limit": chaosRates[number%len(chaosRates)]})
	case "pause":
		c.ask(ctx, "pause", http.MethodPost, path+"/pause", map[string]any{"reason": fmt.Sprintf("chaos %d", number)})
	default:
		c.ask(ctx, command, http.MethodPost, path+"/"+command, nil)
	}
}

// retryOne retries a single message, even if a job may also send it.
func (c *chaos) retryOne(ctx context.Context, topic chaosTopic, number int) {
	answer := c.ask(ctx, "list", http.MethodGet, "/api/v1/dlq/"+topic.dlq+"?status=PENDING&page_size=50", nil)
	var page struct {
		Messages []struct {
			ID string `json:"id"`
		} `json:"messages"`
	}
	if !answer.ok() || json.Unmarshal(answer.body, &page) != nil || len(page.Messages) == 0 {
		return
	}
	c.singles.Add(1)
	c.askRetry(ctx, "retry one", page.Messages[number%len(page.Messages)].ID)
}

// askRetry asks for a single retry. From then on the proof does not judge the order of this message.
func (c *chaos) askRetry(ctx context.Context, what, id string) chaosAnswer {
	c.hands.single(id)
	return c.ask(ctx, what, http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil)
}

// liveJob returns the topic's job that has not ended; nil if there is none. known is false if the API does not answer.
func (c *chaos) liveJob(ctx context.Context, topic string) (live *job, known bool) {
	jobs, known := c.jobs(ctx)
	if i := slices.IndexFunc(jobs, func(j job) bool { return j.Topic == topic && j.live() }); i >= 0 {
		return &jobs[i], true
	}
	return nil, known
}

func (c *chaos) jobs(ctx context.Context) (jobs []job, known bool) {
	answer := c.ask(ctx, "jobs", http.MethodGet, "/api/v1/jobs?kind=retry&page_size=50", nil)
	var list struct {
		Jobs *[]job `json:"jobs"`
	}
	if !answer.ok() || json.Unmarshal(answer.body, &list) != nil {
		return nil, false
	}
	if list.Jobs == nil {
		c.journal.violate("the list of jobs has no jobs: %s", answer.body)
		return nil, false
	}
	return *list.Jobs, true
}

type chaosAnswer struct {
	status int
	body   []byte
}

func (a *chaosAnswer) ok() bool { return a.status == http.StatusOK || a.status == http.StatusAccepted }

// ask calls the API. The answer must have status 200, 202, 409 or 503. After a restore of the database it
// may also be a 404. While the API is down there may be no answer. Any other answer is a violation.
func (c *chaos) ask(ctx context.Context, what, method, path string, body any) chaosAnswer {
	started := time.Now()
	text := []byte(nil)
	if body != nil {
		text, _ = json.Marshal(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.api.address+path, bytes.NewReader(text))
	if err != nil {
		c.journal.violate("%s: %v", what, err)
		return chaosAnswer{}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Prefer", "respond-async")
	answer := chaosAnswer{}
	response, err := chaosClient.Do(request)
	if err == nil {
		answer.status = response.StatusCode
		answer.body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	took := time.Since(started).Round(time.Millisecond)
	if ctx.Err() != nil {
		return chaosAnswer{}
	}
	if err != nil {
		c.journal.count("command: " + what + ": no answer")
		c.journal.note("%s %s: %v, after %s", method, path, err, took)
		if !c.api.wasDown(started) {
			c.journal.violate("%s %s: the API runs and gave no answer in %s: %v", method, path, took, err)
		}
		return chaosAnswer{}
	}
	c.journal.count(fmt.Sprintf("command: %s: %d", what, answer.status))
	if method != http.MethodGet || !answer.ok() {
		c.journal.note("%s %s %s: %d after %s %s", method, path, text, answer.status, took, shortened(answer.body))
	}
	switch answer.status {
	case http.StatusOK, http.StatusAccepted, http.StatusConflict, http.StatusServiceUnavailable:
	default:
		if answer.status == http.StatusNotFound && c.restored.Load() {
			break // the restore has forgotten the job or the message
		}
		c.journal.violate("%s %s: %d %s", method, path, answer.status, answer.body)
	}
	return answer
}

// shortened is the text of an answer for the journal.
func shortened(body []byte) string {
	const most = 200
	var j job
	if json.Unmarshal(body, &j) == nil && j.State != "" {
		return fmt.Sprintf("%s of %s: %s %q, %d/s, %d matched, %d retried, %d failed, %d skipped", j.ID, j.Topic, j.State, j.Reason,
			j.RateLimit, j.Matched, j.Retried, j.Failed, j.Skipped)
	}
	text := string(bytes.TrimSpace(body))
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
