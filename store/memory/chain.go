package memory

import (
	"cmp"
	"context"
	"slices"

	"dlqmanager/dlq"
)

// Chain is like postgres.Store.Chain.
func (m *Store) Chain(_ context.Context, id dlq.ID) (dlq.Chain, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID[id] == nil && m.archive[id] == nil {
		return dlq.Chain{}, dlq.MessageNotFound(id)
	}
	next := map[dlq.ID][]dlq.ID{}
	link := func(e *entry) {
		if !e.PreviousID.IsZero() {
			next[e.PreviousID] = append(next[e.PreviousID], e.ID)
			next[e.ID] = append(next[e.ID], e.PreviousID)
		}
	}
	for _, e := range m.order {
		link(e)
	}
	for _, e := range m.archive {
		link(e)
	}
	var chain dlq.Chain
	known := map[dlq.ID]bool{id: true}
	for found := []dlq.ID{id}; len(found) > 0; found = found[1:] {
		if hop, exists := m.hop(found[0]); exists {
			if chain.Truncated = len(chain.Hops) == dlq.ChainLimit; chain.Truncated {
				break
			}
			chain.Hops = append(chain.Hops, hop)
		}
		for _, id := range next[found[0]] {
			if !known[id] {
				known[id] = true
				found = append(found, id)
			}
		}
	}
	slices.SortFunc(chain.Hops, func(a, b dlq.Hop) int { return cmp.Compare(a.Seq, b.Seq) })
	return chain, nil
}

func (m *Store) hop(id dlq.ID) (hop dlq.Hop, exists bool) {
	e := m.byID[id]
	archived := e == nil
	if archived {
		if e = m.archive[id]; e == nil {
			return dlq.Hop{}, false
		}
	}
	hop = dlq.Hop{Message: e.Message, Source: e.Source, Archived: archived, Edits: e.Edits, Attempts: slices.Clone(e.Attempts)}
	hop.Payload, hop.ErrorMessage, hop.ErrorClass = nil, "", ""
	return hop, true
}
