package ctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

// subject is a kind of record that commands change, one at a time.
type subject struct {
	complete completer // of its ids
	// show is the command that shows a record whose change had no answer; empty for changes that may be repeated.
	show string
	// question names the record and its topic, for the question in a production context; nil for no question.
	question func(ctx context.Context, c *client.Client, id, command string) (text, topic string, err error)
}

var (
	storedMessage   = subject{show: "messages get", question: questionOfMessage((*client.Client).GetMessage)}
	archivedMessage = subject{show: "messages get", question: questionOfMessage((*client.Client).GetArchivedMessage)}
	oneGroup        = subject{complete: completeGroups, question: questionOfGroup}
	oneJob          = subject{complete: completeJobs, show: "jobs get", question: questionOfJob}
)

// questionOfMessage is for the messages that a method of the client shows.
func questionOfMessage[P any](
	get func(*client.Client, context.Context, string, *P, ...client.RequestOption) (*client.Answer[client.MessageDetail], error),
) func(ctx context.Context, c *client.Client, id, command string) (text, topic string, err error) {
	return func(ctx context.Context, c *client.Client, id, command string) (text, topic string, err error) {
		answer, err := get(c, ctx, id, nil)
		if err != nil {
			return "", "", err
		}
		topic = answer.Value.DlqTopic
		return fmt.Sprintf("%s: the message %s of %s.", command, id, topic), topic, nil
	}
}

func questionOfGroup(ctx context.Context, c *client.Client, id, command string) (text, topic string, err error) {
	answer, err := c.GetGroup(ctx, id, nil)
	if err != nil {
		return "", "", err
	}
	topic = answer.Value.ID
	if len(answer.Value.Topics) > 0 {
		topic = answer.Value.Topics[0].DlqTopic
	}
	return fmt.Sprintf("%s: %s, of %s.", command, oneLine(answer.Value.Title), topic), topic, nil
}

func questionOfJob(ctx context.Context, c *client.Client, id, command string) (text, topic string, err error) {
	answer, err := c.GetJob(ctx, id, nil)
	if err != nil {
		return "", "", err
	}
	job, err := answer.Value.Summary()
	if err != nil {
		return "", "", err
	}
	verb := command[strings.LastIndexByte(command, ' ')+1:]
	return fmt.Sprintf("The %s of %s: %s?", job.Kind, job.Topic, verb), job.Topic, nil
}

// confirmOne asks in a production context whether to change a record.
func (s *session) confirmOne(ctx context.Context, of subject, id, command string) error {
	if !s.target.Production || s.flags.yes || of.question == nil {
		return nil
	}
	question, topic, err := of.question(ctx, s.client, id, command)
	if err != nil {
		return err
	}
	return s.confirm(ctx, question, topic)
}

// change changes a record. Its reason is for the audit, and may be nil.
type change func(cmd *cobra.Command, c *client.Client, args []string, reason *string) ([]byte, error)

// withReason makes a change of a method of the client that takes only a reason.
func withReason[T any](
	method func(*client.Client, context.Context, string, *client.ReasonRequest, ...client.RequestOption) (*client.Answer[T], error),
) change {
	return func(cmd *cobra.Command, c *client.Client, args []string, reason *string) ([]byte, error) {
		return body(method(c, cmd.Context(), args[0], &client.ReasonRequest{Reason: reason}))
	}
}

// changeOne makes a command that changes one record and shows it.
func (s *session) changeOne(of subject, use, short, example string, v view, change change) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: argumentsOf(use)}
	if of.complete != nil {
		cmd.ValidArgsFunction = s.firstArgument(of.complete)
	}
	reason := reasonFlag(cmd.Flags())
	cmd.RunE = s.showing(v, func(cmd *cobra.Command, args []string, p *printer) error {
		ids := named(args)
		if err := s.confirmOne(cmd.Context(), of, ids[0], cmd.CommandPath()); err != nil {
			return err
		}
		answer, err := change(cmd, s.client, ids, given(*reason))
		if err != nil && of.show != "" {
			return s.doubt(err, of.show+" "+ids[0])
		}
		if err != nil {
			return err
		}
		return p.one(cmd.Context(), answer)
	})
	return cmd
}

func reasonFlag(flags *pflag.FlagSet) *string {
	return flags.String("reason", "", "why, for the audit")
}

// valueOf is the zero value for nil.
func valueOf[T any](given *T) (value T) {
	if given != nil {
		value = *given
	}
	return value
}

// given is nil for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
