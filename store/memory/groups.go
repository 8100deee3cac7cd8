package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// group is a group with what its lists and conditions need.
type group struct {
	dlq.Group
	dlqTopic string // of the first message
	// arrivals are the times of the messages of the last hour.
	arrivals []time.Time
	// holdCount is the number of arrivals that opens the held group; 0 for none.
	holdCount int64
	fix       dlq.GroupFix
}

// join puts an arrival into its group, or into the overflow group of its topic. It returns
// the id of the group, or zero without a fingerprint.
func (m *Store) join(a *dlq.Arrival, at time.Time) dlq.ID {
	id := dlq.GroupID(&a.Fingerprint)
	if id.IsZero() {
		return id
	}
	if m.groups[id] == nil && m.groupsOf(a.DLQTopic) >= cmp.Or(m.MaxGroups, dlq.MaxGroups) {
		a.Fingerprint = dlq.Overflow(a.DLQTopic)
		id = dlq.GroupID(&a.Fingerprint)
	}
	g := m.groups[id]
	if g == nil {
		g = &group{dlqTopic: a.DLQTopic}
		g.ID, g.Fingerprint, g.State, g.FirstSeen, g.StateAt = id, a.Fingerprint, dlq.GroupOpen, at, at
		g.Fingerprint.Key = [16]byte{}
		m.groups[id] = g
	}
	g.Arrived++
	g.LastSeen = at
	g.arrivals = append(slices.DeleteFunc(g.arrivals, func(t time.Time) bool { return at.Sub(t) > time.Hour }), at)
	if g.State == dlq.GroupFixed && g.fix.Precedes(a) {
		g.open(at, dlq.RegressionReason)
		g.RegressedBy = a.ID
	}
	return id
}

// groupsOf counts the groups whose first message came from this topic.
func (m *Store) groupsOf(dlqTopic string) (n int) {
	for _, g := range m.groups {
		if g.dlqTopic == dlqTopic {
			n++
		}
	}
	return n
}

func (g *group) open(at time.Time, reason string) {
	g.State, g.StateAt, g.StateReason = dlq.GroupOpen, at, reason
	g.Hold, g.holdCount, g.fix, g.RegressedBy = dlq.Hold{}, 0, dlq.GroupFix{}, dlq.ID{}
}

// view is the group as a principal sees it.
func (m *Store) view(g *group, within string) (seen dlq.Group, visible bool) {
	seen = g.Group
	counts := map[dlq.GroupCount]int64{}
	visible = isWithin(g.dlqTopic, within)
	seen.IsPartial = !visible
	var newest *entry
	for _, e := range m.order {
		switch {
		case e.GroupID != g.ID:
			continue
		case !isWithin(e.DLQTopic, within):
			seen.IsPartial = true
			continue
		}
		counts[dlq.GroupCount{DLQTopic: e.DLQTopic, OriginalTopic: e.OriginalTopic, Status: e.Status}]++
		if e.Status != dlq.StatusRetrying {
			newest = e
		}
		visible = true
	}
	for count, n := range counts {
		count.Messages = n
		seen.Counts = append(seen.Counts, count)
	}
	slices.SortFunc(seen.Counts, func(a, b dlq.GroupCount) int {
		return cmp.Or(cmp.Compare(a.DLQTopic, b.DLQTopic), cmp.Compare(a.OriginalTopic, b.OriginalTopic), cmp.Compare(a.Status, b.Status))
	})
	if newest != nil {
		seen.Sample = newest.ID
	}
	for _, at := range g.arrivals {
		if time.Since(at) <= time.Hour {
			seen.LastHour++
		}
	}
	if g.holdCount > 0 {
		seen.Hold.Count = max(g.holdCount-g.Arrived, 0)
	}
	return seen, visible
}

