package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"dlqmanager/client"
)

// progress has the fields that the bar shows, for a job of any kind.
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

// follow shows a job until it ends. On a terminal it shows a progress bar. Otherwise it writes each answer through p.
func (s *session) follow(ctx context.Context, id string, p *printer) error {
	show := func(_ progress, answer []byte) error { return p.one(ctx, answer) }
	if terminal(s.Stdout) && s.people() {
		show = func(job progress, _ []byte) error { return s.bar(job) }
	} else if p.isTable() {
		p.format = formatJSONL
	}
	for {
		looking, stop := context.WithCancelCause(ctx)
		s.handleInterrupt(func() { stop(errInterrupted) })
		var last progress
		var failed error
		_, err := s.client.WaitForJob(looking, id, func(job client.Job) {
			var answer []byte
			if last, answer, failed = progressOf(job); failed == nil {
				failed = show(last, answer)
			}
			if failed != nil {
				stop(failed)
			}
		})
		stop(nil)
		switch {
		case err == nil && failed == nil:
			s.endLine()
			return ending(last)
		case failed == nil && ctx.Err() == nil && errors.Is(context.Cause(looking), errInterrupted):
			if err = s.interruptedJob(ctx, id); err == nil {
				continue // the person wants to go on watching
			}
			return err
		case last.ID != "" && !last.Ended():
			s.note("dlqctl: " + goesOn(id))
		}
		return cmp.Or(failed, err)
	}
}

// progressOf reads a job. It also returns the bytes of the answer.
func progressOf(job client.Job) (now progress, answer []byte, err error) {
	if answer, err = job.MarshalJSON(); err == nil {
		err = json.Unmarshal(answer, &now)
	}
	return now, answer, err
}

func goesOn(id string) string { return "the job goes on; watch it with: dlqctl jobs watch " + id }

// interruptedJob asks after Ctrl-C what to do with the job. A nil error means to go on watching. The job is left running if
// nobody can be asked, and after a second Ctrl-C.
func (s *session) interruptedJob(ctx context.Context, id string) error {
	left := outcome{exitInterrupted, goesOn(id)}
	if !s.canAsk() {
		return left
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.handleInterrupt(func() { stop(errInterrupted) })
	answer, err := s.ask(ctx, "The job goes on meanwhile. [l]eave it running, [p]ause it, [c]ancel it, or [w]atch on? ")
	steer, done, verb := pauseJob, left, ""
	switch strings.ToLower(answer) {
	case "w", "watch":
		return nil
	case "p", "pause":
		verb, done.text = "pause", "the job is paused; resume it with: dlqctl jobs resume "+id
	case "c", "cancel":
		steer, verb, done.text = cancelJob, "cancel", "the job is cancelled; its remaining messages stay as they are"
	}
	if verb != "" {
		err = s.confirmOne(ctx, oneJob, id, verb)
	}
	switch {
	case errors.Is(err, errInterrupted):
		return left
	case err != nil:
		s.note("dlqctl: " + goesOn(id))
		return err
	case verb == "":
		return left
	}
	if _, err := steer(ctx, s.client, []string{id}, new("asked by Ctrl-C in dlqctl")); err != nil {
		return s.doubt(err, oneJob.show, id)
	}
	return done
}

// bar draws the progress of a job over the bar before.
func (s *session) bar(now progress) error {
	s.drawn = true
	width, _ := s.screen()
	_, err := fmt.Fprint(s.out, "\r\x1b[K", barLine(now, width))
	return err
}

// screen is the current width and height of the terminal, in characters.
func (s *session) screen() (width, height int) {
	if file, ok := s.Stdout.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// parts counts the messages that failed, were skipped or came back, such as "12 failed".
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

// barLine is the line of a job, cut to a width, such as
//
//	retry orders.dlq.v1 [#######-------------] 37% 370 of 1,000, 12 failed, 52/s, 12s left
func barLine(job progress, width int) string {
	if job.Counting {
		return cutTo(fmt.Sprintf("%s %s: counting the messages", job.Kind, oneLine(job.Topic)), width)
	}
	tail := fmt.Sprintf(" %d%% %s of %s", int(job.Progress*100), thousands(job.Retried+job.Changed), thousands(job.Matched))
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
	room := width - 1 - len(head) - runewidth.StringWidth(tail) - len("[]")
	if room < 5 { // the numbers matter most: leave out the bar, and cut the name
		head = cutTo(head, max(0, width-runewidth.StringWidth(tail)))
		return cutTo(strings.TrimSpace(head+tail), width)
	}
	room = min(room, 40)
	full := max(0, min(room, int(job.Progress*float64(room))))
	return head + "[" + strings.Repeat("#", full) + strings.Repeat("-", room-full) + "]" + tail
}

// cutTo cuts a line so that the terminal does not wrap it.
func cutTo(line string, width int) string {
	return runewidth.Truncate(line, max(0, width-1), "")
}
