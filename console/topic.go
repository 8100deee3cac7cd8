package console

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"dlqmanager/client"
)

// topicData is the page of a topic: counts, arrivals, causes, and the messages that match the filters of the address.
type topicData struct {
	Topic string
	// Found are the dead-letter topics of this name, or of this original topic.
	Found    []client.Topics_Topics
	Unwell   []trouble
	Statuses []statusChip

	Arrivals      *chart
	ArrivalsError string
	Span          string
	// DayPath and MonthPath are this page with the two charts.
	DayPath, MonthPath string
	Groups             []client.Group
	CausesError        string

	topicList
}

// topicList are the messages of a topic with what selects them.
type topicList struct {
	Chips      []chip
	IsFiltered bool
	// Clear is this page without filters, Newest and Oldest are the two orders, and Here is the page with its filters.
	Clear, Newest, Oldest, Here string
	OldestFirst                 bool
	// Keep are the parameters that the form which adds a filter keeps.
	Keep   filters
	Fields []field
	Every  int

	Messages    []messageRow
	Count       string
	Searched    *client.MessageList_Pagination_Searched
	First, Next string
	// Plans lead from all messages that match to a plan.
	Plans []planLink
}

// statusChip is a status with its number, which selects it or no longer.
type statusChip struct {
	Status, Path string
	Count        int64
	IsSelected   bool
}

// chip is a filter in words, and the page without it.
type chip struct {
	Text, Without string
	IsNot         bool
}

// field is a choice of the form that adds a filter.
type field struct{ Value, Text string }

// planLink leads to the plan of a change.
type planLink struct{ Kind, Path, Text string }

// messageRow is a message of the list.
type messageRow struct {
	client.ListedMessage

	// Preview is the beginning of the payload.
	Preview string
}

const (
	messagesPerPage = 50
	causesOfTopic   = 5
	// slowRefresh is how often a list is read again whose messages the API has to read one by one, in seconds.
	slowRefresh = 60
	listRefresh = 10
	previewSize = 120
)

var statuses = []string{"PENDING", "RETRYING", "DEAD", "RESOLVED"}

func (v *visit) topic() (*answer, error) {
	topic, query := v.PathValue("topic"), v.URL.Query()
	if added, isForm := addedFilters(v.Request); isForm {
		return v.addFilters(topic, query, added)
	}
	selected := filtersOf(query)
	data := topicData{
		Topic: topic, Span: v.span(),
		DayPath: topicPath(topic, selected, query.Get("sort"), ""), MonthPath: topicPath(topic, selected, query.Get("sort"), "month"),
	}
	var messages *client.MessageList
	var calls []func(context.Context) error
	if v.wants("counts") {
		calls = append(calls, func(ctx context.Context) error {
			topics, err := v.topics(ctx)
			for _, one := range topics {
				if one.DlqTopic == topic || one.OriginalTopic == topic {
					data.Found = append(data.Found, one)
				}
			}
			return err
		})
	}
	if v.wants("arrivals") {
		calls = append(calls, func(ctx context.Context) error {
			data.Arrivals, data.ArrivalsError = v.arrivals(ctx, topic)
			return nil
		})
	}
	if v.wants("causes") {
		calls = append(calls, func(ctx context.Context) error {
			data.Groups, data.CausesError = v.causesOf(ctx, topic)
			return nil
		})
	}
	if v.wants("messages") {
		calls = append(calls, func(ctx context.Context) (err error) {
			messages, err = v.messagesOf(ctx, topic, selected)
			return err
		})
	}
	if err := v.together(calls...); err != nil {
		return nil, err
	}
	data.Unwell = v.troubles(data.Found)
	data.Statuses = v.statusChips(topic, selected, data.Found)
	data.topicList = v.topicList(topic, selected, messages)
	return show("topic", topic, data)
}

