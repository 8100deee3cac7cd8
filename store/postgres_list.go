package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// List returns one page of a topic's messages in the order of their places.
//
// With After, and on the first page, it costs the same at any depth: each status
// on each side of the topic is one index scan that stops after a page, and they
// are merged. Page without After skips rows one by one, so it costs more the
// further it goes. ErrorContains must look at every message until a page is
// full.
func (p *Postgres) List(ctx context.Context, q dlq.ListQuery) (page dlq.Page, err error) {
	listed := false
	if q.Key != nil {
		page, listed, err = p.listKey(ctx, q)
	}
	if err == nil && !listed {
		page, err = p.listBranches(ctx, q)
	}
	if err != nil {
		return dlq.Page{}, failed("list messages", err)
	}
	size := pageSizeOf(q)
	if page.HasNext = len(page.Messages) > size; page.HasNext {
		page.Messages = page.Messages[:size]
	}
	page.TotalExact = page.Total <= dlq.CountLimit
	page.Total = min(page.Total, dlq.CountLimit)
	return page, nil
}

// listBranches gives one message more than the page holds, and a total that goes
// one beyond what is counted.
func (p *Postgres) listBranches(ctx context.Context, q dlq.ListQuery) (page dlq.Page, err error) {
	args := pgx.NamedArgs{"topic": q.Topic}
	conditions := filterConditions(q.Filter, args)
	list := func(batch *pgx.Batch) {
		batch.Queue(listSQL(q, conditions, args), args).Query(func(rows pgx.Rows) (err error) {
			page.Messages, err = pgx.CollectRows(rows, scanMessage)
			return err
		})
	}
	count := func(batch *pgx.Batch) {
		batch.Queue(countSQL(q.Filter, conditions), args).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
	}
	send := func(statements ...func(*pgx.Batch)) error {
		batch := &pgx.Batch{} // one round trip for all, and one transaction
		if q.Key == nil {     // keys have an index of their own
			batch.Queue(walkSQL)
		}
		for _, queue := range statements {
			queue(batch)
		}
		return p.pool.SendBatch(ctx, batch).Close()
	}
	if q.ErrorContains == "" || q.After != nil || q.Page > 1 {
		err = send(list, count)
		return page, err
	}
	// A search that does not fill its first page has seen everything. Counting
	// that would take as long again.
	if err = send(list); err == nil && len(page.Messages) > pageSizeOf(q) {
		err = send(count)
		return page, err
	}
	page.Total = int64(len(page.Messages))
	return page, err
}

// sides are the two ways in which a topic matches. The second leaves out what
// the first has.
var sides = []string{"m.dlq_topic = @topic", "m.original_topic = @topic AND m.dlq_topic <> @topic"}

// filterConditions are what a filter asks beside topic and status. Its
// parameters go into args.
func filterConditions(f dlq.Filter, args pgx.NamedArgs) string {
	var b strings.Builder
	if f.ErrorContains != "" {
		part := text(f.ErrorContains)
		b.WriteString(" AND m.error_message" + asciiCollation(part) + " ILIKE @error")
		args["error"] = "%" + escapeLike(part) + "%"
	}
	if f.Key != nil {
		b.WriteString(" AND m.key_hash = @hash AND b.key_hash = @hash AND b.key = @key")
		args["hash"], args["key"] = dlq.KeyHash(f.Key, dlq.ID{}), f.Key
	}
	if !f.CreatedFrom.IsZero() {
		b.WriteString(" AND m.created_at >= @from")
		args["from"] = f.CreatedFrom
	}
	if !f.CreatedTo.IsZero() {
		b.WriteString(" AND m.created_at < @to")
		args["to"] = f.CreatedTo
	}
	return b.String()
}

