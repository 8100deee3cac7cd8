package postgres

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// A program that is suspended in the middle of a COPY sends no more rows, and its
// connection stays open.
func TestASuspendedIngestBlocksOthersForATimeOnly(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	s.suspendedAfter = 0
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), shareIngestLockSQL, pgx.NamedArgs{"lock": ingestLock})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (id, original_topic, error_message) VALUES ($1, 'elsewhere', 'boom')`, dlq.NewID())
	require.NoError(t, err)
	rows, row := io.Pipe()
	defer func() { _ = row.Close() }()
	copied := make(chan error, 1)
	go func() {
		_, err := tx.Conn().PgConn().CopyFrom(context.WithoutCancel(t.Context()), rows, `copy "dlq"."dlq_messages" ( "id" ) from stdin`)
		copied <- err
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'copy%' AND wait_event = 'ClientRead')`).Scan(&waits)
		return err == nil && waits
	}, 10*time.Second, 5*time.Millisecond)

	_, err = s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	select {
	case err = <-copied:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the suspended session goes on")
	}
	_, err = s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
}
