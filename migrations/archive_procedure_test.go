package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
)

func TestTheArchiveProcedureMovesWhatIsDueInBatches(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at)
		SELECT 'orders', 'boom', s, now() - age
		FROM unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) AS s, unnest(ARRAY['31 days', '29 days', '61 days']::interval[]) AS age,
			generate_series(1, 10)`)
	before := texts(t, pool, `SELECT m::text FROM dlq.dlq_messages m WHERE status IN ('RESOLVED', 'DEAD') AND updated_at < now() - interval '30 days' ORDER BY id`)
	require.Len(t, before, 40)
	exec(t, pool, `CALL dlq.archive_old_dlq_messages(p_retention_days := 60, p_batch_size := 3)`)
	require.Equal(t, []string{"20"}, texts(t, pool, `SELECT count(*)::text FROM dlq.dlq_messages_archive`))
	exec(t, pool, `CALL dlq.archive_old_dlq_messages()`)
	require.Equal(t, before, texts(t, pool, `SELECT a::text FROM dlq.dlq_messages_archive a ORDER BY id`), "every column as it was")
	require.Equal(t, []string{"80"}, texts(t, pool, `SELECT count(*)::text FROM dlq.dlq_messages`))
}

func TestTheArchiveProcedureRefusesNonsense(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, arguments := range []string{"0", "-1", "NULL", "30, 0", "30, -5", "30, NULL"} {
		_, err := pool.Exec(t.Context(), `CALL dlq.archive_old_dlq_messages(`+arguments+`)`)
		var refusal *pgconn.PgError
		require.ErrorAs(t, err, &refusal, arguments)
		require.Equal(t, "22023", refusal.Code, arguments)
		require.Contains(t, refusal.Message, "must be greater than 0")
	}
}

func TestTheArchiveProcedureLeavesWhatOthersHold(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at)
		SELECT CASE n WHEN 1 THEN 'held' ELSE 'free' END, 'boom', 'DEAD', now() - interval '1 year' FROM generate_series(1, 5) AS n`)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_messages WHERE original_topic = 'held' FOR UPDATE`)
	require.NoError(t, err)
	exec(t, pool, `CALL dlq.archive_old_dlq_messages(30, 1)`)
	require.Equal(t, []string{"held"}, texts(t, pool, `SELECT original_topic::text FROM dlq.dlq_messages`))
	require.Len(t, texts(t, pool, `SELECT original_topic::text FROM dlq.dlq_messages_archive`), 4)
}

func TestACopyThatWasMadeByHandDoesNotStopTheArchive(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at)
		SELECT 'orders', 'boom', 'DEAD', now() - interval '1 year' FROM generate_series(1, 3)`)
	exec(t, pool, `INSERT INTO dlq.dlq_messages_archive SELECT * FROM dlq.dlq_messages LIMIT 1`)
	exec(t, pool, `CALL dlq.archive_old_dlq_messages()`)
	require.Empty(t, texts(t, pool, `SELECT id::text FROM dlq.dlq_messages`))
	require.Len(t, texts(t, pool, `SELECT id::text FROM dlq.dlq_messages_archive`), 3)
}
