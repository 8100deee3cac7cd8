package migrations_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/migrations"
)

func TestCheckSaysWhichVersionIsNeeded(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	check := func() error { return migrations.Check(t.Context(), pool) }
	const how = "a worker applies migrations at its start, and so does `dlq-worker migrate`"
	require.EqualError(t, check(), fmt.Sprintf("the database has no schema yet, and version %d is needed: %s", newest, how))
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.NoError(t, check())

	exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, newest-1)
	wrong := fmt.Sprintf("the database schema has version %d, and version %d is needed: %s", newest-1, newest, how)
	require.EqualError(t, check(), wrong)
	exec(t, pool, `UPDATE public.schema_migrations SET version = $1, dirty = true`, newest)
	require.EqualError(t, check(), wrong, "it was interrupted")

	exec(t, pool, `UPDATE public.schema_migrations SET dirty = false`)
	require.NoError(t, migrations.Down(t.Context(), pool))
	require.ErrorContains(t, check(), "no schema yet")
}

func TestCheckTellsThatAMigrationIsUnderWay(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `UPDATE public.schema_migrations SET version = $1, dirty = true`, newest)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7305011990412)`)
	require.NoError(t, err)
	require.ErrorContains(t, migrations.Check(t.Context(), pool), "is being migrated")
}

func TestCheckWaitsForNobodyAndChangesNothing(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7305011990412)`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorContains(t, migrations.Check(ctx, pool), "no schema yet")
	require.Empty(t, texts(t, pool, `SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'`))
}

func TestCheckOfADatabaseThatIsAwayKeepsTheReason(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, migrations.Check(ctx, pool), context.Canceled)
}