// asciiCollation spares the server to fold letters that the part does not have:
// by most locales' rules that takes as long as all the rest of a search. What it
// misses are signs that fold to a letter of ASCII, like that of the kelvin.
func asciiCollation(part string) string {
	if strings.ContainsFunc(part, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return ` COLLATE "C"`
}

// escapeLike makes the wildcards of LIKE stand for themselves.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace

// branches is one SELECT for each side and status. Statuses are written into
// the text, as there are four: the planner then knows how rare each one is.
func branches(f dlq.Filter, selected, conditions, ending string) string {
	var parts []string
	for _, status := range dlq.Statuses {
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, status) {
			parts = append(parts, bothSides(f, selected, " AND m.status = '"+string(status)+"'"+conditions, ending))
		}
	}
	if len(parts) == 0 { // only statuses that do not exist
		return bothSides(f, selected, " AND false", "")
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

// bothSides is one SELECT for each side.
func bothSides(f dlq.Filter, selected, conditions, ending string) string {
	tables := "dlq.dlq_messages m"
	if f.Key != nil {
		tables += " JOIN dlq.dlq_message_bodies b ON b.message_id = m.id"
	}
	parts := make([]string, len(sides))
	for i, side := range sides {
		parts[i] = fmt.Sprintf("(SELECT %s FROM %s WHERE %s%s%s)", selected, tables, side, conditions, ending)
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

// inPlace is the order of places, oldest first.
const inPlace = " ORDER BY m.created_at, m.seq"

// pageSizeOf is how many messages the page holds.
func pageSizeOf(q dlq.ListQuery) int { return max(q.PageSize, 1) }

// pageOf says which messages m the page takes of those that match: the condition
// that they come after the query's place, their order, and with @limit and @skip
// one message more than the page holds, to see whether there is a next one.
func pageOf(q dlq.ListQuery, args pgx.NamedArgs) (after, order string) {
	order, beyond := " ORDER BY m.created_at DESC, m.seq DESC", "<"
	if q.OldestFirst {
		order, beyond = inPlace, ">"
	}
	size := pageSizeOf(q)
	args["limit"], args["skip"] = size+1, size*(max(q.Page, 1)-1)
	if q.After != nil {
		after = " AND (m.created_at, m.seq) " + beyond + " (@after_time::timestamptz, @after_seq::bigint)"
		args["after_time"], args["after_seq"], args["skip"] = q.After.CreatedAt, q.After.Seq, 0
	}
	return after, order
}

// listSQL chooses ids first, so that rows which are only skipped are not carried
// along.
func listSQL(q dlq.ListQuery, conditions string, args pgx.NamedArgs) string {
	after, order := pageOf(q, args)
	return "SELECT " + messageColumns + " FROM (\nSELECT m.id FROM (\n" +
		branches(q.Filter, "m.id, m.created_at, m.seq", conditions+after, order+" LIMIT @limit::bigint + @skip") +
		"\n) AS m" + order + " LIMIT @limit OFFSET @skip\n) AS page JOIN dlq.dlq_messages m ON m.id = page.id" + order
}

// countSQL stops at one more than is counted exactly. A search for a part of the
// error in all statuses looks at so much that the planner may choose how: it reads
// in parallel, or the table as it lies. What statuses there are must not mislead it
// (see walkSQL), so they are not asked for then.
func countSQL(f dlq.Filter, conditions string) string {
	var matches string
	switch {
	case f.Key != nil: // has an index of its own; in order, all would be looked up first
		matches = branches(f, "1", conditions, "")
	case f.ErrorContains != "" && len(f.Statuses) == 0:
		matches = bothSides(f, "1", conditions, "")
	default:
		matches = branches(f, "1", conditions, inPlace)
	}
	return fmt.Sprintf("SELECT count(*) FROM (\n%s\nLIMIT %d) AS m", matches, dlq.CountLimit+1)
}

// walkSQL makes the statements of its transaction read in the order that they ask
// for. Left to itself, the planner takes the index of statuses for one that it
// believes to be rare, and then that finds the messages of all topics. The few
// rows that are sorted in the end look so dear to it then that it would compile
// the statement.
const walkSQL = `SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('jit', 'off', true)`

// topicsSQL counts along the index of dead-letter topics, which has all that is
// counted in it. Rows that another program has put in, with the documented
// columns only, have no dead-letter topic and stand under their original one.
const topicsSQL = `
WITH counted AS (
	SELECT dlq_topic, '' AS original_topic, status, count(*) AS n
	FROM dlq.dlq_messages
	WHERE dlq_topic > ''
	GROUP BY dlq_topic, status
	UNION ALL
	SELECT '', original_topic, status, count(*)
	FROM dlq.dlq_messages
	WHERE dlq_topic = ''
	GROUP BY original_topic, status
)
SELECT CASE WHEN c.dlq_topic = '' THEN c.original_topic ELSE c.dlq_topic END, c.status, c.n,
	newest.created_at, newest.seq, newest.original_topic, oldest.created_at
FROM counted c
CROSS JOIN LATERAL (
	SELECT m.seq, m.original_topic, m.created_at
	FROM dlq.dlq_messages m
	WHERE m.dlq_topic = c.dlq_topic AND m.status = c.status AND (c.dlq_topic <> '' OR m.original_topic = c.original_topic)
	ORDER BY m.created_at DESC, m.seq DESC
	LIMIT 1
) AS newest
CROSS JOIN LATERAL (
	SELECT m.created_at
	FROM dlq.dlq_messages m
	WHERE m.dlq_topic = c.dlq_topic AND m.status = c.status AND (c.dlq_topic <> '' OR m.original_topic = c.original_topic)
	ORDER BY m.created_at, m.seq
	LIMIT 1
) AS oldest`

// Topics summarises every dead-letter topic, in the order of their names.
func (p *Postgres) Topics(ctx context.Context) ([]dlq.TopicSummary, error) {
	topics := topicSummaries{}
	var one topicCount
	batch := &pgx.Batch{}
	batch.Queue(walkSQL)
	batch.Queue(topicsSQL).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&one.topic, (*string)(&one.status), &one.count, &one.newest.CreatedAt, &one.newest.Seq,
			&one.originalTopic, &one.oldest}, func() error {
			topics.add(one)
			return nil
		})
		return err
	})
	if err := p.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, failed("list topics", err)
	}
	return topics.sorted(), nil
}
