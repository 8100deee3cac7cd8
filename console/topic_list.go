package console

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"dlqmanager/client"
)

// topicList are the messages of a topic with what selects them.
type topicList struct {
	filterForm

	IsFiltered bool
	Every      int

	// Refused is why the API does not take the filters; then there is no list.
	Refused     string
	Messages    []client.ListedMessage
	Count       string
	Searched    *client.MessageList_Pagination_Searched
	First, Next string
	// Plans lead from all messages that match to a plan.
	Plans []planLink
}

// planLink leads to the plan of a change.
type planLink struct{ Path, Text string }

func (v *visit) messagesOf(ctx context.Context, topic string, selected filters) (*client.MessageList, error) {
	params := client.ListMessagesParams{PageSize: new(int64(messagesPerPage)), Cursor: v.query("cursor")}
	if v.URL.Query().Get("sort") == "created_at" {
		params.Sort = new(client.ListMessagesParamsSortCreatedAt)
	}
	list, err := v.api.ListMessages(ctx, topic, &params, selected.options()...)
	if err != nil {
		return nil, err
	}
	return &list.Value, nil
}

func (v *visit) topicList(topic string, page filteredPage, selected filters, list *client.MessageList) topicList {
	query, path := v.URL.Query(), "/topics/"+url.PathEscape(topic)
	var others filters
	if v.span() == "month" {
		others = filters{{"span", "month"}}
	}
	data := topicList{
		filterForm: v.filterForm(path, page, selected, others, nil),
		Every:      listRefresh, Plans: v.plansOf(topic, selected), IsFiltered: len(selected) > 0,
	}
	if selected.areSlow() {
		data.Every = slowRefresh
	}
	if list != nil {
		data.Messages, data.Count, data.Searched = list.Messages, v.matching(list), list.Pagination.Searched
		data.First, data.Next = cursorPages(path, query, list.Pagination.NextCursor)
	}
	return data
}

// matching says how many messages match. The list counts to a limit; a plan counts all of them.
func (v *visit) matching(list *client.MessageList) string {
	count := list.Pagination.TotalCount
	switch {
	case list.Pagination.TotalCountExact:
		return v.text("%d messages match.", count)
	case list.Pagination.Searched != nil:
		return v.text("%d messages on this page match. A plan counts all of them.", count)
	default:
		return v.text("More than %d messages match. A plan counts all of them.", count)
	}
}

// preview is the beginning of a payload in one line; nothing if there is none.
func preview(payload json.RawMessage) string {
	if string(payload) == "null" {
		return ""
	}
	return short(previewSize, strings.Join(strings.Fields(string(payload[:min(len(payload), 4*previewSize)])), " "))
}
