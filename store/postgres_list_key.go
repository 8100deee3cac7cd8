package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// keyReach is up to how many messages of a key, archived ones included, are all
// looked up for a list: a tenth of a second's work.
const keyReach = 20_000

// listKey lists the messages of a key, unless it has more than keyReach: then few is
// false, and it is for the planner to say whether they are still better looked up
// than the messages of the topic walked.
func (p *Postgres) listKey(ctx context.Context, q dlq.ListQuery) (page dlq.Page, few bool, err error) {
	args := pgx.NamedArgs{"topic": q.Topic}
	batch := &pgx.Batch{}
	batch.Queue(lookUpSQL)
	batch.Queue(listKeySQL(q, args), args).Query(func(rows pgx.Rows) (err error) {
		page.Messages, err = collectBehind(rows, scanMessage, &few, &page.Total)
		return err
	})
	if err := p.pool.SendBatch(ctx, batch).Close(); err != nil {
		return dlq.Page{}, false, err
	}
	return page, few, nil
}

// lookUpSQL makes the next statement of its transaction go by indexes: that a key
// is rare is not always known to the planner.
const lookUpSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

// listKeySQL looks every message of the key up, once for the page and the total.
// The first row may carry no message. The LIMIT makes it look them up one by one: a
// join might read the whole table.
func listKeySQL(q dlq.ListQuery, args pgx.NamedArgs) string {
	conditions := filterConditions(q.Filter, args)
	after, order := pageOf(q, args)
	return fmt.Sprintf(`
WITH probe AS MATERIALIZED (
	SELECT count(*) <= %[1]d AS few
	FROM (SELECT FROM dlq.dlq_message_bodies WHERE key_hash = @hash AND key IS NOT NULL LIMIT %[1]d + 1) AS looked_at
), match AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM dlq.dlq_message_bodies b
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m
	WHERE (SELECT few FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND %[2]s%[3]s
), page AS (
	SELECT m.id FROM match m WHERE true%[4]s%[5]s LIMIT @limit OFFSET @skip
)
SELECT probe.few, (SELECT count(*) FROM match), m.id IS NOT NULL, %[6]s
FROM probe
LEFT JOIN (page JOIN dlq.dlq_messages m ON m.id = page.id) ON true%[5]s`,
		keyReach, inStatuses(q.Statuses), conditions, after, order, messageColumns)
}
