package migrations_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/migrations"
)

func TestTheMessagesThatAreThereAreCounted(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", append(slices.Clone(documented), next, queues, between, offsets)...)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, status)
		SELECT 'orders', 'orders.dlq', 'e', CASE WHEN n % 3 = 0 THEN 'DEAD' ELSE 'PENDING' END FROM generate_series(1, 10) AS n`)
	for range 2 {
		apply(t, pool, "up", counts)
		require.Equal(t, []string{"orders.dlq orders DEAD 3", "orders.dlq orders PENDING 7"},
			texts(t, pool, `SELECT concat_ws(' ', dlq_topic, original_topic, status, messages) FROM dlq.dlq_topic_counts ORDER BY 1`))
	}
}

func TestAMigrationSeesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", append(slices.Clone(documented), next, queues, between, offsets)...)
	exec(t, pool, `CREATE TABLE public.schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)`)
	exec(t, pool, `INSERT INTO public.schema_migrations VALUES (13, false)`)
	exec(t, pool, `ALTER DATABASE `+pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()+` SET default_transaction_isolation = 'repeatable read'`)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e')`)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- migrations.Up(t.Context(), pool) }()
	require.Eventually(t, func() bool {
		return len(texts(t, pool, `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)) > 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, []string{"1"}, texts(t, pool, `SELECT messages::text FROM dlq.dlq_topic_counts`))
}

// Old rows are numbered without a call of the sequence.
func TestMessagesFromBeforeAreBelowTheSequence(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", documented...)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'orders', 'e' FROM generate_series(1, 5)`)
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.Equal(t, []string{"5 6 f"}, texts(t, pool, `SELECT concat_ws(' ', (SELECT max(seq) FROM dlq.dlq_messages), last_value, is_called) FROM dlq.dlq_messages_seq_seq`))
}
