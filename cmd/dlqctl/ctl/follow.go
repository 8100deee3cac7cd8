package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"dlqmanager/client"
)

// progress is what the bar shows of a job of any kind.
type progress struct {
	client.JobSummary

	Reason       string     `json:"reason"`
	Retried      int64      `json:"retried"`
	Changed      int64      `json:"changed"`
	Failed       int64      `json:"failed"`
	Dead         int64      `json:"dead"`
	Skipped      int64      `json:"skipped"`
	CameBack     int64      `json:"came_back"`
	PerSecond    float64    `json:"per_second"`
	Counting     bool       `json:"counting"`
	EstimatedEnd *time.Time `json:"estimated_end"`
	UpdatedAt    time.Time  `json:"updated_at"`
}

// follow shows a job until it ends.
func (s *session) follow(ctx context.Context, c *client.Client, id string) error {
	show, wipe := s.jsonLines, func() {}
	if terminal(s.Stdout) && s.people() {
		show, wipe = s.bar, func() { fmt.Fprint(s.Stdout, "\r\x1b[K") }
	}
	for {
		ctx, stop := context.WithCancelCause(ctx)
		s.handleInterrupt(func() { stop(errInterrupted) })
		var failed error
		job, err := c.WaitForJob(ctx, id, func(job client.Job) {
			if failed = show(job); failed != nil {
				stop(failed)
			}
		})
		cause := context.Cause(ctx)
		stop(nil)
		if errors.Is(cause, errInterrupted) {
			wipe()
			if err = s.interruptedJob(c, id); err == nil {
				continue // the person goes on watching
			}
			return err
		}
		if err != nil {
			return errors.Join(failed, err)
		}
		return s.ended(job)
	}
}

// ended writes the end of a job.
func (s *session) ended(job client.Job) error {
	last, err := progressOf(job)
	if err != nil {
		return err
	}
	if terminal(s.Stdout) && s.people() {
		fmt.Fprintln(s.Stdout)
	}
	return ending(last)
}

// interruptedJob asks what Ctrl-C means. A nil error means to watch on. Without a terminal the job is left running. A
// second Ctrl-C leaves it running too.
func (s *session) interruptedJob(c *client.Client, id string) error {
	left := outcome{exitInterrupted, "the job goes on; watch it with: dlqctl jobs watch " + id}
	if !terminal(s.Stdin) {
		return left
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.handleInterrupt(stop)
	answers := make(chan string, 1)
	go func() {
		fmt.Fprint(s.Stderr, "The job is running. [l]eave it running, [p]ause it, [c]ancel it, or [w]atch on? ")
		answer, err := s.readLine()
		if err != nil {
			answer = "l"
		}
		answers <- answer
	}()
	var answer string
	select {
	case answer = <-answers:
	case <-ctx.Done():
		fmt.Fprintln(s.Stderr)
		return left
	}
	reason := "asked by Ctrl-C in dlqctl"
	switch strings.ToLower(answer) {
	case "w", "watch":
		return nil
	case "p", "pause":
		if _, err := c.PauseJob(ctx, id, &client.ReasonRequest{Reason: &reason}); err != nil {
			return err
		}
		return outcome{exitInterrupted, "the job is paused; resume it with: dlqctl jobs resume " + id}
	case "c", "cancel":
		if _, err := c.CancelJob(ctx, id, &client.ReasonRequest{Reason: &reason}); err != nil {
			return err
		}
		return outcome{exitInterrupted, "the job is cancelled; its remaining messages stay as they are"}
	}
	return left
}

func progressOf(job client.Job) (progress, error) {
	var now progress
	content, err := job.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(content, &now)
	}
	return now, err
}

// jsonLines writes a job as a line of JSON.
func (s *session) jsonLines(job client.Job) error {
	content, err := job.MarshalJSON() // as it came
	if err != nil {
		return err
	}
	p, err := s.printer(jobsView.one())
	if err != nil {
		return err
	}
	if s.people() {
		p.format = formatJSONL
	}
	if err := p.page(content); err != nil {
		return err
	}
	return p.end()
}

// bar draws the progress of a job over its former one. The width is the terminal's at this moment.
func (s *session) bar(job client.Job) error {
	now, err := progressOf(job)
	if err != nil {
		return err
	}
	width := 80
	if file, ok := s.Stdout.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			width = columns
		}
	}
	_, err = fmt.Fprint(s.Stdout, "\r\x1b[K", barLine(now, width))
	return err
}

// parts names the messages that were not simply done, such as "12 failed".
func (p progress) parts() []string {
	var parts []string
	for _, part := range []struct {
		count int64
		name  string
	}{{p.Failed, "failed"}, {p.Dead, "DEAD"}, {p.Skipped, "skipped"}, {p.CameBack, "came back"}} {
		if part.count > 0 {
			parts = append(parts, thousands(part.count)+" "+part.name)
		}
	}
	return parts
}

// barLine is the line of a job in a width, such as
//
//	retry orders.dlq.v1 [#######-------------] 37% 370 of 1,000, 12 failed, 52/s, 12s left
func barLine(job progress, width int) string {
	done := job.Retried + job.Changed
	if job.Counting {
		return cutTo(fmt.Sprintf("%s %s: counting the messages", job.Kind, job.Topic), width)
	}
	tail := fmt.Sprintf(" %d%% %s of %s", int(job.Progress*100), thousands(done), thousands(job.Matched))
	tail = strings.Join(append([]string{tail}, job.parts()...), ", ")
	switch {
	case job.State != client.JobStateRUNNING:
		tail += ", " + string(job.State)
		if job.Reason != "" {
			tail += ": " + oneLine(job.Reason)
		}
	default:
		if job.PerSecond > 0 {
			tail += fmt.Sprintf(", %.0f/s", job.PerSecond)
		}
		if job.EstimatedEnd != nil {
			if left := job.EstimatedEnd.Sub(job.UpdatedAt).Round(time.Second); left > 0 {
				tail += fmt.Sprintf(", %s left", left)
			}
		}
	}
	head := fmt.Sprintf("%s %s ", job.Kind, oneLine(job.Topic))
	room := width - 1 - len(head) - len(tail) - len("[]")
	if room < 5 { // the numbers matter more than the bar and the name
		head = cutTo(head, max(0, width-len(tail)))
		return cutTo(strings.TrimSpace(head+tail), width)
	}
	room = min(room, 40)
	full := min(room, int(job.Progress*float64(room)))
	return head + "[" + strings.Repeat("#", full) + strings.Repeat("-", room-full) + "]" + tail
}

// cutTo cuts a line so that it does not wrap.
func cutTo(line string, width int) string {
	runes := []rune(line)
	if len(runes) < width {
		return line
	}
	return string(runes[:max(0, width-1)])
}
