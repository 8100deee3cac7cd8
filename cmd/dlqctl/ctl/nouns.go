package ctl

import (
	"context"

	"github.com/spf13/cobra"

	"dlqmanager/client"
)

var topicsView = view{noun: "topics", list: "topics", whole: true, id: "dlq_topic", sample: client.Topics_Topics{}, columns: []column{
	{"TOPIC", "dlq_topic"}, {"PENDING", "counts.PENDING"}, {"RETRYING", "counts.RETRYING"}, {"DEAD", "counts.DEAD"},
	{"RESOLVED", "counts.RESOLVED"}, {"OLDEST PENDING", "oldest_pending"},
}, wide: []column{
	{"ORIGINAL TOPIC", "original_topic"}, {"NEWEST ARRIVAL", "newest_arrival"}, {"INGEST HELD", "ingest_held"}, {"LOST", "lost"}, {"LOST AT", "lost_at"},
}}

func (s *session) topicsCommand() *cobra.Command {
	return group("topics", "See how many dead letters each topic has",
		s.listCommand("list", "List the dead-letter topics and their counts", "  dlqctl topics list -o wide", topicsView,
			listOf((*client.Client).ListTopics), false),
	)
}

var retriesView = view{noun: "retries", list: "retries", id: "operation_id", sample: client.SingleRetry{}, columns: []column{
	{"MESSAGE", "message_id"}, {"STATE", "state"}, {"TOPIC", "topic"}, {"ACTOR", "actor"}, {"STARTED", "started_at"}, {"ERROR", "error"},
}, wide: []column{{"ENDED", "ended_at"}, {"REASON", "reason"}, {"TARGET", "target_topic"}}}

func (s *session) retriesCommand() *cobra.Command {
	return group("retries", "See the retries of single messages", s.listCommand("list",
		"List the running and recent retries of single messages", "  dlqctl retries list --topic orders.dlq.v1",
		retriesView, listOf((*client.Client).ListSingleRetries), false,
		option{"topic", "only retries of this topic", completeTopics}, option{"actor", "only retries that this person started", nil},
		option{"from", "started at this time or later", nil}, option{"to", "started before this time", nil}))
}

var auditView = view{noun: "operations", list: "operations", sample: client.Operation{}, columns: []column{
	{"AT", "at"}, {"SUBJECT", "subject"}, {"ACTION", "action"}, {"OUTCOME", "outcome"}, {"TOPIC", "topic"}, {"REASON", "reason"},
}, wide: []column{{"ID", "id"}, {"TARGET", "target_id"}, {"ADDRESS", "address"}, {"REQUEST", "request_id"}}}

func (s *session) auditCommand() *cobra.Command {
	return group("audit", "See who did what, and why", s.listCommand("list", "List the changes, the newest first",
		"  dlqctl audit list --topic orders.dlq.v1 --subject alice", auditView, listOf((*client.Client).ListOperations), false,
		option{"subject", "only changes by this person", nil}, option{"action", "only this action, such as dlq:job:create", nil},
		option{"topic", "only changes in this topic", completeTopics},
		option{"target-id", "only changes of this message, group or job", nil}, option{"outcome", "only changes with this outcome", nil},
		option{"from", "at this time or later", nil}, option{"to", "before this time", nil}))
}

func (s *session) archiveCommand() *cobra.Command {
	list := s.listCommand("list TOPIC", "List archived messages of a topic", "  dlqctl archive list orders.dlq.v1 --error timeout", messagesView,
		func(ctx context.Context, c *client.Client, args []string, options ...client.RequestOption) ([]byte, error) {
			return body(c.ListArchivedMessages(ctx, &client.ListArchivedMessagesParams{Topic: args[0]}, options...))
		}, true, messageOptions...)
	list.ValidArgsFunction = s.arguments(completeTopics)
	get := s.getCommand("get ID", "Show an archived message", "  dlqctl archive get 01a214f0-d99b-85ca-9c4b-208d64cffa24", messageView,
		callOf((*client.Client).GetArchivedMessage))
	restore := s.changeOne(archivedMessage, "restore ID", "Restore an archived message", "  dlqctl archive restore 01a214f0-d99b-85ca-9c4b-208d64cffa24",
		markedView, withReason((*client.Client).RestoreMessage))
	return group("archive", "Find archived messages and restore them", list, get, restore)
}

func (s *session) meCommand() *cobra.Command {
	return s.getCommand("me", "Show who you are to the server, and what you may do", "  dlqctl me -o json",
		view{noun: "me", id: "subject", sample: client.Me{}, columns: []column{{"SUBJECT", "subject"}, {"METHOD", "method"}}},
		listOf((*client.Client).GetMe))
}
