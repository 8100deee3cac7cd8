package console

import (
	"context"

	"dlqmanager/client"
)

// groupsData is the list of causes.
type groupsData struct {
	// Topic, State and Sort are the parameters of the page.
	Topic, State, Sort string
	Groups             []client.Group
	// Topics are proposals for the filter.
	Topics      []client.Topics_Topics
	First, Next string
}

// IsFiltered tells whether the list leaves out causes.
func (d groupsData) IsFiltered() bool { return d.Topic != "" || d.State != "" }

func (v *visit) groups() (*answer, error) {
	query := v.URL.Query()
	data := groupsData{Topic: query.Get("topic"), State: query.Get("state"), Sort: query.Get("sort")}
	params := &client.ListGroupsParams{
		Topic: v.query("topic"), State: (*client.GroupState)(v.query("state")),
		Sort: (*client.ListGroupsParamsSort)(v.query("sort")), Cursor: v.query("cursor"),
	}
	var page client.GroupList
	err := v.together(func(ctx context.Context) error {
		answer, err := v.api.ListGroups(ctx, params)
		if err == nil {
			page = answer.Value
		}
		return err
	}, func(ctx context.Context) error {
		if v.Header.Get(regionHeader) != "" || !v.may("GET", "/api/v1/dlq") {
			return nil
		}
		answer, err := v.api.ListTopics(ctx, nil)
		if err == nil {
			data.Topics = answer.Value.Topics
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	data.Groups = page.Groups
	data.First, data.Next = cursorPages("/groups", v.asked("state", "sort", "topic", "cursor"), page.Pagination.NextCursor)
	return show("groups", v.text("Causes"), data)
}
