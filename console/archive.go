package console

import (
	"context"
	"slices"
	"strings"

	"dlqmanager/client"
)

// archiveData is the page that finds archived messages.
type archiveData struct {
	Topic string
	// Topics are suggestions. The archive may know more of them.
	Topics []client.Topics_Topics
	// Others are the parameters that the form which names the topic keeps.
	Others filters
	filterForm

	Messages []client.ListedMessage
	Total    int64
	IsExact  bool
	// Refused is why the API does not take the filters; then there is no list.
	Refused string
	// Searched is how many messages were looked at, if more of them are left.
	Searched    int64
	First, Next string
	// RestoreAll is the page of the plan that restores everything that was found.
	RestoreAll string
}

// archivedStatuses are the statuses of archived messages.
var archivedStatuses = filters{{"status", "DEAD"}, {"status", "RESOLVED"}}

// archive finds archived messages. The parameters of the page are the API's.
func (v *visit) archive() (*answer, error) {
	asked := v.URL.Query()
	topic := strings.TrimSpace(asked.Get("topic"))
	selected := filtersOf(asked)
	page := func(selected filters, sort string) string {
		query := selected.query()
		query.Set("topic", topic)
		if sort == "created_at" {
			query.Set("sort", sort)
		}
		return pageOf("/archive", query)
	}
	if added, isForm := addedFilters(v.Request); isForm {
		return v.addFilters(page, added)
	}
	d := archiveData{Topic: topic, Others: selected, filterForm: v.filterForm("/archive", page, selected, filters{{"topic", topic}}, archivedStatuses)}
	err := v.together(func(ctx context.Context) error {
		if topics, err := v.api.ListTopics(ctx, nil); err == nil {
			d.Topics = topics.Value.Topics
		}
		return nil // suggestions only
	}, func(ctx context.Context) error {
		return v.findArchived(ctx, slices.Concat(selected, unknownIn(asked, "topic", "sort", "cursor")), &d)
	})
	if err != nil {
		return nil, err
	}
	d.RestoreAll = planPath("restore", topic, selected)
	return showFiltered("archive", v.text("Archive"), d, d.Refused)
}

func (v *visit) findArchived(ctx context.Context, selected filters, d *archiveData) error {
	if d.Topic == "" {
		return nil
	}
	params := client.ListArchivedMessagesParams{Topic: d.Topic, Cursor: v.query("cursor")}
	if d.OldestFirst {
		params.Sort = new(client.ListArchivedMessagesParamsSortCreatedAt)
	}
	found, err := v.api.ListArchivedMessages(ctx, &params, selected.options()...)
	if err != nil {
		d.Refused, err = v.refusedFilters(err)
		return err
	}
	d.Messages = found.Value.Messages
	page := found.Value.Pagination
	d.Total, d.IsExact = page.TotalCount, page.TotalCountExact
	if s := page.Searched; s != nil && !s.Complete {
		d.Searched, d.IsExact = s.Messages, false
	}
	d.First, d.Next = cursorPages("/archive", v.URL.Query(), page.NextCursor)
	return nil
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