// topicPath is the page of a topic.
func topicPath(topic string, selected filters, sort, span string) string {
	query := selected.query()
	if sort == "created_at" {
		query.Set("sort", sort)
	}
	if span == "month" {
		query.Set("span", span)
	}
	path := "/topics/" + url.PathEscape(topic)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// addFilters leads to the page with more filters: the form is a GET, so that it works without the script.
func (v *visit) addFilters(topic string, query url.Values, added filters) (*answer, error) {
	selected := filtersOf(query)
	for _, one := range added {
		selected = selected.with(one)
	}
	path := topicPath(topic, selected, query.Get("sort"), query.Get("span"))
	if len(added) == 0 {
		v.flash = &flash{Kind: "refused", Path: pathOf(path), Text: v.text("No filter was added: it needs a value, and a header or a field of the payload needs its name.")}
	}
	return goTo(path)
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

func (v *visit) causesOf(ctx context.Context, topic string) ([]client.Group, string) {
	sort, size := client.ListGroupsParamsSortPending, int64(causesOfTopic)
	list, err := v.api.ListGroups(ctx, &client.ListGroupsParams{Topic: &topic, Sort: &sort, PageSize: &size})
	if err != nil {
		return nil, v.optional(err)
	}
	return list.Value.Groups, ""
}

func (v *visit) statusChips(topic string, selected filters, found []client.Topics_Topics) []statusChip {
	counts := map[string]int64{}
	for _, one := range found {
		counts["PENDING"] += one.Counts.PENDING
		counts["RETRYING"] += one.Counts.RETRYING
		counts["DEAD"] += one.Counts.DEAD
		counts["RESOLVED"] += one.Counts.RESOLVED
	}
	query, active := v.URL.Query(), selected.statuses()
	chips := make([]statusChip, 0, len(statuses))
	for _, status := range statuses {
		chips = append(chips, statusChip{
			Status: status, Count: counts[status], IsSelected: slices.Contains(active, status),
			Path: topicPath(topic, selected.toggleStatus(status), query.Get("sort"), query.Get("span")),
		})
	}
	return chips
}

func (v *visit) topicList(topic string, selected filters, list *client.MessageList) topicList {
	query := v.URL.Query()
	sort, span := query.Get("sort"), query.Get("span")
	data := topicList{
		Clear: topicPath(topic, nil, sort, span), Here: topicPath(topic, selected, sort, span), Keep: selected, Fields: v.fields(), Every: listRefresh,
		Newest: topicPath(topic, selected, "", span), Oldest: topicPath(topic, selected, "created_at", span), OldestFirst: sort == "created_at",
		Plans: v.plansOf(topic, selected), IsFiltered: len(selected) > 0,
	}
	if data.OldestFirst {
		data.Keep = append(slices.Clone(selected), filter{"sort", sort})
	}
	if span == "month" {
		data.Keep = append(slices.Clone(data.Keep), filter{"span", span})
	}
	if selected.areSlow() {
		data.Every = slowRefresh
	}
	for _, one := range selected {
		if one.Name != "status" {
			data.Chips = append(data.Chips, chip{Text: one.words(v.language), Without: topicPath(topic, selected.without(one), sort, span), IsNot: one.Not()})
		}
	}
	if list == nil {
		return data
	}
	for _, one := range list.Messages {
		data.Messages = append(data.Messages, messageRow{one, preview(one)})
	}
	data.Count, data.Searched = v.matching(list), list.Pagination.Searched
	if query.Get("cursor") != "" {
		data.First = data.Here
	}
	if next := list.Pagination.NextCursor; next != nil {
		data.Next = data.Here + "?cursor=" + url.QueryEscape(*next)
		if strings.Contains(data.Here, "?") {
			data.Next = data.Here + "&cursor=" + url.QueryEscape(*next)
		}
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

func (v *visit) fields() []field {
	var all []field
	for _, one := range plainFilters {
		all = append(all, field{one.Name, filterLabel(v.language, one.Name)})
	}
	all = append(all, field{"header", v.text("header (with its name)")}, field{"payload", v.text("field of the payload (with its path)")})
	for _, one := range fixedFilters {
		all = append(all, field{one.Name + "=" + one.Value, one.words(v.language)})
	}
	return all
}
