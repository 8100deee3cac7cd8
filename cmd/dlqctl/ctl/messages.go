package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

var messagesView = view{noun: "messages", list: "messages", sample: client.ListedMessage{}, columns: []column{
	{"ID", "id"}, {"STATUS", "status"}, {"CREATED", "created_at"}, {"RETRIES", "retry_count"}, {"ERROR", "error_message"},
}, wide: []column{{"CLASS", "error_class"}, {"GROUP", "group_id"}, {"VERIFIED", "verified"}, {"PAYLOAD", "payload"}}}

var messageOptions = []option{
	{"sort", "created_at for the oldest first", nil}, {"verified", "only messages with this verification", nil},
}

var messageView = view{noun: "messages", sample: client.MessageDetail{}, columns: messagesView.columns}

var chainView = view{noun: "messages", list: "hops", sample: client.Hop{}, columns: []column{
	{"ID", "id"}, {"TOPIC", "dlq_topic"}, {"STATUS", "status"}, {"RESOLUTION", "resolution"}, {"CREATED", "created_at"}, {"RETRIES", "retry_count"},
}, wide: []column{{"EDITED FROM", "edited_from"}, {"VERIFIED", "verified"}, {"ARCHIVED", "archived"}}}

var markedView = view{noun: "messages", sample: client.Marked{}, columns: []column{
	{"ID", "id"}, {"STATUS", "status"}, {"RETRIES", "retry_count"}, {"MESSAGE", "message"},
}}

func (s *session) messagesCommand() *cobra.Command {
	list := s.listCommand("list TOPIC", "List messages of a topic, the newest first",
		"  dlqctl messages list orders.dlq.v1 --status PENDING --error timeout\n  dlqctl messages list orders.dlq.v1 --not header.tenant=acme -o csv --limit 0",
		messagesView, callOf((*client.Client).ListMessages), true,
		messageOptions...)
	list.ValidArgsFunction = s.arguments(completeTopics)
	get := s.getCommand("get ID...", "Show everything about a message, or about several",
		"  dlqctl messages get 01a214f0-d99b-85ca-9c4b-208d64cffa24\n  dlqctl messages get 01a214f0-d99b-85ca-9c4b-208d64cffa24 --jq .payload\n"+
			"  dlqctl messages list orders.dlq.v1 --status DEAD -o name | xargs dlqctl messages get --fields id,key,resolution", messageView,
		callOf((*client.Client).GetMessage))
	chain := s.getCommand("chain ID", "Show what became of a message: its earlier and later dead letters",
		"  dlqctl messages chain 01a214f0-d99b-85ca-9c4b-208d64cffa24\n"+
			"  dlqctl messages chain 01a214f0-d99b-85ca-9c4b-208d64cffa24 --jq .hops[].attempts", chainView, callOf((*client.Client).GetMessageChain))
	dead := s.changeOne(storedMessage, "dead ID", "Mark a message DEAD, so that no retry takes it",
		"  dlqctl messages dead 01a214f0-d99b-85ca-9c4b-208d64cffa24 --reason spam", markedView, withReason((*client.Client).MarkMessageDead))
	revive := s.changeOne(storedMessage, "revive ID", "Make a DEAD message PENDING", "  dlqctl messages revive 01a214f0-d99b-85ca-9c4b-208d64cffa24",
		markedView, withReason((*client.Client).ReviveMessage))
	remove := s.changeOne(storedMessage, "delete ID", "Delete a message", "  dlqctl messages delete 01a214f0-d99b-85ca-9c4b-208d64cffa24 --reason \"a test\"",
		view{noun: "messages", sample: client.Deleted{}},
		func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
			return body(c.DeleteMessage(ctx, args[0], &client.DeleteMessageParams{Reason: reason}))
		})
	return group("messages", "Look at single dead letters, and send or change them", list, get, chain,
		s.retryOne(), dead, revive, remove, s.unmaskCommand(), s.sendCommand())
}

var retryView = view{noun: "messages", sample: client.Retry{}, more: []any{client.MessageDetail{}}, columns: []column{
	{"ID", "id"}, {"STATUS", "status"}, {"RETRIES", "retry_count"}, {"PUBLISHED", "published"}, {"ERROR", "error"},
}}

