package postgres

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// searchSQL reads the headers and payloads of the next @look messages in the order of the list, and returns the
// first @limit messages that match. If fewer messages match, it looks at all @look messages. Four columns come
// first: the number of messages that it has looked at, the time and the seq of the last of these messages, and
// whether a message follows.
const searchSQL = `
WITH looked AS MATERIALIZED (
	SELECT id, created_at, seq, row_number() OVER () AS place
	FROM (
		SELECT m.id, m.created_at, m.seq
		FROM unnest(@statuses::text[]) AS wanted (status)
		CROSS JOIN LATERAL ` + nextOfTopic + `
		ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
		LIMIT @look
	) AS next
), found AS MATERIALIZED (
	SELECT looked.place, looked.id
	FROM looked
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = looked.id LIMIT 1) AS m
	WHERE true /* record */
	ORDER BY looked.place
	LIMIT @limit
), reached AS MATERIALIZED (
	SELECT looked.place, looked.created_at, looked.seq
	FROM looked
	WHERE looked.place <= (SELECT CASE WHEN count(*) = @limit THEN max(place) ELSE @look END FROM found)
	ORDER BY looked.place DESC
	LIMIT 1
)
SELECT COALESCE(reached.place, 0), reached.created_at, reached.seq, m.id IS NOT NULL,` + listedColumns + `
FROM (SELECT) AS always
LEFT JOIN reached ON true
LEFT JOIN (found JOIN dlq.dlq_messages m ON m.id = found.id` + withPayload + `) ON true
ORDER BY found.place`

// searchStep is how many messages a search looks at before it checks whether there is time left. The
// first step looks at a quarter of that number, which fills the page if many messages match.
const searchStep = 2000

// search looks at a limited number of messages with some headers or payload, all in one snapshot.
func (s *Store) search(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, err error) {
	limit := cmp.Or(q.SearchLimit, dlq.SearchLimit)
	err = s.inSnapshot(ctx, "search messages", func(send snapshotSender) error {
		page = dlq.Page{Searched: &dlq.Searched{}}
		scan := fittingMessages()
		last := q.After
		began := time.Now()
		step := searchStep / 4
		for done := false; !done; step = searchStep {
			args, sql := searchOf(q, last)
			room, look := pageSizeOf(q)-len(page.Messages), min(step, limit-page.Searched.Messages)
			args["limit"], args["look"] = room, look
			var found []dlq.Message
			var looked int
			var lastAt *time.Time
			var lastSeq *int64
			err := send(false, func(batch *pgx.Batch) {
				batch.Queue(inOrderSQL)
				batch.Queue(byIndexSQL)
				batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
					found, err = collectAfter(rows, scan, &looked, &lastAt, &lastSeq)
					return err
				})
			})
			if err != nil {
				return err
			}
			shown, isFull := pageOf(found, len(found), messageID)
			page.Messages = append(page.Messages, shown...)
			page.Searched.Messages += looked
			if lastAt != nil {
				last = &dlq.Keyset{CreatedAt: lastAt.UTC(), Seq: *lastSeq}
				page.Searched.Last = last
			}
			if isFull { // the next page begins after the last message that fits
				end := page.Messages[len(page.Messages)-1].Keyset()
				page.Searched.Last = &end
				break
			}
			page.Searched.IsComplete = len(found) < room && looked < look
			done = page.Searched.IsComplete || len(found) == room || page.Searched.Messages >= limit || time.Since(began) > dlq.SearchTime
		}
		return send(true, func(*pgx.Batch) {})
	})
	if err != nil {
		return dlq.Page{}, err
	}
	page.Total, page.HasNext = int64(len(page.Messages)), !page.Searched.IsComplete
	page.TotalExact = page.Searched.IsComplete && q.After == nil
	return page, nil
}

// searchOf is the statement of a search after a message, with its parameters.
func searchOf(q *dlq.ListQuery, after *dlq.Keyset) (args pgx.NamedArgs, sql string) {
	next := *q
	next.After = after
	args = listArgs(&next)
	var rest dlq.Filter
	next.Filter, rest = q.SearchScope()
	return args, strings.Replace(listed(searchSQL, &next), "true /* record */", "true"+conditions(&rest), 1)
}
