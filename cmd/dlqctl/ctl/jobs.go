package ctl

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

func (s *session) jobsCommand() *cobra.Command {
	pause := s.steerCommand("pause ID", "Pause a job", "  dlqctl jobs pause 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the broker is slow\"",
		func(ctx context.Context, c *client.Client, id string, reason *string) ([]byte, error) {
			return body(c.PauseJob(ctx, id, &client.ReasonRequest{Reason: reason}))
		})
	resume := s.steerCommand("resume ID", "Resume a paused job", "  dlqctl jobs resume 01a214f0-f92f-7000-a46f-36ccec5081f3",
		func(ctx context.Context, c *client.Client, id string, reason *string) ([]byte, error) {
			return body(c.ResumeJob(ctx, id, &client.ReasonRequest{Reason: reason}))
		})
	cancel := s.steerCommand("cancel ID", "Cancel a job; its remaining messages stay as they are",
		"  dlqctl jobs cancel 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason \"the wrong group\"",
		func(ctx context.Context, c *client.Client, id string, reason *string) ([]byte, error) {
			return body(c.CancelJob(ctx, id, &client.ReasonRequest{Reason: reason}))
		})
	return group("jobs", "Watch and steer jobs", s.jobsList(), s.jobsGet(), s.watchCommand(), pause, resume, s.rateCommand(), cancel)
}

// steerCommand makes a command that steers one job.
func (s *session) steerCommand(use, short, example string, steer changeOne) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: argumentsOf(use), ValidArgsFunction: s.firstArgument(completeJobs)}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.steer(cmd, named(args)[0], func(c *client.Client, id string) ([]byte, error) {
			return steer(cmd.Context(), c, id, given(reason))
		})
	}
	return cmd
}

func (s *session) rateCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "rate ID LIMIT", Short: "Change how many messages a second a retry sends; 0 for no limit", Args: argumentsOf("rate ID LIMIT"),
		Example:           "  dlqctl jobs rate 01a214f0-f92f-7000-a46f-36ccec5081f3 50",
		ValidArgsFunction: s.firstArgument(completeJobs),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limit, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return usageError{fmt.Errorf("LIMIT is messages a second, not %q", args[1])}
		}
		return s.steer(cmd, named(args)[0], func(c *client.Client, id string) ([]byte, error) {
			return body(c.ChangeJob(cmd.Context(), id, client.JobChange{RateLimit: limit, Reason: given(reason)}))
		})
	}
	return cmd
}

// steer asks in a production context, steers the job and shows it.
func (s *session) steer(cmd *cobra.Command, id string, change func(*client.Client, string) ([]byte, error)) error {
	p, c, t, err := s.begin(jobsView.one())
	if err != nil {
		return err
	}
	if err := s.confirmJob(cmd.Context(), c, t, id, cmd.Name()); err != nil {
		return err
	}
	answer, err := change(c, id)
	if err != nil {
		return s.doubt(err, "jobs get "+id)
	}
	return p.one(cmd.Context(), answer)
}

// confirmJob asks in a production context whether to steer a job.
func (s *session) confirmJob(ctx context.Context, c *client.Client, t target, id, verb string) error {
	if !t.Production || s.flags.yes {
		return nil
	}
	answer, err := c.GetJob(ctx, id, nil)
	if err != nil {
		return err
	}
	job, err := answer.Value.Summary()
	if err != nil {
		return err
	}
	return s.confirm(ctx, fmt.Sprintf("The %s of %s: %s?", job.Kind, job.Topic, verb), job.Topic, t)
}

func (s *session) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Follow a job until it ends", Args: argumentsOf("watch ID"),
		Long: `Follows a job: on a terminal with a bar, elsewhere with the job as a JSON line each time it has changed.
Ctrl-C asks whether to leave the job running, pause it or cancel it. The exit code tells how the job has ended.`,
		Example:           "  dlqctl jobs watch 01a214f0-f92f-7000-a46f-36ccec5081f3",
		ValidArgsFunction: s.firstArgument(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, c, t, err := s.begin(jobsView.one())
			if err != nil {
				return err
			}
			return s.follow(cmd.Context(), c, t, named(args)[0], p)
		},
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