func (s *session) retryOne() *cobra.Command {
	var request client.RetryRequest
	var target, key, value string
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Send a message back to its original topic", Args: argumentsOf("retry ID"),
		Long: `Sends a message back to its original topic and waits for the result. The retry is a workflow: it goes on when dlqctl ends.

With --value or --key the message is edited first; the edited copy is sent and the original keeps its bytes. If the original has a
schema of a Schema Registry and the file is JSON, the server encodes it with that schema.
Exit code 3: the retry has ended and the message was not delivered.`,
		Example: `  dlqctl messages retry 01a214f0-d99b-85ca-9c4b-208d64cffa24
  dlqctl messages retry 01a214f0-d99b-85ca-9c4b-208d64cffa24 --value repaired.json --reason "the amount was missing"`,
	}
	flags, reason := cmd.Flags(), reasonFlag(cmd.Flags())
	flags.StringVar(&target, "target-topic", "", "topic to send to instead of the original one")
	flags.StringVar(&key, "key", "", "key to send instead of the stored one")
	flags.StringVar(&value, "value", "", "file with the value to send instead of the stored one; - for the standard input")
	cmd.RunE = s.showing(retryView, func(cmd *cobra.Command, args []string, p *printer) error {
		id := named(args)[0]
		request.Reason, request.TargetTopic = given(*reason), given(target)
		if cmd.Flags().Changed("key") {
			encoded := []byte(key)
			request.KeyBase64 = &encoded
		}
		if err := s.confirmOne(cmd.Context(), storedMessage, id, cmd.CommandPath()); err != nil {
			return err
		}
		if cmd.Flags().Changed("value") {
			if err := s.editValue(cmd.Context(), id, value, &request); err != nil {
				return err
			}
		}
		answer, err := s.client.RetryMessage(cmd.Context(), id, nil, &request)
		if err != nil {
			return s.doubt(err, storedMessage.show, id)
		}
		if answer.Status == http.StatusAccepted {
			return s.awaitRetry(cmd.Context(), answer, p)
		}
		if err := p.one(cmd.Context(), answer.Body); err != nil {
			return err
		}
		if published := answer.Value.Published; published != nil && !*published {
			return outcome{code: exitPartly}
		}
		return nil
	})
	return cmd
}

// editValue reads the value to send. If the message has a schema and the file is JSON, the server encodes the JSON with the
// schema. Otherwise the value is sent byte for byte.
func (s *session) editValue(ctx context.Context, id, file string, request *client.RetryRequest) error {
	content, err := readAll(s.open(file))
	if err != nil {
		return fmt.Errorf("the value to send: %w", err)
	}
	message, err := s.client.GetMessage(ctx, id, nil)
	switch {
	case err != nil:
		return err
	case message.Value.Schema != nil && json.Valid(content):
		request.Value = content
	default:
		request.ValueBase64 = &content
	}
	return nil
}

// awaitRetry waits until a running retry has ended, and shows the message. A message that no worker has claimed yet is PENDING,
// like a message whose retry has failed. So a PENDING message counts as ended only after it has changed.
func (s *session) awaitRetry(ctx context.Context, running *client.Answer[client.Retry], p *printer) error {
	s.note(fmt.Sprintf("The retry is still running: %s. Ctrl-C leaves it running.", running.Value.WorkflowID))
	var message client.MessageDetail
	isUnclaimed := running.Value.Status == client.StatusPENDING
	var first *client.Timestamp // UpdatedAt in the first answer
	ended := func(answer json.RawMessage) (bool, error) {
		message = client.MessageDetail{}
		if err := json.Unmarshal(answer, &message); err != nil {
			return false, err
		}
		if first == nil {
			first = new(message.UpdatedAt)
		}
		isUnclaimed = isUnclaimed && message.Status == client.StatusPENDING && message.RetryCount == running.Value.RetryCount &&
			message.UpdatedAt.Equal(*first)
		return !isUnclaimed && message.Status != client.StatusRETRYING, nil
	}
	answer, err := client.Follow(ctx, s.client, running.Location(), ended, nil)
	if err != nil {
		return err
	}
	if err := p.one(ctx, answer); err != nil {
		return err
	}
	if message.Status != client.StatusRESOLVED {
		return outcome{code: exitPartly}
	}
	return nil
}

func (s *session) unmaskCommand() *cobra.Command {
	cmd := s.changeOne(subject{}, "unmask ID", "Reveal the hidden parts of a message for ten minutes",
		`  dlqctl messages unmask 01a214f0-d99b-85ca-9c4b-208d64cffa24 --reason "ticket 4711: the customer asks for her order"`, messageView,
		func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
			return body(c.UnmaskMessage(ctx, args[0], client.UnmaskRequest{Reason: *reason}))
		})
	cmd.Long = `Shows a message as it is stored. For ten minutes messages get shows it so too, to you alone, and you can edit it. Lists, exports and
fixtures stay masked. The audit has your name and the reason.`
	cmd.Flags().Lookup("reason").Usage += "; required"
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if strings.TrimSpace(cmd.Flag("reason").Value.String()) == "" {
			return usageError{errors.New("--reason is missing: it is for those who read the audit")}
		}
		return nil
	}
	return cmd
}
