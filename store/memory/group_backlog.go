package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// GroupBacklogs is like postgres.Store.GroupBacklogs.
func (m *Store) GroupBacklogs(context.Context) (backlogs []dlq.GroupBacklog, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	type place struct {
		topic string
		state dlq.BacklogState
	}
	found, counted, hasHeld := map[place]*dlq.GroupBacklog{}, map[place]map[dlq.ID]bool{}, map[string]bool{}
	for _, e := range m.order { // the oldest first
		g := m.groups[e.GroupID]
		if g == nil || e.Status != dlq.StatusPending {
			continue
		}
		at := place{e.DLQTopic, g.backlogState()}
		if found[at] == nil {
			found[at], counted[at] = &dlq.GroupBacklog{DLQTopic: at.topic, State: at.state, OldestPending: &e.CreatedAt}, map[dlq.ID]bool{}
		}
		found[at].Pending++
		counted[at][g.ID] = true
		hasHeld[at.topic] = hasHeld[at.topic] || g.State == dlq.GroupHeld
	}
	for at, b := range found {
		if b.Groups = int64(len(counted[at])); !hasHeld[at.topic] {
			b.OldestPending = nil
		}
		backlogs = append(backlogs, *b)
	}
	slices.SortFunc(backlogs, func(a, b dlq.GroupBacklog) int {
		return cmp.Or(cmp.Compare(a.DLQTopic, b.DLQTopic), cmp.Compare(a.State, b.State))
	})
	return backlogs, nil
}

func (g *group) backlogState() dlq.BacklogState {
	switch {
	case g.State != dlq.GroupOpen:
		return dlq.BacklogState(g.State)
	case !g.RegressedBy.IsZero():
		return dlq.BacklogRegressed
	case time.Since(g.FirstSeen) < dlq.NewGroupAge:
		return dlq.BacklogNew
	default:
		return dlq.BacklogState(dlq.GroupOpen)
	}
}
