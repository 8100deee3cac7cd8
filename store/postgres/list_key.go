package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// listKey lists messages by listKeySQL. If there are too many, isRare is false, and there is no page.
func (s *Store) listKey(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, isRare bool, err error) {
	err = s.batch(ctx, "list messages", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		batch.Queue(listed(listKeySQL, q), listArgs(q)).Query(pageCollector(&page, &isRare))
	})
	return page, isRare, err
}

// listText lists messages with the texts of a search. If there are too many groups or messages to
// read by their group, isListed is false, and there is no page.
func (s *Store) listText(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, isListed bool, err error) {
	args := listArgs(q)
	err = s.inSnapshot(ctx, "search messages", func(send snapshotSender) error {
		var groups [][16]byte
		var messages int64
		err := send(false, func(batch *pgx.Batch) {
			batch.Queue(possibleGroupsSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&groups, &messages) })
		})
		if err != nil {
			return err
		}
		args["groups"] = groups
		switch {
		case len(groups) <= fewGroups && messages <= fewMessages:
			return send(true, func(batch *pgx.Batch) {
				batch.Queue(byIndexSQL)
				batch.Queue(listed(listFewSQL, q), args).Query(pageCollector(&page, &isListed))
			})
		case len(groups) <= maxPossibleGroups && messages <= maxPossibleMessages:
			isListed = true
			list := listed(pruned(listSQL, &q.Filter, ofGroups), q)
			return sendPage(send, q, args, &page, list, byIndexSQL, listed(countFewSQL, q))
		}
		isListed = false
		return send(true, func(*pgx.Batch) {})
	})
	return page, isListed, err
}

func pageCollector(page *dlq.Page, isRare *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		page.Messages, err = collectAfter(rows, fittingMessages(), isRare, &page.Total)
		return err
	}
}

// collectAfter reads rows of three parts: the values of prefix, a bool that tells whether a message follows, and
// the message. So a statement can return the values of prefix even without messages.
func collectAfter[T any](rows pgx.Rows, scan pgx.RowToFunc[T], prefix ...any) (found []T, err error) {
	var follows bool
	var targets []any // columns with a nil target are skipped
	prefix = append(prefix, &follows)
	for rows.Next() {
		if targets == nil { // after Next, because failed rows have no columns
			targets = make([]any, len(rows.FieldDescriptions()))
			copy(targets, prefix)
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		if !follows {
			continue
		}
		row, err := scan(withoutPrefix{rows, len(prefix)})
		if err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// withoutPrefix is a row without its first columns.
type withoutPrefix struct {
	pgx.Rows
	columns int
}

// Scan skips the first columns.
func (r withoutPrefix) Scan(targets ...any) error {
	return r.Rows.Scan(append(make([]any, r.columns), targets...)...)
}
