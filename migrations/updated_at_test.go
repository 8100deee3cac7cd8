package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
)

func TestAnUpdateOfAnotherProgramMovesUpdatedAt(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at) VALUES ('orders', 'boom', '2026-01-01')`)
	exec(t, pool, `UPDATE dlq.dlq_messages SET status = 'DEAD'`)
	exec(t, pool, `UPDATE dlq.dlq_messages SET status = status`)
	require.Equal(t, []string{"DEAD true"}, texts(t, pool, `SELECT status || ' ' || (updated_at > now() - interval '1 hour') FROM dlq.dlq_messages`))
	require.Equal(t, []string{"DEAD 1"}, texts(t, pool, `SELECT status || ' ' || messages FROM dlq.dlq_topic_counts`))
}

func TestAnUpdateOfIdsOrOfAMessageThatWasInsertedIntoAPageMovesUpdatedAt(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET id = gen_random_uuid()`, `UPDATE dlq.dlq_messages SET status = 'DEAD'`} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at, in_page) VALUES ('orders', 'boom', '2026-01-01', true)`)
			exec(t, pool, sql)
			require.Equal(t, []string{"false true"},
				texts(t, pool, `SELECT in_page || ' ' || (updated_at > now() - interval '1 hour') FROM dlq.dlq_messages`))
		})
	}
}

func TestAnUpdateOfAnotherProgramMaySetUpdatedAt(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	exec(t, pool, `UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = '2026-01-01 00:00Z'`)
	require.Equal(t, []string{"2026-01-01"}, texts(t, pool, `SELECT (updated_at AT TIME ZONE 'UTC')::date::text FROM dlq.dlq_messages`))
}

func TestAnUpdateOfManyMessagesIsPlannedForTheirNumber(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at)
		SELECT 'orders', 'boom', '2026-01-01' FROM generate_series(1, 20000)`)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, sql := range []string{
		`SET statement_timeout = '30s'`, // a plan for one message compares each message with all others
		`SET enable_hashjoin = off`, `SET enable_mergejoin = off`,
		`UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE seq = (SELECT min(seq) FROM dlq.dlq_messages)`,
		`UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE status = 'PENDING'`,
		`RESET ALL`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.Equal(t, []string{"20000"}, texts(t, pool, `SELECT count(*)::text FROM dlq.dlq_messages WHERE updated_at > now() - interval '1 hour'`))
}

func TestARoleThatMayChangeOnlyStatusesMovesUpdatedAt(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at) VALUES ('orders', 'boom', '2026-01-01')`)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	for _, sql := range []string{
		`CREATE ROLE statuses_only`, `GRANT USAGE ON SCHEMA dlq TO statuses_only`,
		`GRANT UPDATE (status) ON dlq.dlq_messages TO statuses_only`,
		`SET LOCAL ROLE statuses_only`, `UPDATE dlq.dlq_messages SET status = 'DEAD'`, `RESET ROLE`,
	} {
		_, err := tx.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	var moved bool
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT updated_at > now() - interval '1 hour' FROM dlq.dlq_messages`).Scan(&moved))
	require.True(t, moved)
}

func TestAMessageThatAnotherProgramEndsLeavesItsPage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, in_page) VALUES ('orders', 'boom', 'RETRYING', true)`)
	exec(t, pool, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = '2026-01-01 00:00Z'`)
	require.Equal(t, []string{"false 2026-01-01"}, texts(t, pool, `SELECT in_page || ' ' || (updated_at AT TIME ZONE 'UTC')::date FROM dlq.dlq_messages`))
}