// Groups is like postgres.Store.Groups.
func (m *Store) Groups(_ context.Context, q dlq.GroupQuery) (page dlq.GroupPage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	type ranked struct {
		dlq.GroupCursor
		dlq.Group
	}
	var all []ranked
	for _, g := range m.groups {
		seen, visible := m.view(g, q.Within)
		isOf := q.Topic == "" || g.dlqTopic == q.Topic && isWithin(q.Topic, q.Within) || slices.ContainsFunc(seen.Counts, func(c dlq.GroupCount) bool {
			return c.DLQTopic == q.Topic || c.OriginalTopic == q.Topic
		})
		if !visible || !isOf || q.State != "" && g.State != q.State || q.State == "" && len(seen.Counts) == 0 {
			continue
		}
		all = append(all, ranked{dlq.GroupCursor{Rank: rankOf(&seen, q.Sort), ID: g.ID}, seen})
	}
	compare := func(a, b dlq.GroupCursor) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), slices.Compare(b.ID[:], a.ID[:]))
	}
	slices.SortFunc(all, func(a, b ranked) int { return compare(a.GroupCursor, b.GroupCursor) })
	for _, r := range all {
		if q.After != nil && compare(*q.After, r.GroupCursor) >= 0 {
			continue
		}
		if len(page.Groups) == max(q.PageSize, 1) {
			last := &page.Groups[len(page.Groups)-1]
			page.Next = &dlq.GroupCursor{Rank: rankOf(last, q.Sort), ID: last.ID}
			break
		}
		page.Groups = append(page.Groups, r.Group)
	}
	return page, nil
}

// rankOf is the number by which a list is sorted.
func rankOf(g *dlq.Group, sort dlq.GroupSort) int64 {
	switch sort {
	case dlq.GroupsByPending:
		return g.Pending()
	case dlq.GroupsByLastSeen:
		if g.IsPartial { // it includes hidden messages
			return g.FirstSeen.UnixMicro()
		}
		return g.LastSeen.UnixMicro()
	default:
		return g.FirstSeen.UnixMicro()
	}
}

// Group is like postgres.Store.Group.
func (m *Store) Group(_ context.Context, id dlq.ID, within string) (dlq.Group, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.groups[id]; g != nil {
		if seen, visible := m.view(g, within); visible {
			return seen, nil
		}
	}
	return dlq.Group{}, dlq.GroupNotFound(id)
}

// ChangeGroup is like postgres.Store.ChangeGroup.
func (m *Store) ChangeGroup(ctx context.Context, id dlq.ID, change dlq.GroupChange) error {
	change = change.Storable()
	return m.changeGroup(ctx, id, func(g *group) {
		for _, text := range []struct{ from, to *string }{{change.Owner, &g.Owner}, {change.Ticket, &g.Ticket}, {change.Note, &g.Note}} {
			if text.from != nil {
				*text.to = *text.from
			}
		}
		if change.State != nil {
			g.open(m.now(), "")
			g.State, g.Hold = *change.State, change.Hold
			if change.Hold.Count > 0 {
				g.holdCount = g.Arrived + change.Hold.Count
			}
		}
	})
}

// FixGroup is like postgres.Store.FixGroup.
func (m *Store) FixGroup(ctx context.Context, id dlq.ID, fix dlq.GroupFix) error {
	return m.changeGroup(ctx, id, func(g *group) {
		g.open(fix.At, "")
		g.State, g.fix = dlq.GroupFixed, fix
		if fix.Ticket != nil {
			g.Ticket = dlq.StorableText(*fix.Ticket)
		}
	})
}

func (m *Store) changeGroup(ctx context.Context, id dlq.ID, change func(*group)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[id]
	if g == nil {
		return dlq.GroupNotFound(id)
	}
	change(g)
	m.record(ctx, dlq.TargetGroup, id, g.dlqTopic)
	return nil
}

// OpenHeldGroups is like postgres.Store.OpenHeldGroups.
func (m *Store) OpenHeldGroups(context.Context) (opened int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.now()
	for _, g := range m.groups {
		if g.State != dlq.GroupHeld {
			continue
		}
		seen, _ := m.view(g, "")
		var reason string
		switch {
		case !g.Hold.Until.IsZero() && !g.Hold.Until.After(at):
			reason = dlq.HoldUntilReason
		case g.holdCount > 0 && g.holdCount <= g.Arrived:
			reason = dlq.HoldCountReason
		case g.Hold.Rate > 0 && g.Hold.Rate <= seen.LastHour:
			reason = dlq.HoldRateReason
		default:
			continue
		}
		g.open(at, reason)
		opened++
	}
	return opened, nil
}

// PurgeGroups removes nothing: groups in memory are few.
func (m *Store) PurgeGroups(context.Context, time.Duration, int) (int64, error) { return 0, nil }
