package console

import (
	"context"

	"dlqmanager/client"
)

// groupsData is the list of causes.
type groupsData struct {
	listing

	Groups []client.Group
	// Topics are suggestions for the filter.
	Topics []client.Topics_Topics
}

// IsFiltered tells whether the list has a filter.
func (d groupsData) IsFiltered() bool { return d.Asked.Has("topic") || d.Asked.Has("state") }

func (v *visit) groups() (*answer, error) {
	data := groupsData{listing: listing{Path: "/groups", Asked: v.asked("state", "sort", "topic", "cursor")}}
	params := &client.ListGroupsParams{
		Topic: v.query("topic"), State: (*client.GroupState)(v.query("state")),
		Sort: (*client.ListGroupsParamsSort)(v.query("sort")), Cursor: v.query("cursor"),
	}
	err := v.together(func(ctx context.Context) error {
		answer, err := v.api.ListGroups(ctx, params)
		if err == nil {
			data.Groups = answer.Value.Groups
			data.listing = data.turned(data.Asked, answer.Value.Pagination.NextCursor)
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
	return show("groups", v.text("Causes"), data)
}
