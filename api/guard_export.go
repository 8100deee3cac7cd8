package api

import (
	"context"
	"errors"
	"slices"

	"dlqmanager/dlq"
)

// mayExport refuses the export of a dead-letter topic that the principal may see but not export. If the principal may not see
// the topic, the export is empty.
func (g guard) mayExport(ctx context.Context, topic string) error {
	if err := accessOf(ctx).check(topic); g.topics.IsDeadLetter(topic) && !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	return nil
}

// ExportPage leaves out messages of topics that the principal may not export.
func (g guard) ExportPage(ctx context.Context, query dlq.ListQuery) (dlq.ExportPage, error) {
	if err := g.checkFilter(ctx, &query.Filter, query.Archived); err != nil {
		return dlq.ExportPage{}, err
	}
	query.Within = accessOf(ctx).withinRoute()
	return g.database.ExportPage(ctx, query)
}

// Export leaves out messages that the principal may not export, and the ids of earlier messages that the principal may not see.
func (g guard) Export(ctx context.Context, ids []dlq.ID) ([]dlq.Detail, error) {
	exported, err := g.store.Details(ctx, dlq.DetailQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	exported = slices.DeleteFunc(exported, func(d dlq.Detail) bool { return accessOf(ctx).check(d.DLQTopic) != nil })
	tags, cancel := context.WithTimeout(ctx, maxTagTime)
	defer cancel()
	for i := range exported {
		d := &exported[i]
		hidePrevious(ctx, d)
		if mask := g.masking.For(d.DLQTopic, d.OriginalTopic); mask != nil {
			*d = g.hideListed(tags, mask, d).Detail
		}
	}
	return exported, nil
}
