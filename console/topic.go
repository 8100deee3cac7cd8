package console

import (
	"context"
	"net/url"
	"slices"

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

// statusChip is a status with its number, which selects it or no longer.
type statusChip struct {
	Status, Path string
	Count        int64
	IsSelected   bool
}

const (
	messagesPerPage = 50
	// slowRefresh is how often a list is read again whose messages the API has to read one by one, in seconds.
	slowRefresh = 60
	listRefresh = 10
	previewSize = 120
)

var statuses = []string{"PENDING", "RETRYING", "DEAD", "RESOLVED"}

func (v *visit) topic() (*answer, error) {
	topic, query := v.PathValue("topic"), v.URL.Query()
	page := func(selected filters, sort string) string { return topicPath(topic, selected, sort, query.Get("span")) }
	if added, isForm := addedFilters(v.Request); isForm {
		return v.addFilters(page, added)
	}
	selected := filtersOf(query)
	data := topicData{
		Topic: topic, Span: v.span(),
		DayPath: topicPath(topic, selected, query.Get("sort"), ""), MonthPath: topicPath(topic, selected, query.Get("sort"), "month"),
	}
	var messages *client.MessageList
	var refused string
	err := v.together(
		func(ctx context.Context) error {
			if !v.wants("counts") {
				return nil
			}
			topics, err := v.topics(ctx)
			data.Found = slices.DeleteFunc(topics, func(one client.Topics_Topics) bool {
				return one.DlqTopic != topic && one.OriginalTopic != topic
			})
			return err
		},
		func(ctx context.Context) (err error) {
			if v.wants("messages") {
				messages, err = v.messagesOf(ctx, topic, slices.Concat(selected, unknownIn(query, "sort", "cursor", "span")))
				refused, err = v.refusedFilters(err)
			}
			return err
		},
		v.part(func(ctx context.Context) { data.Arrivals, data.ArrivalsError = v.arrivals(ctx, topic) }, "arrivals"),
		v.part(func(ctx context.Context) { data.Groups, data.CausesError = v.causesOf(ctx, topic) }, "causes"),
	)
	if err != nil {
		return nil, err
	}
	data.Unwell = v.troubles(data.Found)
	data.Statuses = v.statusChips(topic, selected, data.Found)
	data.topicList = v.topicList(topic, page, selected, messages)
	data.Refused = refused
	return showFiltered("topic", topic, data, refused)
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
	return pageOf("/topics/"+url.PathEscape(topic), query)
}

func (v *visit) causesOf(ctx context.Context, topic string) ([]client.Group, string) {
	params := client.ListGroupsParams{Topic: &topic, Sort: new(client.ListGroupsParamsSortPending), PageSize: new(int64(causesShown))}
	list, err := v.api.ListGroups(ctx, &params)
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
