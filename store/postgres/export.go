package postgres

import (
	"context"

	"dlqmanager/dlq"
)

// ExportPage chooses the next messages of an export. It reads only their sizes. A topic without messages has an empty page.
func (s *Store) ExportPage(ctx context.Context, q dlq.ListQuery) (dlq.ExportPage, error) {
	q.OldestFirst, q.IsBare = true, true
	listed, err := s.List(ctx, q)
	if err != nil {
		return dlq.ExportPage{}, err
	}
	var page dlq.ExportPage
	n := len(listed.Messages)
	switch {
	case !listed.HasNext:
	case listed.Searched != nil:
		page.Next = listed.Searched.Last
	case n > 0:
		page.Next = new(listed.Messages[n-1].Keyset())
	}
	if n == 0 {
		return page, nil
	}
	page.Messages, err = s.Weigh(ctx, dlq.DetailQuery{IDs: column(listed.Messages, func(m *dlq.Message) dlq.ID { return m.ID })})
	return page, err
}
