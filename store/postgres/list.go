package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// listSQL reads one index for each status and each name of the topic, in the order
// of the list and no further than the page, and merges them. It chooses ids first,
// so that rows which are only skipped are not carried along. It gives one message
// more than the page holds, to see whether there is a next page.
const listSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id
FROM (
	SELECT m.id, m.created_at, m.seq
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = wanted.status AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @limit::bigint + @skip::bigint)
		UNION ALL
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = wanted.status AND true /* filter */ AND true /* after */
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @limit::bigint + @skip::bigint)
	) AS m
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
) AS page
JOIN dlq.dlq_messages m ON m.id = page.id
ORDER BY page.created_at DESC /* order */, page.seq DESC /* order */`

// countSQL counts along the same indexes and stops at one more than is counted
// exactly.
const countSQL = `
SELECT count(*)
FROM (
	SELECT
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.dlq_topic = @topic AND m.status = wanted.status AND true /* filter */
		ORDER BY m.created_at, m.seq)
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m /* source */
		WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = wanted.status AND true /* filter */
		ORDER BY m.created_at, m.seq)
	) AS m
	LIMIT 10001
) AS counted`

// countAnyOrderSQL leaves it to the planner how to count: a search looks at so much
// that it pays to read in parallel, or the table as it lies, and keys have an index
// of their own.
const countAnyOrderSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM dlq.dlq_messages m /* source */
	WHERE m.dlq_topic = @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT
	FROM dlq.dlq_messages m /* source */
	WHERE m.original_topic = @topic AND m.dlq_topic <> @topic AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	LIMIT 10001
) AS counted`

// listed puts the filter, the order and the place of a list into a statement.
func listed(sql string, q *dlq.ListQuery) string {
	if q.Key != nil { // a frequent one: it is for the planner to say by which index
		sql = strings.ReplaceAll(sql, sourceMark, "dlq.dlq_messages m"+withBodies)
	}
	if q.After != nil {
		sql = strings.ReplaceAll(sql, "true /* after */", "(m.created_at, m.seq) < (@after_time::timestamptz, @after_seq::bigint)")
	}
	if q.OldestFirst {
		sql = strings.NewReplacer("m.seq) <", "m.seq) >", "DESC /* order */", "").Replace(sql)
	}
	return filtered(sql, &q.Filter)
}

// listArgs are the parameters of a list: those of the filter, and where its page is.
func listArgs(q *dlq.ListQuery) pgx.NamedArgs {
	args := filterArgs(&q.Filter)
	size := pageSizeOf(q)
	args["limit"], args["skip"] = size+1, size*(max(q.Page, 1)-1)
	if q.After != nil {
		args["after_time"], args["after_seq"], args["skip"] = timestamptz(q.After.CreatedAt), q.After.Seq, 0
	}
	return args
}

// pageSizeOf is how many messages the page holds.
func pageSizeOf(q *dlq.ListQuery) int { return max(q.PageSize, 1) }

// List returns one page of a topic's messages in the order of their places.
//
// With After, and on the first page, it costs the same at any depth. Page without
// After skips rows one by one, so it costs more the further it goes. ErrorContains
// must look at every message until a page is full.
func (s *Store) List(ctx context.Context, q dlq.ListQuery) (page dlq.Page, err error) {
	few := false
	if q.Key != nil && len(q.IDs) == 0 {
		page, few, err = s.listKey(ctx, &q)
	}
	if err == nil && !few {
		page, err = s.listTopic(ctx, &q)
	}
	if err != nil {
		return dlq.Page{}, err
	}
	size := pageSizeOf(&q)
	if page.HasNext = len(page.Messages) > size; page.HasNext {
		page.Messages = page.Messages[:size]
	}
	page.TotalExact = page.Total <= dlq.CountLimit
	page.Total = min(page.Total, dlq.CountLimit)
	return page, nil
}

// listTopic gives one message more than the page holds, and a total that goes one
// beyond what is counted.
func (s *Store) listTopic(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, err error) {
	args := listArgs(q)
	count := listed(countSQL, q)
	if q.Key != nil || q.ErrorContains != "" && len(q.Statuses) == 0 {
		count = listed(countAnyOrderSQL, q)
	}
	// A search that does not fill its first page has seen everything. Counting that
	// would take as long again.
	search := q.ErrorContains != "" && q.After == nil && q.Page <= 1
	err = s.inSnapshot(ctx, "list messages", func(send snapshotSender) error {
		counting := func(batch *pgx.Batch) {
			batch.Queue(count, args).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
		}
		err := send(!search, func(batch *pgx.Batch) {
			if q.Key == nil { // keys have an index of their own
				batch.Queue(inOrderSQL)
			}
			queue(batch, &page.Messages, scanMessage, listed(listSQL, q), args)
			if !search {
				counting(batch)
			}
		})
		if err != nil || !search {
			return err
		}
		page.Total = int64(len(page.Messages))
		return send(true, func(batch *pgx.Batch) {
			if len(page.Messages) > pageSizeOf(q) {
				counting(batch)
			}
		})
	})
	return page, err
}

// snapshotSender sends statements in one round trip. The last time, it ends the snapshot.
type snapshotSender func(last bool, statements func(*pgx.Batch)) error

// inSnapshot lets all that is sent see one state of the database.
func (s *Store) inSnapshot(ctx context.Context, what string, do func(snapshotSender) error) error {
	ctx, cancel := limited(ctx, inOrderSQL)
	defer cancel()
	err := again(func() error {
		return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { // which closes one that is left inside
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
	if err != nil {
		return failed(what, err)
	}
	return nil
}
