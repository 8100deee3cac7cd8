package console

import (
	"context"
	"net/url"
	"strings"

	"dlqmanager/client"
)

// archiveData is the page that finds archived messages.
type archiveData struct {
	Topic string
	// Topics are suggestions. The archive may have messages of further topics.
	Topics []client.Topics_Topics
	// Others are the filters in use. The form that chooses the topic keeps the filters.
	Others url.Values
	messageList

	// RestoreAll is the page that makes a plan to restore all messages that match the filters.
	RestoreAll string
}

// archivedStatuses are the statuses of archived messages.
var archivedStatuses = []filter{{"status", "DEAD"}, {"status", "RESOLVED"}}

// archive finds archived messages. The page and the API have the same parameters.
func (v *visit) archive() (*answer, error) {
	topic := strings.TrimSpace(v.URL.Query().Get("topic"))
	list := messageList{filterForm: v.filterForm("/archive", url.Values{"topic": {topic}}, archivedStatuses...)}
	if added, isForm := addedFilters(v.Request); isForm {
		return v.addFilters(list.listing, added)
	}
	selected := filtersOf(list.Asked)
	d := archiveData{Topic: topic, Others: selected, RestoreAll: planPath("restore", topic, selected)}
	err := v.together(func(ctx context.Context) error {
		if topics, err := v.api.ListTopics(ctx, nil); err == nil {
			d.Topics = topics.Value.Topics
		}
		return nil // the topics are only suggestions, so an error is ignored
	}, func(ctx context.Context) error {
		if topic == "" {
			return nil
		}
		params := client.ListArchivedMessagesParams{Topic: topic, Cursor: v.query("cursor")}
		found, err := v.api.ListArchivedMessages(ctx, &params, v.passedOn(list.listing, "topic"))
		return v.fill(&list, found, err)
	})
	if err != nil {
		return nil, err
	}
	d.messageList = list
	return showFiltered("archive", v.text("Archive"), d, d.Refused)
}

// archived shows an archived message.
func (v *visit) archived() (*answer, error) {
	parts, err := v.readParts()
	if err != nil {
		return nil, err
	}
	v.describeParts(&parts)
	return show("archived", v.text("Archived message"), parts)
}

// restore brings one archived message back, and leads to the new message.
func (v *visit) restore() (*answer, error) {
	id := v.PathValue("id")
	restored, err := v.api.RestoreMessage(v.Context(), id, &client.RestoreMessageJSONRequestBody{Reason: v.field("reason")})
	if err != nil {
		return v.refused(archivedPath(id), err)
	}
	return v.done(messagePath(restored.Value.ID),
		v.text("Restored from the archive. The message waits here until somebody retries it; nothing has been sent."))
}

// runArchive starts a run of the archive.
func (v *visit) runArchive() (*answer, error) {
	_, err := v.api.RunArchive(v.Context(), &client.RunArchiveJSONRequestBody{Reason: v.field("reason")})
	return v.changed("/archive", v.text("The archive runs now, unless a run is active. The audit shows the counts when the run has ended."), err)
}
