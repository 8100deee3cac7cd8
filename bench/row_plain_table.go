package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// plainTableSQL is the table with its ten documented columns, their indexes and their trigger, and
// nothing else.
//
//go:embed plain_table.sql
var plainTableSQL string

// plainTable creates a template with the plain table and the messages of the template "bulk".
// The messages are stored in the order of arrival, and their ids grow. Random ids, the default
// of the table, would scatter a retry's writes to the primary key.
func (b *bench) plainTable(ctx context.Context) error {
	b.step("storing the messages in the documented table")
	if _, err := b.admin.Exec(ctx, "CREATE DATABASE plain TEMPLATE bulk STRATEGY file_copy"); err != nil {
		return err
	}
	db, err := b.open(ctx, "plain")
	if err != nil {
		return err
	}
	defer db.pool.Close() // a database with connections cannot be copied
	return db.exec(ctx, "ALTER SCHEMA dlq RENAME TO ours", plainTableSQL, `
		INSERT INTO dlq.dlq_messages
		SELECT id, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at
		FROM ours.dlq_messages
		ORDER BY created_at`,
		"DROP SCHEMA ours CASCADE", "VACUUM (FREEZE, ANALYZE)", "CHECKPOINT")
}

// The statements of a page. The index on created_at serves as a keyset: a lane continues after its last
// page, past all messages that it has sent. The index on status has no such order, and its scan begins with
// the dead entries of earlier retries. created_at suffices as a key. A claim may start at the created_at of
// the last page again, because the messages that were claimed before are no longer PENDING.
//
// With a share for each lane by a hash of the id, the loop was at best 6 % faster. But the server cannot
// estimate such a share: in two of four runs, claims became many times slower. So lanes only skip locked
// rows. In finalizePlainSQL, the expression on status hides the index from the planner, which expects no
// RETRYING messages. This saves up to 5 %.
const (
	claimPlainSQL = `
UPDATE dlq.dlq_messages m
SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now()
FROM (
	SELECT id
	FROM dlq.dlq_messages
	WHERE original_topic = $1 AND status = 'PENDING' AND retry_count < max_retries AND created_at >= $2
	ORDER BY created_at
	LIMIT 100
	FOR UPDATE SKIP LOCKED
) AS next
WHERE m.id = next.id
RETURNING m.id, m.created_at, m.payload`

	finalizePlainSQL = `
UPDATE dlq.dlq_messages
SET status = 'RESOLVED'
WHERE id = ANY ($1::uuid[]) AND status || '' = 'RETRYING'`
)

func (b *bench) openPlainTable(db *database, publisher activities.Publisher, t *timings) (sender, error) {
	return sender{
		send: func(ctx context.Context) error {
			return plainTableLoop(ctx, db, timedPublisher{publisher, t}, t, b.lanes)
		},
		check: func(ctx context.Context) error {
			var resolved int
			err := db.pool.QueryRow(ctx, "SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED'").Scan(&resolved)
			if err == nil && resolved != b.messages {
				err = fmt.Errorf("the loop over the plain table sent %d of %d messages", resolved, b.messages)
			}
			return err
		},
		close: func() {},
	}, nil
}

func (b *bench) reportPlainTable(ours, loop *bulkResult) {
	title := "bulk retry of " + b.sizeOfBulk() + " messages"
	b.add(row{number: 15, label: "bulk retry vs a plain loop over the documented table",
		title: title + "; baseline: a plain loop over the documented table, without Temporal and " +
			"without our code except the publisher and the pool of connections",
		ours: ours.rate.show(perSecond), base: loop.rate.show(perSecond), judged: ours.rate.over(loop.rate), goal: goal{atLeast: 1},
		notes: []string{
			"the loop claims with SKIP LOCKED in the order of created_at, and sends the payload as the value, without key and headers; " +
				"it has no order by key, no counters, no rate limit and no recovery after a crash; both sides begin with new connections " +
				"(a loop that has sent some thousand messages before is faster)",
			fmt.Sprintf("time of the lanes: %s; of the loop: %s", ours.shares, loop.shares), b.howSidesSend(),
		}})
	microseconds := func(n float64) string { return count(n) + " µs" }
	b.add(row{number: 15, label: "core of PostgreSQL for each message vs the same loop",
		title: "time of a core that PostgreSQL uses for each message of a " + title + "; baseline: of the same loop",
		ours:  ours.cpu.show(microseconds), base: loop.cpu.show(microseconds), judged: ours.cpu.over(loop.cpu), goal: goal{atMost: 1.1}})
	bytes := func(n float64) string { return count(n) + " bytes" }
	b.add(row{number: 15, label: "WAL for each message vs the same loop",
		title: "WAL that PostgreSQL writes for each message of a " + title + "; baseline: of the same loop",
		ours:  ours.wal.show(bytes), base: loop.wal.show(bytes), judged: ours.wal.over(loop.wal), goal: goal{atMost: 0.5},
		notes: []string{"page images after the checkpoint are included"}})
}

// plainTableLoop retries a topic with a loop over the plain table. It has the same publisher
// and number of lanes as our side, but no recovery after a crash.
func plainTableLoop(ctx context.Context, db *database, publisher activities.Publisher, t *timings, lanes int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for range lanes {
		group.Go(func() error { return plainTableLane(groupCtx, db, publisher, t) })
	}
	return group.Wait()
}

func plainTableLane(ctx context.Context, db *database, publisher activities.Publisher, t *timings) error {
	var after time.Time
	for {
		page, reached, err := claimPlain(ctx, db, t, after)
		if err != nil || len(page) == 0 {
			return err
		}
		after = reached
		for _, delivery := range publisher.Publish(ctx, page, dlq.OrderNone, nil) {
			if delivery.Err != nil {
				return delivery.Err
			}
		}
		if err := finalizePlain(ctx, db, t, page); err != nil {
			return err
		}
	}
}

// claimPlain claims a page, and returns the created_at of its newest message.
func claimPlain(ctx context.Context, db *database, t *timings, after time.Time) (page []dlq.Envelope, reached time.Time, err error) {
	defer t.measure(&t.store)()
	rows, err := db.pool.Query(ctx, claimPlainSQL, bulkTopic, after)
	if err != nil {
		return nil, after, err
	}
	reached = after
	page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dlq.Envelope, err error) {
		var created time.Time
		err = row.Scan((*[16]byte)(&e.ID), &created, &e.Record.Value)
		if created.After(reached) {
			reached = created
		}
		e.OriginalTopic = bulkTopic
		return e, err
	})
	return page, reached, err
}

func finalizePlain(ctx context.Context, db *database, t *timings, page []dlq.Envelope) error {
	defer t.measure(&t.store)()
	ids := make([][16]byte, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	ended, err := db.pool.Exec(ctx, finalizePlainSQL, ids)
	if err == nil && int(ended.RowsAffected()) != len(page) {
		err = fmt.Errorf("%d of %d messages were finalized", ended.RowsAffected(), len(page))
	}
	return err
}
