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
	require.EqualError(t, check(), fmt.Sprintf("the database has no schema yet, and version %d is needed: a worker applies migrations at its start", newest))
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.NoError(t, check())

	exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, newest-1)
	require.EqualError(t, check(), fmt.Sprintf("the database schema has version %d, and version %d is needed: a worker applies migrations at its start",
		newest-1, newest))
	exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, newest+1)
	require.NoError(t, check(), "a newer program is being rolled out")

	exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, newest)
	require.NoError(t, migrations.Down(t.Context(), pool))
	require.ErrorContains(t, check(), "no schema yet")
}

func TestCheckTellsAnInterruptedMigrationFromOneUnderWay(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `UPDATE public.schema_migrations SET dirty = true`)
	var dirty *migrations.DirtyError
	require.ErrorAs(t, migrations.Check(t.Context(), pool), &dirty)
	require.Equal(t, newest, dirty.Version)

	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7305011990412)`)
	require.NoError(t, err)
	err = migrations.Check(t.Context(), pool)
	require.NotErrorAs(t, err, &dirty, "another process is at work")
	require.ErrorContains(t, err, "is being migrated")

	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_unlock(7305011990412)`)
	require.NoError(t, err)
	require.ErrorAs(t, migrations.Check(t.Context(), pool), &dirty)

	exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, newest+1)
	err = migrations.Check(t.Context(), pool)
	require.NotErrorAs(t, err, &dirty, "only the newer program knows how to mend that")
	require.ErrorContains(t, err, fmt.Sprintf("marked dirty at version %d, and version %d is the newest", newest+1, newest))
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
