package main

import (
	"context"
	"fmt"
	"time"
)

// fewLanes and manyLanes are the numbers of lanes that row 16 compares.
const (
	fewLanes  = 4
	manyLanes = 16
)

// measureLanes counts the rows that PostgreSQL reads for a bulk retry: a lane must not
// read the messages of other lanes.
func (b *bench) measureLanes(ctx context.Context) error {
	if err := b.template(ctx, "lanes", seedTopic{name: bulkTopic, pending: b.few}); err != nil {
		return err
	}
	var many, few spread
	for run := range b.runs {
		b.step("rows read, run %d of %d", run+1, b.runs)
		for lanes, read := range map[int]*spread{fewLanes: &few, manyLanes: &many} {
			err := b.onCopy(ctx, "lanes", func(db *database, k *broker) error {
				rows, err := b.rowsRead(ctx, db, k, lanes)
				*read = append(*read, rows)
				return err
			})
			if err != nil {
				return err
			}
		}
		b.step("       %.1f and %.1f rows a message", many[run], few[run])
	}
	rows := func(n float64) string { return fmt.Sprintf("%.1f rows", n) }
	b.add(row{number: 16, label: "rows read for each message, 16 lanes vs 4",
		title: fmt.Sprintf("message rows that PostgreSQL reads for each message of a bulk retry of %s, with %d lanes; baseline: with %d",
			count(float64(b.few)), manyLanes, fewLanes),
		ours: many.show(rows), base: few.show(rows), judged: many.over(few), goal: goal{atMost: 1.2}})
	return nil
}

const rowsReadSQL = `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relid = 'dlq.dlq_messages'::regclass`

func (b *bench) rowsRead(ctx context.Context, db *database, k *broker, lanes int) (perMessage float64, err error) {
	publisher, err := k.publisher()
	if err != nil {
		return 0, err
	}
	defer publisher.Close()
	before, err := rowsReadSoFar(ctx, db)
	if err != nil {
		return 0, err
	}
	e, err := b.startEngine(b.tuned, db, publisher)
	if err != nil {
		return 0, err
	}
	_, err = e.retryAll(ctx, bulkTopic+".dlq", lanes, b.few)
	e.stop()
	if err != nil {
		return 0, err
	}
	after, err := rowsReadSoFar(ctx, db)
	return (after - before) / float64(b.few), err
}

// rowsReadSoFar returns the number of rows that PostgreSQL has read in the database. It first ends all
// sessions, since a session reports its statistics when it ends.
func rowsReadSoFar(ctx context.Context, db *database) (rows float64, err error) {
	db.pool.Reset()
	for others := 1; err == nil && others > 0; {
		err = db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
		if err == nil && others > 0 {
			err = pause(ctx, 20*time.Millisecond)
		}
	}
	if err == nil {
		err = db.pool.QueryRow(ctx, rowsReadSQL).Scan(&rows)
	}
	return rows, err
}
