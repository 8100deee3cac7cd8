package memory

import (
	"cmp"
	"context"
	"slices"

	"dlqmanager/dlq"
)

// PreviewBulk is like postgres.Store.PreviewBulk.
func (m *Store) PreviewBulk(_ context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec = spec.Storable()
	preview := dlq.BulkPreview{ByStatus: map[dlq.Status]int64{}}
	reasons, classes, targets, groups := map[string]int64{}, map[string]int64{}, map[string]int64{}, map[dlq.ID]int64{}
	for _, e := range m.order {
		if !matches(e, &spec.Filter) {
			continue
		}
		preview.ByStatus[e.Status]++
		if reason := m.skipReason(e, &spec); reason != "" {
			preview.Skipped++
			reasons[reason]++
			continue
		}
		preview.Matched++
		classes[cmp.Or(e.ErrorClass, dlq.NoErrorClass)]++
		targets[e.OriginalTopic]++
		groups[e.GroupID]++
		if len(preview.Sample) < dlq.PreviewSample {
			preview.Sample = append(preview.Sample, e.Listed())
		}
	}
	preview.SkipReasons = mostFrequent(reasons)
	preview.ByErrorClass, preview.ByTarget = mostFrequent(classes), mostFrequent(targets)
	preview.ByGroup, preview.Groups = m.largestGroups(groups)
	return preview, nil
}

// skipReason is why a bulk retry would skip the message, or "" when it would send it.
func (m *Store) skipReason(e *entry, spec *dlq.BulkSpec) string {
	switch {
	case e.Status == dlq.StatusResolved:
		return dlq.SkipResolved
	case e.Status == dlq.StatusDead:
		return dlq.SkipDead
	case e.Status == dlq.StatusRetrying:
		return dlq.SkipRetrying
	case e.RetryCount >= e.MaxRetries:
		return dlq.SkipExhausted
	case m.topics.CheckOrigin(&e.Message) != nil:
		return dlq.SkipNoOrigin
	case !m.inReach(e, spec.Within):
		return dlq.SkipForeign
	case e.Suspicious && !spec.IncludeSuspicious:
		return dlq.SkipSuspicious
	}
	return ""
}

func mostFrequent(counts map[string]int64) []dlq.PreviewCount {
	var list []dlq.PreviewCount
	for name, n := range counts {
		list = append(list, dlq.PreviewCount{Name: name, Count: n})
	}
	slices.SortFunc(list, func(a, b dlq.PreviewCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), dlq.PreviewRows)]
}

// largestGroups are the groups with the most messages, and the number of all groups.
func (m *Store) largestGroups(counts map[dlq.ID]int64) (largest []dlq.PreviewGroup, groups int64) {
	for id, n := range counts {
		counted := dlq.PreviewGroup{ID: id, Count: n}
		if g := m.groups[id]; g != nil {
			counted.Fingerprint = g.Fingerprint
		}
		largest = append(largest, counted)
	}
	slices.SortFunc(largest, func(a, b dlq.PreviewGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.ID[:], b.ID[:]))
	})
	return largest[:min(len(largest), dlq.PreviewRows)], int64(len(counts))
}
