package console

import (
	"context"
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
	Messages    []messageRow
	Count       string
	Searched    *client.MessageList_Pagination_Searched
	First, Next string
	// Plans lead from all messages that match to a plan.
	Plans []planLink
}

// planLink leads to the plan of a change.
type planLink struct{ Kind, Path, Text string }

// messageRow is a message of the list.
type messageRow struct {
	client.ListedMessage

	// Preview is the beginning of the payload.
	Preview string
}

func (v *visit) messagesOf(ctx context.Context, topic string, selected filters) (*client.MessageList, error) {
	size := int64(messagesPerPage)
	params := client.ListMessagesParams{PageSize: &size, Cursor: v.query("cursor")}
	if v.URL.Query().Get("sort") == "created_at" {
		sort := client.ListMessagesParamsSortCreatedAt
		params.Sort = &sort
	}
	list, err := v.api.ListMessages(ctx, topic, &params, selected.options()...)
	if err != nil {
		return nil, err
	}
	return &list.Value, nil
}

func (v *visit) topicList(topic string, page filteredPage, selected filters, list *client.MessageList) topicList {
	query := v.URL.Query()
	sort, span := query.Get("sort"), query.Get("span")
	var others filters
	if span == "month" {
		others = filters{{"span", span}}
	}
	data := topicList{
		filterForm: v.filterForm("/topics/"+url.PathEscape(topic), page, selected, others, nil),
		Every:      listRefresh, Plans: v.plansOf(topic, selected), IsFiltered: len(selected) > 0,
	}
	if selected.areSlow() {
		data.Every = slowRefresh
	}
	if list == nil {
		return data
	}
	for _, one := range list.Messages {
		data.Messages = append(data.Messages, messageRow{one, preview(one)})
	}
	data.Count, data.Searched = v.matching(list), list.Pagination.Searched
	if query.Get("cursor") != "" {
		data.First = page(selected, sort)
	}
	if next := list.Pagination.NextCursor; next != nil {
		asked := topicQuery(selected, sort, span)
		asked.Set("cursor", *next)
		data.Next = pageOf(topicPath(topic, nil, "", ""), asked)
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

// preview is the beginning of the payload in one line; nothing if there is none.
func preview(message client.ListedMessage) string {
	if string(message.Payload) == "null" {
		return ""
	}
	return short(previewSize, strings.Join(strings.Fields(string(message.Payload[:min(len(message.Payload), 4*previewSize)])), " "))
}
