package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// listed puts the filter, the order and the cursor of a list into a statement.
func listed(sql string, q *dlq.ListQuery) string {
	if q.IsLookup() && len(q.IDs) == 0 { // a frequent key: the planner chooses the index
		sql = strings.ReplaceAll(sql, sourceMark, "dlq.dlq_messages m"+withBodies)
	}
	if q.After != nil {
		sql = strings.ReplaceAll(sql, afterMark, "(m.created_at, m.seq) < (@after_time::timestamptz, @after_seq::bigint)")
	}
	if q.OldestFirst {
		sql = strings.NewReplacer("m.seq) <", "m.seq) >", descMark, "").Replace(sql)
	}
	sql = strings.Replace(sql, "true /* lookup */", probe(&q.Filter), 1)
	return filtered(sql, &q.Filter)
}

// inlinedRecord is the size, in bytes, of the largest record whose payload a list reads.
const inlinedRecord = 256 << 10

// listArgs are the parameters of a list: its filter, and the position of the page.
func listArgs(q *dlq.ListQuery) pgx.NamedArgs {
	args := verifyArgs(q.VerifyGroups, filterArgs(&q.Filter))
	size := pageSizeOf(q)
	args["inlined"] = inlinedRecord
	if q.IsBare {
		args["inlined"] = -1
	}
	args["searched_bits"] = searchedBits(&q.Filter)
	skip := size * (max(q.Page, 1) - 1)
	if q.After != nil {
		args["after_time"], args["after_seq"], skip = timestamptz(q.After.CreatedAt), q.After.Seq, 0
	}
	args["limit"], args["skip"], args["look"] = size+1, skip, size+1+skip
	return args
}

// fitting scans the entries of one page. For entries that do not fit into the answer, it returns empty entries.
func fitting[T any](scan pgx.RowToFunc[T], size func(*T) int) pgx.RowToFunc[T] {
	var room dlq.ListRoom
	isFull := false
	return func(row pgx.CollectableRow) (entry T, err error) {
		if isFull {
			return entry, nil
		}
		entry, err = scan(row)
		if isFull = !room.Take(size(&entry)); isFull {
			entry = *new(T)
		}
		return entry, err
	}
}

func fittingMessages() pgx.RowToFunc[dlq.Message] {
	return fitting(scanListed, (*dlq.Message).ListSize)
}

// pageOf returns at most size entries, up to the first empty entry. hasNext says that entries were left out.
func pageOf[T any](entries []T, size int, id func(*T) dlq.ID) (page []T, hasNext bool) {
	for i := range entries {
		if i == size || id(&entries[i]).IsZero() {
			return entries[:i], true
		}
	}
	return entries, false
}

// where has conditions of a list, each with an AND before it.
type where string

func (w *where) add(isWanted bool, condition where) {
	if isWanted {
		*w += " AND " + condition
	}
}

// placed returns pageOf of these entries, with the place where the next page begins.
func placed[T any](entries []T, size int, place func(*T) dlq.Place) (page dlq.PageOf[T]) {
	var hasNext bool
	page.Entries, hasNext = pageOf(entries, size, func(entry *T) dlq.ID { return place(entry).ID })
	if n := len(page.Entries); hasNext && n > 0 {
		page.Next = new(place(&page.Entries[n-1]))
	}
	return page
}

func messageID(m *dlq.Message) dlq.ID { return m.ID }

func pageSizeOf(q *dlq.ListQuery) int { return max(q.PageSize, 1) }

