package ctl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) jobsCommand() *cobra.Command {
	steer := func(use, short, example string, change change) *cobra.Command {
		return s.changeOne(oneJob, use, short, example, jobsView.one(), change)
	}
	pause := steer("pause ID", "Pause a job", "  dlqctl jobs pause 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the broker is slow\"",
		withReason((*client.Client).PauseJob))
	resume := steer("resume ID", "Resume a paused job", "  dlqctl jobs resume 01a214f0-f92f-7000-a46f-36ccec5081f3", withReason((*client.Client).ResumeJob))
	cancel := steer("cancel ID", "Cancel a job; its remaining messages stay as they are",
		"  dlqctl jobs cancel 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the wrong group\"", withReason((*client.Client).CancelJob))
	var limit int64
	rate := steer("rate ID LIMIT", "Change how many messages a second a retry sends; 0 for no limit",
		"  dlqctl jobs rate 01a214f0-f92f-7000-a46f-36ccec5081f3 50",
		func(cmd *cobra.Command, c *client.Client, args []string, reason *string) ([]byte, error) {
			return body(c.ChangeJob(cmd.Context(), args[0], client.JobChange{RateLimit: limit, Reason: reason}))
		})
	rate.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		if limit, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			return usageError{fmt.Errorf("LIMIT is messages a second, not %q", args[1])}
		}
		return nil
	}
	return group("jobs", "Watch and steer jobs", s.jobsList(), s.jobsGet(), s.watchCommand(), pause, resume, rate, cancel)
}

func (s *session) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Follow a job until it ends", Args: argumentsOf("watch ID"),
		Long: `Follows a job: on a terminal with a bar, elsewhere with the job as a JSON line each time it has changed.
Ctrl-C asks whether to leave the job running, pause it or cancel it. The exit code tells how the job has ended.`,
		Example:           "  dlqctl jobs watch 01a214f0-f92f-7000-a46f-36ccec5081f3",
		ValidArgsFunction: s.arguments(completeJobs),
		RunE: s.showing(jobsView.one(), func(cmd *cobra.Command, args []string, p *printer) error {
			return s.follow(cmd.Context(), named(args)[0], p)
		}),
	}
}

// ending is how a job has ended.
func ending(job progress) error {
	switch {
	case job.State == client.JobStateFAILED:
		return outcome{exitFailed, "the job has failed: " + job.Reason}
	case job.State == client.JobStateCANCELLED:
		return outcome{exitFailed, "the job was cancelled: " + job.Reason}
	case job.Failed+job.Dead+job.CameBack > 0:
		return outcome{exitPartly, "the job is done, and not every message is: " + strings.Join(job.parts(), ", ")}
	}
	return nil
}
