package api

import (
	"context"
	"errors"

	"dlqmanager/dlq"
)

// A group belongs to the dead-letter topics of its messages. A principal who may see one of these topics sees the group.
// Whoever changes the group needs the permission on all of these topics.

// Groups leaves out the topics that the principal may not see, and the groups that have no other topics.
func (g guard) Groups(ctx context.Context, query dlq.GroupQuery) (dlq.PageOf[dlq.Group], error) {
	query.Within = accessOf(ctx).Within(dlq.PermGroupRead)
	page, err := g.database.Groups(ctx, query)
	if err == nil {
		err = g.hideGroups(ctx, views(page.Entries, func(group *dlq.Group) *dlq.Group { return group })...)
	}
	return page, err
}

// Group leaves out the same topics as Groups. If the request changes the group, it also checks the permission.
func (g guard) Group(ctx context.Context, id dlq.ID) (dlq.Group, error) {
	a := accessOf(ctx)
	seen, err := g.database.Group(ctx, id, a.Within(dlq.PermGroupRead))
	if err == nil && a.permission == dlq.PermGroupUpdate {
		err = g.checkGroup(ctx, &seen)
	}
	if err == nil {
		err = g.hideGroups(ctx, &seen)
	}
	if err != nil {
		return dlq.Group{}, err
	}
	return seen, nil
}

// checkGroup checks the permission to change a group. seen is the group as the principal sees it: the error names no topic that
// the principal may not see.
func (g guard) checkGroup(ctx context.Context, seen *dlq.Group) error {
	a := accessOf(ctx)
	mine, err := g.database.Group(ctx, seen.ID, a.withinRoute())
	if err == nil && !mine.IsPartial || err != nil && !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	for _, count := range seen.Counts {
		if !a.MayOn(a.permission, count.DLQTopic) {
			return forbidden(a.permission, count.DLQTopic)
		}
	}
	return forbidden(a.permission, "every dead-letter topic of the group")
}

// topicOfGroup is the topic of a group in the audit: the first one that the principal sees.
func topicOfGroup(seen *dlq.Group) string {
	if len(seen.Counts) == 0 {
		return ""
	}
	return seen.Counts[0].DLQTopic
}

func (g guard) ChangeGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, change dlq.GroupChange) error {
	seen, err := g.Group(ctx, id)
	if err != nil {
		return err
	}
	asked.Topic = topicOfGroup(&seen)
	describe(asked, auditedGroup{Owner: change.Owner, Ticket: change.Ticket, Note: change.Note, State: change.State, Until: viewHold(change.Hold)})
	return g.database.ChangeGroup(ctx, asked, id, change)
}

func (g guard) FixGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, fix dlq.GroupFix) error {
	seen, err := g.Group(ctx, id)
	if err != nil {
		return err
	}
	asked.Topic = topicOfGroup(&seen)
	describe(asked, auditedGroup{Ticket: fix.Ticket, State: new(dlq.GroupFixed), Partitions: len(fix.Ends)})
	return g.database.FixGroup(ctx, asked, id, fix)
}

// auditedGroup is a change of a group in the audit. Partitions is the number of end offsets of a fix. The row leaves out their
// topics, which its reader may not be allowed to see.
type auditedGroup struct {
	Owner      *string         `json:"owner,omitempty"`
	Ticket     *string         `json:"ticket,omitempty"`
	Note       *string         `json:"note,omitempty"`
	State      *dlq.GroupState `json:"state,omitempty"`
	Until      *holdView       `json:"until,omitempty"`
	Partitions int             `json:"partitions,omitempty"`
}
