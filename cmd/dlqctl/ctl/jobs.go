package ctl

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

var jobsView = view{noun: "jobs", list: "jobs", sample: client.RetryJob{}, more: []any{client.ChangeJob{}}, columns: []column{
	{"ID", "id"}, {"KIND", "kind"}, {"TOPIC", "topic"}, {"STATE", "state"}, {"PROGRESS", "progress"}, {"MATCHED", "matched"},
	{"FAILED", "failed"}, {"STARTED", "started_at"},
}, wide: []column{{"ENDED", "ended_at"}, {"REASON", "reason"}, {"REQUEST REASON", "request_reason"}, {"RATE", "rate_limit"}, {"CAME BACK", "came_back"}}}

var (
	pauseJob  = withReason((*client.Client).PauseJob)
	resumeJob = withReason((*client.Client).ResumeJob)
	cancelJob = withReason((*client.Client).CancelJob)
)

func (s *session) jobsCommand() *cobra.Command {
	list := s.listCommand("list", "List jobs of all kinds, the newest first", "  dlqctl jobs list --state RUNNING", jobsView,
		listOf((*client.Client).ListJobs), false,
		option{"kind", "kind: retry, revive, dead, delete, restore", fixed(kinds...)},
		option{"topic", "only jobs of this topic", completeTopics},
		option{"state", "state, such as RUNNING", fixed("RUNNING", "PAUSING", "PAUSED", "CANCELLING", "CANCELLED", "COMPLETED", "FAILED")},
		option{"actor", "only jobs that this person started", nil}, option{"from", "started at this time or later", nil},
		option{"to", "started before this time", nil})
	var verified bool
	get := s.getCommand("get ID", "Show a job", "  dlqctl jobs get 01a214f0-f92f-7000-a46f-36ccec5081f3", jobsView.one(),
		func(ctx context.Context, c *client.Client, args []string, options ...client.RequestOption) ([]byte, error) {
			if verified {
				options = append(options, client.Query("verified", "true"))
			}
			return body(c.GetJob(ctx, args[0], nil, options...))
		})
	get.Flags().BoolVar(&verified, "verified", false, "count the delivered messages that a consumer got past")
	get.ValidArgsFunction = s.arguments(completeJobs)
	steer := func(use, short, example string, change change) *cobra.Command {
		return s.changeOne(oneJob, use, short, example, jobsView.one(), change)
	}
	pause := steer("pause ID", "Pause a job", "  dlqctl jobs pause 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the broker is slow\"",
		pauseJob)
	resume := steer("resume ID", "Resume a paused job", "  dlqctl jobs resume 01a214f0-f92f-7000-a46f-36ccec5081f3", resumeJob)
	cancel := steer("cancel ID", "Cancel a job; its remaining messages stay as they are",
		"  dlqctl jobs cancel 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the wrong group\"", cancelJob)
	var limit int64
	rate := steer("rate ID LIMIT", "Change how many messages a second a retry sends; 0 for no limit",
		"  dlqctl jobs rate 01a214f0-f92f-7000-a46f-36ccec5081f3 50",
		func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
			return body(c.ChangeJob(ctx, args[0], client.JobChange{RateLimit: limit, Reason: reason}))
		})
	rate.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		if limit, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			return usageError{fmt.Errorf("LIMIT is messages a second, not %q", args[1])}
		}
		return nil
	}
	return group("jobs", "Watch and steer jobs", list, get, s.watchCommand(), pause, resume, rate, cancel)
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

// ending is the error of a job that has ended. It is nil if no message failed, became DEAD or came back.
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
