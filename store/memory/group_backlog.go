package memory

import (
	"cmp"
	"context"
	"maps"
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
	found, counted, hasHeld := map[place]*dlq.GroupBacklog{}, map[place]map[dlq.ID]int64{}, map[string]bool{}
	for _, e := range m.order { // the oldest first
		g := m.groups[e.GroupID]
		if g == nil || e.Status != dlq.StatusPending {
			continue
		}
		at := place{e.DLQTopic, g.backlogState()}
		if found[at] == nil {
			found[at], counted[at] = &dlq.GroupBacklog{DLQTopic: at.topic, State: at.state, OldestPending: &e.CreatedAt}, map[dlq.ID]int64{}
		}
		found[at].Pending++
		counted[at][g.ID]++
		hasHeld[at.topic] = hasHeld[at.topic] || g.State == dlq.GroupHeld
	}
	for at, b := range found {
		if b.Groups = int64(len(counted[at])); !hasHeld[at.topic] {
			b.OldestPending = nil
		}
		if at.state.HasCauses() {
			b.Causes = m.causes(at.state, counted[at])
		}
		backlogs = append(backlogs, *b)
	}
	slices.SortFunc(backlogs, func(a, b dlq.GroupBacklog) int {
		return cmp.Or(cmp.Compare(a.DLQTopic, b.DLQTopic), cmp.Compare(a.State, b.State))
	})
	return backlogs, nil
}

// causes are the first groups of those whose messages were counted.
func (m *Store) causes(state dlq.BacklogState, counted map[dlq.ID]int64) (causes []dlq.BacklogCause) {
	inOrder := slices.SortedFunc(maps.Keys(counted), func(a, b dlq.ID) int {
		if state == dlq.BacklogOpen && counted[a] != counted[b] {
			return cmp.Compare(counted[b], counted[a])
		}
		return cmp.Or(m.groups[a].FirstSeen.Compare(m.groups[b].FirstSeen), slices.Compare(a[:], b[:]))
	})
	for _, id := range inOrder[:min(len(inOrder), dlq.MaxBacklogCauses)] {
		causes = append(causes, dlq.BacklogCause{Title: dlq.GroupTitle(&m.groups[id].Fingerprint), Pending: counted[id]})
	}
	return causes
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
		return dlq.BacklogOpen
	}
}

// HeldDead is like postgres.Store.HeldDead.
func (m *Store) HeldDead(context.Context) (counts []dlq.TopicCount, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byTopic := map[string]int64{}
	for _, e := range m.order {
		if g := m.groups[e.GroupID]; g != nil && g.State == dlq.GroupHeld && e.Status == dlq.StatusDead {
			byTopic[e.DLQTopic]++
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		counts = append(counts, dlq.TopicCount{DLQTopic: topic, Messages: byTopic[topic]})
	}
	return counts, nil
}
