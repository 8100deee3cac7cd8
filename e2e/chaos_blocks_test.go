package e2e

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockRows locks the rows of a few messages that are being sent or will be sent, like an open transaction
// in psql.
func (c *chaos) lockRows(d *dice) bool {
	return c.block("rowlock", d.locked, func(ctx context.Context, tx pgx.Tx) (string, error) {
		var locked []string
		for _, rows := range []struct {
			status string
			wait   time.Duration // claims are short
		}{{"RETRYING", 3 * time.Second}, {"PENDING", 0}} {
			for from := time.Now(); ; pause(ctx, 5*time.Millisecond) {
				ids, err := lockFew(ctx, tx, rows.status)
				if err != nil {
					return "", err
				}
				for _, id := range ids {
					locked = append(locked, rows.status+" "+id)
				}
				if len(ids) > 0 || time.Since(from) >= rows.wait {
					break
				}
			}
		}
		return strings.Join(locked, ", "), nil
	})
}

func lockFew(ctx context.Context, tx pgx.Tx, status string) ([]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT id::text FROM dlq.dlq_messages
		WHERE status = $1 AND dlq_topic = ANY ($2)
		ORDER BY seq LIMIT 2 FOR UPDATE SKIP LOCKED`, status, chaosTopicNames())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// buildIndex builds an index in a transaction that stays open, which blocks all writes and
// no reads. It is rolled back.
func (c *chaos) buildIndex(d *dice) bool {
	return c.block("index", d.indexed, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, "CREATE INDEX chaos_index ON dlq.dlq_messages (error_message)")
		return "the table, against writers", err
	})
}

// block holds a lock in a transaction for a time. lock returns a description of the locked
// rows. The description is empty if there was nothing to lock.
func (c *chaos) block(name string, d time.Duration, lock func(context.Context, pgx.Tx) (string, error)) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), d+time.Minute)
	defer cancel()
	from := time.Now()
	conn, err := pgx.Connect(ctx, c.databaseURL)
	if err != nil {
		c.journal.note("%s: %v", name, err)
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		c.journal.note("%s: %v", name, err)
		return false
	}
	locked, err := lock(ctx, tx)
	if err != nil || locked == "" {
		c.journal.note("%s: nothing is locked: %v", name, err)
		return false
	}
	c.journal.note("%s: holds %s, for %s", name, locked, d)
	waited := 0
	for held := time.Now(); time.Since(held) < d && c.t.Context().Err() == nil; pause(ctx, 200*time.Millisecond) {
		waited = max(waited, waitingFor(ctx, c.pool, conn.PgConn().PID()))
	}
	err = tx.Rollback(ctx)
	c.windows.add(name, from, time.Now())
	c.journal.note("%s: let go, at most %d sessions waited for it at once (%v)", name, waited, err)
	if waited > 0 {
		c.journal.count("variant: " + name + " that blocked a session")
	}
	return true
}

// rowQuerier is a pool or a connection.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// waitingFor is how many sessions wait for a lock of the session pid; 0 if that is unknown.
func waitingFor(ctx context.Context, db rowQuerier, pid uint32) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var n int
	if db.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))", int32(pid)).Scan(&n) != nil {
		return 0
	}
	return n
}
