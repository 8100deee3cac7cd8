package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dlqmanager/client"
)

// topEvery is the time between two requests to the server.
const topEvery = 2 * time.Second

func (s *session) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Watch groups and jobs on one live screen, and steer the jobs", Args: cobra.NoArgs,
		Long: `Shows the jobs and the largest groups, every two seconds anew. Keys: j and k or the arrows choose a job; p pauses it, r resumes it,
c cancels it after a question; q ends. In a production context the screen only shows: steer with dlqctl jobs.`,
		Example: "  dlqctl top",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, isFile := s.Stdin.(*os.File)
			if !isFile || !terminal(s.Stdin) || !terminal(s.Stdout) {
				return usageError{errors.New("top needs a terminal; elsewhere use dlqctl jobs list and dlqctl groups list")}
			}
			if err := s.connect(); err != nil {
				return err
			}
			former, err := term.MakeRaw(int(in.Fd()))
			if err != nil {
				return err
			}
			defer func() { _ = term.Restore(int(in.Fd()), former) }()
			fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l")       // switches to the alternate screen, and hides the cursor
			defer fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l") // switches back
			return (&top{session: s}).run(cmd.Context())
		},
	}
}

// top is the state of the screen.
type top struct {
	*session

	jobs     []progress
	groups   []client.Group
	selected string // id of the chosen job
	asking   bool   // the screen asks whether to cancel the chosen job
	said     string
	at       time.Time
}

func (t *top) run(ctx context.Context) error {
	keys := make(chan string)
	go func() {
		buffer := make([]byte, 16)
		for {
			n, err := t.Stdin.Read(buffer)
			if err != nil {
				close(keys)
				return
			}
			pressed := []string{string(buffer[:n])} // the bytes of an arrow key arrive in one read
			if buffer[0] != '\x1b' {
				pressed = strings.Split(pressed[0], "") // several typed keys may arrive in one read, too
			}
			for _, key := range pressed {
				keys <- key
			}
		}
	}()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			t.look(ctx)
			look.Reset(topEvery)
		case key, ok := <-keys:
			if !ok || !t.press(ctx, key) {
				return nil
			}
		}
		width, height := t.screen()
		lines := t.lines(width)
		for i := range lines {
			lines[i] = runewidth.Truncate(oneLine(lines[i]), width, "…") + "\x1b[K"
		}
		if _, err := fmt.Fprint(t.out, "\x1b[H", strings.Join(lines[:min(len(lines), height)], "\r\n"), "\x1b[J"); err != nil {
			return err
		}
	}
}

// look asks the server. After an error the screen keeps the earlier jobs and groups.
func (t *top) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*topEvery)
	defer cancel()
	jobs, err := t.client.ListJobs(ctx, nil, client.Query("page_size", "10"))
	var groups *client.Answer[client.GroupList]
	if err == nil {
		groups, err = t.client.ListGroups(ctx, nil, client.Query("sort", "pending"), client.Query("page_size", "50"))
	}
	if err != nil {
		t.said = err.Error()
		return
	}
	t.said, t.at, t.groups, t.jobs = "", time.Now(), groups.Value.Groups, nil
	for _, job := range jobs.Value.Jobs {
		if now, _, err := progressOf(job); err == nil {
			t.jobs = append(t.jobs, now)
		}
	}
	if t.index() < 0 && len(t.jobs) > 0 {
		t.selected = t.jobs[0].ID
	}
}

// index is the index of the selected job in the list. It is -1 if no job is selected.
func (t *top) index() int {
	return slices.IndexFunc(t.jobs, func(job progress) bool { return job.ID == t.selected })
}

// press acts on a key. It returns false if the key ends the screen.
func (t *top) press(ctx context.Context, key string) bool {
	if t.asking {
		t.asking, t.said = false, ""
		if key == "y" {
			t.steer(ctx, "cancelled", cancelJob)
		}
		return true
	}
	i := t.index()
	switch key {
	case "q", "\x1b", "\x03": // in raw mode, Ctrl-C sends no signal
		return false
	case "j", "\x1b[B":
		i++
	case "k", "\x1b[A":
		i--
	case "p", "r", "c":
		switch {
		case t.target.Production:
			t.said = "this is production: steer with dlqctl jobs"
		case i < 0:
			t.said = "there is no job"
		case key == "p":
			t.steer(ctx, "paused", pauseJob)
		case key == "r":
			t.steer(ctx, "resumed", resumeJob)
		default:
			t.asking, t.said = true, "cancel this job? Its remaining messages stay as they are. y or n"
		}
	}
	if i >= 0 && i < len(t.jobs) {
		t.selected = t.jobs[i].ID
	}
	return true
}

func (t *top) steer(ctx context.Context, done string, change change) {
	if _, err := change(ctx, t.client, []string{t.selected}, new("asked in dlqctl top")); err != nil {
		t.said = err.Error()
		return
	}
	t.look(ctx)
	t.said = "the job is " + done
}

// lines are the rows of the screen. A row may be longer than the width of the screen.
func (t *top) lines(width int) []string {
	head := fmt.Sprintf("%s  %s  j k choose, p pause, r resume, c cancel, q end", t.target.Server, t.at.Format(time.TimeOnly))
	lines := []string{head, t.said, "JOBS"}
	for i := range t.jobs {
		mark := "  "
		if t.jobs[i].ID == t.selected {
			mark = "> "
		}
		lines = append(lines, mark+t.jobs[i].ID+"  "+barLine(t.jobs[i], width-len(mark+t.jobs[i].ID)-1))
	}
	if len(t.jobs) == 0 {
		lines = append(lines, "  none")
	}
	lines = append(lines, "", fmt.Sprintf("%10s  %9s  %-5s  %s", "PENDING", "LAST HOUR", "STATE", "GROUP"))
	for i := range t.groups {
		g := &t.groups[i]
		lines = append(lines, fmt.Sprintf("%10s  %9s  %-5s  %s  %s", thousands(g.Counts.PENDING), thousands(valueOf(g.LastHour)), g.State, g.ID, g.Title))
	}
	return lines
}
