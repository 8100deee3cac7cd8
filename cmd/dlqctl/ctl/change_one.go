package ctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

// subject is a kind of record, for a command that changes one record of this kind.
type subject struct {
	complete completer // lists ids
	// show is the command that shows the record if the change got no answer. It is empty if the change can safely be repeated.
	show string
	// get reads the record for the question in a production context. Without get there is no question.
	get call
	// topic and name are paths of fields of the record. The arguments of question are the command, the name, the topic and the verb.
	topic, name, question string
}

const questionOfMessage = "%[1]s: the message %[2]s of %[3]s."

var (
	storedMessage = subject{show: "messages get", get: callOf((*client.Client).GetMessage),
		topic: "dlq_topic", name: "id", question: questionOfMessage}
	archivedMessage = subject{show: "messages get", get: callOf((*client.Client).GetArchivedMessage),
		topic: "dlq_topic", name: "id", question: questionOfMessage}
	oneGroup = subject{complete: completeGroups, get: callOf((*client.Client).GetGroup),
		topic: "topics.0.dlq_topic", name: "title", question: "%[1]s: %[2]s, of %[3]s."}
	oneJob = subject{complete: completeJobs, show: "jobs get", get: callOf((*client.Client).GetJob),
		topic: "topic", name: "kind", question: "The %[2]s of %[3]s: %[4]s?"}
)

// confirmOne asks whether to change a record. It asks only in a production context.
func (s *session) confirmOne(ctx context.Context, of subject, id, command string) error {
	if !s.target.Production || s.flags.yes || of.get == nil {
		return nil
	}
	answer, err := of.get(ctx, s.client, []string{id})
	if err != nil {
		return err
	}
	record, err := decode(answer)
	if err != nil {
		return err
	}
	topic := cmp.Or(text(at(record, of.topic)), text(at(record, "id"))) // a group may have no topics any more
	verb := command[strings.LastIndexByte(command, ' ')+1:]
	return s.confirm(ctx, fmt.Sprintf(of.question, command, oneLine(text(at(record, of.name))), topic, verb), topic)
}

// change changes a record. Its reason is for the audit, and may be nil.
type change func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error)

// withReason makes a change of a client method that takes only an id and a reason.
func withReason[T any](
	method func(*client.Client, context.Context, string, *client.ReasonRequest, ...client.RequestOption) (*client.Answer[T], error),
) change {
	return func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
		return body(method(c, ctx, args[0], &client.ReasonRequest{Reason: reason}))
	}
}

// changeOne makes a command that changes one record and shows it.
func (s *session) changeOne(of subject, use, short, example string, v view, change change) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: argumentsOf(use)}
	if of.complete != nil {
		cmd.ValidArgsFunction = s.arguments(of.complete)
	}
	reason := reasonFlag(cmd.Flags())
	cmd.RunE = s.showing(v, func(cmd *cobra.Command, args []string, p *printer) error {
		ids := named(args)
		if err := s.confirmOne(cmd.Context(), of, ids[0], cmd.CommandPath()); err != nil {
			return err
		}
		answer, err := change(cmd.Context(), s.client, ids, given(*reason))
		if err != nil {
			return s.doubt(err, of.show, ids[0])
		}
		return p.one(cmd.Context(), answer)
	})
	return cmd
}

func reasonFlag(flags *pflag.FlagSet) *string {
	return flags.String("reason", "", "why, for the audit")
}

// valueOf returns the value behind a pointer, or the zero value for nil.
func valueOf[T any](given *T) (value T) {
	if given != nil {
		value = *given
	}
	return value
}

// given returns a pointer to a text, or nil for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
