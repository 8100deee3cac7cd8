package migrations_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/migrations"
)

func TestAMigrationSeesTheRowsThatItWaitedFor(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `ALTER DATABASE `+pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()+` SET default_transaction_isolation = 'repeatable read'`)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e')`)
	require.NoError(t, err)
	done := make(chan error, 1)
	later := release(t, map[string]string{"904_recount": `SELECT dlq.recount_messages()`})
	go func() { done <- migrations.UpWith(t.Context(), pool, later, migrations.Options{}) }()
	require.Eventually(t, func() bool {
		return len(texts(t, pool, `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)) > 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, []string{"1"}, texts(t, pool, `SELECT messages::text FROM dlq.dlq_topic_counts`))
}