// List returns one page of a topic's messages, sorted by their Keyset.
//
// With After, and for the first page, the cost does not depend on the depth. Page without After skips
// rows one by one, so later pages cost more. A list with ErrorContains, Class or ConsumerGroup reads
// every message of the groups that can have these texts, or of the topic, until the page is full.
func (s *Store) List(ctx context.Context, q dlq.ListQuery) (page dlq.Page, err error) {
	q.VerifyGroups = s.VerifyGroups
	isListed := false
	switch {
	case q.IsSearch():
		return s.search(ctx, &q)
	case q.IsLookup() && len(q.IDs) == 0:
		page, isListed, err = s.listKey(ctx, &q)
	case len(searchedBits(&q.Filter)) > 0 && q.Group.IsZero() && len(q.IDs) == 0:
		page, isListed, err = s.listText(ctx, &q)
	}
	if err == nil && !isListed {
		page, err = s.listTopic(ctx, &q)
	}
	if err != nil {
		return dlq.Page{}, err
	}
	page.Messages, page.HasNext = pageOf(page.Messages, pageSizeOf(&q), messageID)
	page.TotalExact = page.Total <= dlq.CountLimit
	page.Total = min(page.Total, dlq.CountLimit)
	return page, nil
}

// listTopic returns one message more than the page holds, and a total of at most CountLimit + 1.
func (s *Store) listTopic(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, err error) {
	args := listArgs(q)
	list, count := listed(pruned(listSQL, &q.Filter, possibleMessages), q), listed(pruned(countSQL, &q.Filter, possibleMessages), q)
	switch {
	case !q.Group.IsZero() && !q.IsLookup() && len(q.IDs) == 0:
		list, count = listed(listGroupSQL, q), listed(countGroupSQL, q)
	case q.IsLookup() || q.IsText() && len(q.Statuses) == 0:
		count = listed(pruned(countAnyOrderSQL, &q.Filter, possibleMessages), q)
	case q.Within != "" && !q.IsText() && len(q.IDs) == 0:
		topics, isCheaper, err := s.granted(ctx, q)
		if err != nil {
			return dlq.Page{}, err
		}
		if args["granted"] = topics; isCheaper {
			list, count = listed(listGrantedSQL, q), listed(countGrantedSQL, q)
		}
	}
	err = s.inSnapshot(ctx, "list messages", func(send snapshotSender) error {
		page = dlq.Page{}
		return sendPage(send, q, args, &page, list, inOrderSQL, count)
	})
	return page, err
}

// sendPage reads a page in order, and its total. setting is the planner setting for count.
func sendPage(send snapshotSender, q *dlq.ListQuery, args pgx.NamedArgs, page *dlq.Page, list, setting, count string) error {
	// A count takes as long as the search. A search that does not fill its first page has read all messages, and needs no count.
	search := !q.IsBare && q.IsText() && q.After == nil && q.Page <= 1
	queueCount := func(batch *pgx.Batch) {
		if setting != inOrderSQL {
			batch.Queue(setting)
		}
		batch.Queue(count, args).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
	}
	err := send(!search, func(batch *pgx.Batch) {
		if !q.IsLookup() { // keys have an index of their own
			batch.Queue(inOrderSQL)
		}
		queueQuery(batch, &page.Messages, fittingMessages(), list, args)
		if !search && !q.IsBare {
			queueCount(batch)
		}
	})
	if err != nil || !search {
		return err
	}
	page.Total = int64(len(page.Messages))
	return send(true, func(batch *pgx.Batch) {
		if len(page.Messages) > pageSizeOf(q) {
			queueCount(batch)
		}
	})
}

// snapshotSender sends statements in one round trip. The last call ends the snapshot.
type snapshotSender func(last bool, statements func(*pgx.Batch)) error

// inSnapshot runs all statements of do in one snapshot of the database.
func (s *Store) inSnapshot(ctx context.Context, operation string, do func(snapshotSender) error) error {
	ctx, cancel := withCallTimeout(ctx, inOrderSQL)
	defer cancel()
	err := retryOnConflict(func() error {
		return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { // closes a connection with an open transaction
			begun := false
			return do(func(last bool, statements func(*pgx.Batch)) error {
				batch := &pgx.Batch{}
				if !begun {
					begun = true
					batch.Queue(`BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ`)
				}
				statements(batch)
				if last {
					batch.Queue(`COMMIT`)
				}
				return conn.SendBatch(ctx, batch).Close()
			})
		})
	})
	return wrap(operation, err)
}
