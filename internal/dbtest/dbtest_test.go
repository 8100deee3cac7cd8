package dbtest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestEachTestHasItsOwnDatabaseWithTheSchema(t *testing.T) {
	t.Parallel()
	pool := New(t)
	require.Equal(t, URL(t), URL(t))
	require.Equal(t, URL(t), pool.Config().ConnString())
	_, err := pool.Exec(t.Context(), "INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')")
	require.NoError(t, err)
	t.Run("another test", func(t *testing.T) {
		t.Parallel()
		var count int
		require.NoError(t, New(t).QueryRow(t.Context(), "SELECT count(*) FROM dlq.dlq_messages").Scan(&count))
		require.Zero(t, count)
	})
}

func TestDatabasesAreDroppedSomeTestsLater(t *testing.T) { //nolint:tparallel // the inner tests have to end before the outer one continues
	t.Parallel()
	var first string
	t.Run("first", func(t *testing.T) {
		pool := New(t)
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&first))
		leaked, err := pgx.Connect(t.Context(), URL(t))
		require.NoError(t, err)
		require.NoError(t, leaked.Ping(t.Context()))
	})
	for range maxUsed { //nolint:paralleltest // one after another
		t.Run("later", func(t *testing.T) { URL(t) })
	}
	var exists bool
	require.NoError(t, New(t).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", first).Scan(&exists))
	require.False(t, exists)
}

func TestConcurrentProgramsCreateTheTemplateOnce(t *testing.T) {
	t.Parallel()
	admin, err := serverURL()
	require.NoError(t, err)
	const name = "dlq_template_of_this_test"
	t.Cleanup(func() {
		require.NoError(t, execute(context.Background(), admin, "ALTER DATABASE "+name+" WITH IS_TEMPLATE false"))
		require.NoError(t, execute(context.Background(), admin, "DROP DATABASE "+name))
	})
	var group sync.WaitGroup
	failures := make([]error, 4)
	for i := range failures {
		group.Go(func() { failures[i] = createTemplate(t.Context(), admin, name) })
	}
	group.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
}

func TestEachTestHasItsOwnCopyOfAFilledDatabase(t *testing.T) { //nolint:tparallel // its subtests take turns
	t.Parallel()
	fills := 0
	fill := func(t testing.TB, pool *pgxpool.Pool) {
		fills++
		_, err := pool.Exec(t.Context(), "INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')")
		require.NoError(t, err)
	}
	for range 2 { //nolint:paralleltest // the second must find the copy of the first filled
		t.Run("a test", func(t *testing.T) {
			pool := Filled(t, "one message", fill)
			require.Equal(t, URL(t), pool.Config().ConnString())
			deleted, err := pool.Exec(t.Context(), "DELETE FROM dlq.dlq_messages")
			require.NoError(t, err)
			require.EqualValues(t, 1, deleted.RowsAffected())
		})
	}
	require.Equal(t, 1, fills)
}
