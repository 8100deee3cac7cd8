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
	// Found are the dead-letter topics with this name, or with an original topic of this name.
	Found    []client.Topics_Topics
	Unwell   []trouble
	Statuses []statusChip

	Arrivals      *chart
	ArrivalsError string
	Span          string
	// DayPath and MonthPath are this page with the chart of a day and of a month.
	DayPath, MonthPath string
	Groups             []client.Group
	CausesError        string

	messageList

	// Every is how often the page reads the list again, in seconds.
	Every      int
	IsFiltered bool
	Count      string
	// Plans lead to the plans for all messages that match.
	Plans []planLink
}

// planLink leads to the plan of a change.
type planLink struct{ Path, Text string }

// statusChip is a status with the number of its messages. Its link selects the status, or removes a selected status.
type statusChip struct {
	Status, Path string
	Count        int64
	IsSelected   bool
}

const (
	messagesPerPage = 50
	// slowRefresh is how often a list with slow filters is read again, in seconds.
	slowRefresh = 60
	listRefresh = 10
	previewSize = 120
)

var statuses = []string{"PENDING", "RETRYING", "DEAD", "RESOLVED"}

func (v *visit) topic() (*answer, error) {
	topic, own := v.PathValue("topic"), url.Values{}
	if v.span() == "month" {
		own.Set("span", "month")
	}
	list := messageList{filterForm: v.filterForm("/topics/"+url.PathEscape(topic), own)}
	if added, isForm := addedFilters(v.Request); isForm {
		return v.addFilters(list.listing, added)
	}
	selected := filtersOf(list.Asked)
	data := topicData{
		Topic: topic, Span: v.span(), DayPath: pageOf(list.Path, without(list.Asked, "span")), MonthPath: list.Only("span", "month"),
		Every: listRefresh, IsFiltered: len(selected) > 0, Plans: v.plansOf(topic, selected),
	}
	if areSlow(selected) {
		data.Every = slowRefresh
	}
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
		func(ctx context.Context) error {
			if !v.wants("messages") {
				return nil
			}
			params := client.ListMessagesParams{PageSize: new(int64(messagesPerPage)), Cursor: v.query("cursor")}
			found, err := v.api.ListMessages(ctx, topic, &params, v.passedOn(list.listing, "span"))
			return v.fill(&list, found, err)
		},
		v.part(func(ctx context.Context) { data.Arrivals, data.ArrivalsError = v.arrivals(ctx, topic) }, "arrivals"),
		v.part(func(ctx context.Context) { data.Groups, data.CausesError = v.causesOf(ctx, topic) }, "causes"),
	)
	if err != nil {
		return nil, err
	}
	data.messageList, data.Count = list, v.matching(list.Pagination)
	data.Unwell = v.troubles(data.Found)
	data.Statuses = statusChips(list.listing, data.Found)
	return showFiltered("topic", topic, data, list.Refused)
}

func (v *visit) causesOf(ctx context.Context, topic string) ([]client.Group, string) {
	params := client.ListGroupsParams{Topic: &topic, Sort: new(client.ListGroupsParamsSortPending), PageSize: new(int64(causesShown))}
	list, err := v.api.ListGroups(ctx, &params)
	if err != nil {
		return nil, v.optional(err)
	}
	return list.Value.Groups, ""
}

func statusChips(list listing, found []client.Topics_Topics) []statusChip {
	counts := map[string]int64{}
	for _, one := range found {
		counts["PENDING"] += one.Counts.PENDING
		counts["RETRYING"] += one.Counts.RETRYING
		counts["DEAD"] += one.Counts.DEAD
		counts["RESOLVED"] += one.Counts.RESOLVED
	}
	active := statusesOf(list.Asked)
	chips := make([]statusChip, 0, len(statuses))
	for _, status := range statuses {
		chips = append(chips, statusChip{
			Status: status, Count: counts[status], IsSelected: slices.Contains(active, status),
			Path: pageOf(list.Path, toggleStatus(list.Asked, status)),
		})
	}
	return chips
}
