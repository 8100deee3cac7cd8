package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

var groupsView = view{noun: "groups", list: "groups", sample: client.Group{}, columns: []column{
	{"ID", "id"}, {"STATE", "state"}, {"PENDING", "counts.PENDING"}, {"LAST HOUR", "last_hour"}, {"LAST SEEN", "last_seen"}, {"TITLE", "title"},
}, wide: []column{
	{"FIRST SEEN", "first_seen"}, {"DEAD", "counts.DEAD"}, {"STATE REASON", "state_reason"}, {"OWNER", "owner"}, {"TICKET", "ticket"}, {"NOTE", "note"},
}}

func (s *session) groupsCommand() *cobra.Command {
	list := s.listCommand("list", "List the causes, the newest first", "  dlqctl groups list --topic orders.dlq.v1 --sort pending", groupsView,
		listOf((*client.Client).ListGroups), false,
		option{"topic", "only the causes of this topic", completeTopics},
		option{"state", "state: open, held, fixed", fixed("open", "held", "fixed")},
		option{"sort", "pending for the largest first, last_seen for the last to fail first", fixed("first_seen", "last_seen", "pending")})
	get := s.getCommand("get ID", "Show a group", "  dlqctl groups get 8f2cc0a3-5784-8865-a08b-a01afce8da16", groupsView.one(),
		callOf((*client.Client).GetGroup))
	get.ValidArgsFunction = s.arguments(completeGroups)
	open := s.changeGroup("open ID", "Open a held or fixed group again", "  dlqctl groups open 8f2cc0a3-5784-8865-a08b-a01afce8da16",
		func(_ *cobra.Command, change *client.GroupChange) error {
			change.State = new(client.GroupChangeStateOpen)
			return nil
		})
	note := s.changeGroup("note ID", "Set the note, owner or ticket of a group",
		"  dlqctl groups note 8f2cc0a3-5784-8865-a08b-a01afce8da16 --owner alice --ticket https://tickets.example.com/7",
		func(*cobra.Command, *client.GroupChange) error { return nil })
	var ticket string
	fix := s.changeOne(oneGroup, "fix ID", "Mark a group fixed: it opens again when a message that was written later fails",
		`  dlqctl groups fix 8f2cc0a3-5784-8865-a08b-a01afce8da16 --reason "released 1.4.2"`, fixView,
		func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
			answer, err := c.FixGroup(ctx, args[0], &client.GroupFixRequest{Reason: reason, Ticket: given(ticket)})
			if err == nil {
				s.note(answer.Value.Note)
			}
			return body(answer, err)
		})
	fix.Flags().StringVar(&ticket, "ticket", "", "address of the ticket")
	return group("groups", "See the causes of dead letters, and hold or fix them", list, get,
		s.holdCommand(), open, note, fix)
}

// fixView is the view of the answer to a fix.
var fixView = view{noun: "groups", id: "group.id", sample: client.GroupFixed{}}

// changeGroup makes a command that changes a group. Its flags can also change note, owner and ticket. An empty text removes the
// stored text.
func (s *session) changeGroup(use, short, example string, add func(*cobra.Command, *client.GroupChange) error) *cobra.Command {
	var cmd *cobra.Command
	cmd = s.changeOne(oneGroup, use, short, example, groupsView.one(),
		func(ctx context.Context, c *client.Client, args []string, reason *string) ([]byte, error) {
			change := client.GroupChange{
				Reason: reason, Note: changed(cmd, "note"), Owner: changed(cmd, "owner"), Ticket: changed(cmd, "ticket"),
			}
			if err := add(cmd, &change); err != nil {
				return nil, err
			}
			return body(c.ChangeGroup(ctx, args[0], change))
		})
	cmd.Flags().String("note", "", "note for whoever looks at the group next")
	cmd.Flags().String("owner", "", "who takes care of the group")
	cmd.Flags().String("ticket", "", "address of the ticket")
	return cmd
}

// changed is the value of a flag. It is nil if the flag is not given.
func changed(cmd *cobra.Command, flag string) *string {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return new(cmd.Flag(flag).Value.String())
}

func (s *session) holdCommand() *cobra.Command {
	var until string
	var count, rate int64
	cmd := s.changeGroup("hold ID", "Hold a group: its alerts are quiet until a condition is met",
		`  dlqctl groups hold 8f2cc0a3-5784-8865-a08b-a01afce8da16 --until 8h --owner alice --reason "waits for the provider"`,
		func(cmd *cobra.Command, change *client.GroupChange) error {
			change.State, change.Until = new(client.GroupChangeStateHeld), &client.GroupChange_Until{}
			if until != "" {
				at, err := s.instant(cmd.Context(), until)
				if err != nil {
					return err
				}
				change.Until.At = &at
			}
			if cmd.Flags().Changed("count") {
				change.Until.Count = &count
			}
			if cmd.Flags().Changed("rate") {
				change.Until.Rate = &rate
			}
			if *change.Until == (client.GroupChange_Until{}) {
				return usageError{errors.New("say until when the group is held: --until 8h, --count 100 or --rate 50")}
			}
			return nil
		})
	cmd.Long = `Holds a group. It opens again at a time (--until), after so many more messages (--count),
or when more than so many arrive in an hour (--rate). Retries do not take its messages meanwhile unless they are asked to.`
	cmd.Flags().StringVar(&until, "until", "", "when the group opens again: a time as 2026-01-31T08:00:00Z, or from now as 8h")
	cmd.Flags().Int64Var(&count, "count", 0, "how many more messages open the group again")
	cmd.Flags().Int64Var(&rate, "rate", 0, "how many messages in an hour open the group again")
	return cmd
}

// instant reads a time, or a duration from now. The server tells what time it is now, since the clock of this machine may be
// wrong.
func (s *session) instant(ctx context.Context, text string) (time.Time, error) {
	if after, err := time.ParseDuration(text); err == nil {
		answer, err := s.client.GetMe(ctx, nil)
		if err != nil {
			return time.Time{}, err
		}
		now, err := http.ParseTime(answer.Header.Get("Date"))
		if err != nil {
			return time.Time{}, fmt.Errorf("the server does not say what time it is; write --until as 2026-01-31T08:00:00Z: %w", err)
		}
		return now.Add(after), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usageError{fmt.Errorf("%q is no time: write it as 2026-01-31T08:00:00Z, or from now as 8h", text)}
	}
	return at, nil
}
