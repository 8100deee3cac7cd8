package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/migrations"
)

const newest = 9

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func empty(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return dbtest.Pool(t, dbtest.Empty(t))
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func texts(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// version is the version of the schema, marked as dirty if a migration is running or was interrupted.
func version(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return strings.Join(texts(t, pool, `SELECT version || CASE WHEN dirty THEN ' dirty' ELSE '' END FROM public.schema_migrations`), ",")
}

// apply runs a file by hand, as a person without this program would.
func apply(t *testing.T, pool *pgxpool.Pool, file string) {
	t.Helper()
	sql, err := migrations.Files.ReadFile(file)
	require.NoError(t, err)
	exec(t, pool, string(sql))
}

// schema describes everything in the schema dlq, one object a line.
func schema(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return texts(t, pool, `
		SELECT format('%s column %s: %s %s %s %s %s', table_name, row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position),
			column_name, udt_name || COALESCE('(' || character_maximum_length || ')', ''), is_nullable, column_default, identity_generation)
		FROM information_schema.columns WHERE table_schema = 'dlq'
		UNION ALL
		SELECT format('%s options: %s', relname, reloptions) FROM pg_class WHERE relnamespace = to_regnamespace('dlq')
		UNION ALL
		SELECT format('%s index: %s', tablename, indexdef) FROM pg_indexes WHERE schemaname = 'dlq'
		UNION ALL
		SELECT format('%s constraint: %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = to_regnamespace('dlq')
		UNION ALL
		SELECT format('%s trigger: %s %s', tgrelid::regclass, tgenabled, pg_get_triggerdef(pg_trigger.oid))
		FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = to_regnamespace('dlq') AND NOT tgisinternal
		UNION ALL
		SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = to_regnamespace('dlq')
		ORDER BY 1`)
}

// fill puts rows into every table.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload, status, workflow_id, owner_token)
		SELECT 'orders', 'boom', '{"id": 1}', s, 'w', 'token' FROM unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) AS s, generate_series(1, 3)`)
	exec(t, pool, `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, seq) VALUES ('orders', 'boom', 1)`)
	exec(t, pool, `INSERT INTO dlq.dlq_message_bodies (message_id, headers) VALUES (gen_random_uuid(), '\x00')`)
	exec(t, pool, `INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
		VALUES (gen_random_uuid(), 1, 'w', 'token', now(), 'failed', 'transient', 'boom')`)
	exec(t, pool, `WITH b AS (INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, lanes, upper_bound, snapshot_at)
		VALUES (gen_random_uuid(), 'w', 'orders', 1, 1, now()) RETURNING id)
		INSERT INTO dlq.dlq_job_lanes (job_id, lane) SELECT id, 0 FROM b`)
	exec(t, pool, `INSERT INTO dlq.dlq_job_samples SELECT id, 1, now(), 1, 2, 3, 4, 5 FROM dlq.dlq_jobs`)
	exec(t, pool, `INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, spec, upper_bound, snapshot_at)
		VALUES (gen_random_uuid(), 'w', 'orders', '{}', 1, now())`)
	exec(t, pool, `INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, reason, request_id, workflow_id, outcome)
		VALUES (gen_random_uuid(), 'ann', 'token', '', 'dlq:message:delete', 'orders', 'message', '', '', '', 'done')`)
}

// contents are all rows of the tables that fill fills.
func contents(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return texts(t, pool, `
		SELECT m::text FROM dlq.dlq_messages m
		UNION ALL SELECT m::text FROM dlq.dlq_messages_archive m
		UNION ALL SELECT b::text FROM dlq.dlq_message_bodies b
		UNION ALL SELECT a::text FROM dlq.dlq_retry_attempts a
		UNION ALL SELECT b::text FROM dlq.dlq_jobs b
		UNION ALL SELECT l::text FROM dlq.dlq_job_lanes l
		UNION ALL SELECT s::text FROM dlq.dlq_job_samples s
		UNION ALL SELECT a::text FROM dlq.dlq_jobs a
		UNION ALL SELECT a::text FROM dlq.dlq_audit a
		ORDER BY 1`)
}

func TestEveryMigrationHasItsWayBack(t *testing.T) {
	t.Parallel()
	ups, err := fs.Glob(migrations.Files, "*.up.sql")
	require.NoError(t, err)
	downs, err := fs.Glob(migrations.Files, "*.down.sql")
	require.NoError(t, err)
	require.Len(t, downs, len(ups))
	for i := range ups {
		require.Equal(t, strings.TrimSuffix(ups[i], ".up.sql"), strings.TrimSuffix(downs[i], ".down.sql"))
	}
	require.Equal(t, []string{"001_create_schema.up.sql", "002_create_dlq_messages.up.sql", "003_add_partition_management.up.sql"}, ups[:3],
		"the names that are documented")
}

func TestUpDownAndUpAgainWithData(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	for range 2 {
		require.NoError(t, migrations.Up(t.Context(), pool))
		require.NoError(t, migrations.Up(t.Context(), pool), "there is nothing left to do")
		require.Equal(t, strconv.Itoa(newest), version(t, pool))
		fill(t, pool)
		require.NoError(t, migrations.Down(t.Context(), pool))
		require.Empty(t, version(t, pool))
		require.Empty(t, texts(t, pool, `SELECT nspname::text FROM pg_namespace WHERE nspname = 'dlq'`))
		require.Empty(t, texts(t, pool, `SELECT extname::text FROM pg_extension WHERE extname = 'pgcrypto'`))
	}
}

func TestEachMigrationAndItsWayBackMayRunAgain(t *testing.T) {
	t.Parallel()
	ups, err := fs.Glob(migrations.Files, "*.up.sql")
	require.NoError(t, err)
	pool := empty(t)
	var before [][]string
	for _, up := range ups {
		before = append(before, schema(t, pool))
		for range 2 { // as if the migration had been interrupted after its commit, before its version was recorded
			apply(t, pool, up)
		}
	}
	require.Equal(t, schema(t, dbtest.New(t)), schema(t, pool))
	fill(t, pool)
	for i, up := range slices.Backward(ups) {
		for range 2 {
			apply(t, pool, strings.Replace(up, ".up.", ".down.", 1))
		}
		require.Equal(t, before[i], schema(t, pool), up)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	exec(t, pool, `CREATE SCHEMA dlq`)
	exec(t, pool, `CREATE TYPE dlq.dlq_message_bodies AS ENUM ()`) // in the way of a late statement of 002
	require.Error(t, migrations.Up(t.Context(), pool))
	require.Empty(t, texts(t, pool, `SELECT relname::text FROM pg_class WHERE relname = 'dlq_messages'`))
}

// A schema that was made before the first release, or by hand from the documented statements, is refused too.
func TestASchemaOfOtherMigrationsIsRefusedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a file was changed":          `UPDATE dlq.dlq_schema_files SET sha256 = 'other' WHERE version = 4`,
		"nothing was recorded":        `DROP TABLE dlq.dlq_schema_files`,
		"another number of files":     `DROP TABLE dlq.dlq_schema_files; UPDATE public.schema_migrations SET version = 36`,
		"its start was interrupted":   `DROP TABLE dlq.dlq_schema_files; UPDATE public.schema_migrations SET version = 1, dirty = true`,
		"it was interrupted":          `DELETE FROM dlq.dlq_schema_files; UPDATE public.schema_migrations SET dirty = true`,
		"no migration was ever noted": `DROP TABLE public.schema_migrations; DROP TABLE dlq.dlq_schema_files`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			fill(t, pool)
			exec(t, pool, sql)
			before := append(schema(t, pool), contents(t, pool)...)
			require.ErrorIs(t, migrations.Up(t.Context(), pool), migrations.ErrForeign)
			require.ErrorIs(t, migrations.Down(t.Context(), pool), migrations.ErrForeign)
			require.Equal(t, before, append(schema(t, pool), contents(t, pool)...))
			if len(texts(t, pool, `SELECT tablename::text FROM pg_tables WHERE tablename = 'schema_migrations'`)) > 0 && name != "no migration was ever noted" {
				require.ErrorIs(t, migrations.Check(t.Context(), pool), migrations.ErrForeign)
			}
		})
	}
}

// So a release can be rolled back, and workers of the previous release can restart while the release is rolled out.
func TestAProgramWorksWithANewerSchemaUntilThatNamesALaterProgram(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, dirty := range []bool{false, true} { // the newer migration is done, or under way
		exec(t, pool, `UPDATE public.schema_migrations SET version = $1, dirty = $2`, newest+2, dirty)
		exec(t, pool, `UPDATE dlq.dlq_schema SET oldest_program = $1`, newest)
		before := version(t, pool)
		require.NoError(t, migrations.Up(t.Context(), pool))
		require.NoError(t, migrations.Check(t.Context(), pool))

		exec(t, pool, `UPDATE dlq.dlq_schema SET oldest_program = $1`, newest+1)
		refusal := fmt.Sprintf("the database schema has version %d, and needs a program that knows version %d; the newest that this one knows is %d: "+
			"run a newer program, or restore the database from before the upgrade", newest+2, newest+1, newest)
		require.EqualError(t, migrations.Up(t.Context(), pool), "migrate: "+refusal)
		require.EqualError(t, migrations.Check(t.Context(), pool), refusal)
		require.ErrorContains(t, migrations.Down(t.Context(), pool), "run the newer program")
		require.Equal(t, before, version(t, pool))
	}
}

// A release may remove only columns and tables that the previous release does not need any more.
func TestAMigrationThatTakesSomethingAwayNamesTheOldestProgram(t *testing.T) {
	t.Parallel()
	takes := regexp.MustCompile(`(?i)\b(DROP (TABLE|COLUMN|VIEW|FUNCTION|PROCEDURE|SCHEMA|TYPE)|RENAME|SET NOT NULL|ALTER COLUMN \w+ TYPE|TRUNCATE)\b`)
	files, err := fs.Glob(migrations.Files, "*.up.sql")
	require.NoError(t, err)
	for _, file := range files {
		sql, err := migrations.Files.ReadFile(file)
		require.NoError(t, err)
		if file >= "010" && takes.Match(sql) { // earlier files are in the first release
			require.Contains(t, string(sql), "UPDATE dlq.dlq_schema SET oldest_program", file)
		}
	}
}

func TestSeveralProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	failures := make([]error, 6)
	var group sync.WaitGroup
	for i := range failures {
		pool := dbtest.Pool(t, url)
		group.Go(func() { failures[i] = migrations.Up(t.Context(), pool) })
	}
	group.Wait()
	require.NoError(t, errors.Join(failures...))
	require.Equal(t, strconv.Itoa(newest), version(t, dbtest.Pool(t, url)))
}

func TestAProcessThatWaitsForTheLockCanBeStopped(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7305011990412)`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, migrations.Up(ctx, pool), context.DeadlineExceeded)
}

func TestAFailedMigrationIsRepeatedAtTheNextStart(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	exec(t, pool, `CREATE SCHEMA dlq CREATE TABLE dlq_message_bodies (id UUID)`) // in the way of 002
	first := migrations.Up(t.Context(), pool)
	require.ErrorContains(t, first, `column "key" does not exist`)
	require.Equal(t, "2 dirty", version(t, pool))
	require.EqualError(t, migrations.Up(t.Context(), pool), first.Error(), "it tells the reason each time")

	exec(t, pool, `DROP TABLE dlq.dlq_message_bodies`)
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.Equal(t, strconv.Itoa(newest), version(t, pool))
}

func TestAMigrationWhoseProcessWasKilledIsRepeated(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []int{1, 2, 5, newest} {
		pool := dbtest.New(t)
		made := schema(t, pool)
		exec(t, pool, `UPDATE public.schema_migrations SET version = $1, dirty = true`, interrupted)
		require.NoError(t, migrations.Up(t.Context(), pool), interrupted)
		require.Equal(t, strconv.Itoa(newest), version(t, pool))
		require.Equal(t, made, schema(t, pool))
	}
}

func TestEveryMigrationMayRunAgain(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	require.NoError(t, migrations.Up(t.Context(), pool))
	fill(t, pool)
	made, filled := schema(t, pool), contents(t, pool)
	// As if each migration had been interrupted after its commit, before its version was recorded.
	for v := newest - 1; v > 0; v-- {
		exec(t, pool, `UPDATE public.schema_migrations SET version = $1`, v)
		require.NoError(t, migrations.Up(t.Context(), pool), v)
		require.Equal(t, made, schema(t, pool), v)
		require.Equal(t, filled, contents(t, pool), "also of messages that are being retried")
	}
}

// A user whose name is dlq finds the schema dlq before public.
func TestAUserNamedAsTheSchemaKeepsOneVersion(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	exec(t, dbtest.Pool(t, url), `ALTER DATABASE "`+dbtest.Pool(t, url).Config().ConnConfig.Database+`" SET search_path = dlq, public`)
	pool := dbtest.Pool(t, url)
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.Equal(t, strconv.Itoa(newest), version(t, pool))
	require.NoError(t, migrations.Up(t.Context(), pool))
	require.NoError(t, migrations.Down(t.Context(), pool))
	require.Empty(t, version(t, pool))
}

func TestDownKeepsAnExtensionOfSomebodyElse(t *testing.T) {
	t.Parallel()
	before := empty(t)
	exec(t, before, `CREATE EXTENSION pgcrypto`)
	require.NoError(t, migrations.Up(t.Context(), before))
	require.NoError(t, migrations.Down(t.Context(), before))
	require.NotEmpty(t, texts(t, before, `SELECT extname::text FROM pg_extension WHERE extname = 'pgcrypto'`))

	used := empty(t)
	require.NoError(t, migrations.Up(t.Context(), used))
	exec(t, used, `CREATE TABLE public.passwords (hash TEXT DEFAULT crypt('secret', gen_salt('bf')))`)
	require.NoError(t, migrations.Down(t.Context(), used), "it is used, and dropping it would need CASCADE")
	exec(t, used, `INSERT INTO public.passwords DEFAULT VALUES`)
}

func TestTheDocumentedSchemaIsThere(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	const columns = `SELECT column_name || ' ' || data_type || COALESCE('(' || character_maximum_length || ')', '') ||
			CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || column_default, '')
		FROM information_schema.columns WHERE table_schema = 'dlq' AND table_name = $1 ORDER BY ordinal_position`
	documented := []string{
		"id uuid NOT NULL DEFAULT gen_random_uuid()",
		"original_topic character varying(255) NOT NULL",
		"error_message text NOT NULL",
		"retry_count integer NOT NULL DEFAULT 0",
		"max_retries integer NOT NULL DEFAULT 3",
		"payload jsonb",
		"status character varying(50) NOT NULL DEFAULT 'PENDING'::character varying",
		"created_at timestamp with time zone NOT NULL DEFAULT now()",
		"updated_at timestamp with time zone NOT NULL DEFAULT now()",
		"last_retry_at timestamp with time zone",
	}
	messages := texts(t, pool, columns, "dlq_messages")
	require.Equal(t, documented, messages[:len(documented)])
	require.Equal(t, messages, texts(t, pool, columns, "dlq_messages_archive"), "the archive takes rows as they are")

	require.Subset(t, texts(t, pool, `SELECT indexname || ' ' || split_part(split_part(indexdef, '(', 2), ',', 1) FROM pg_indexes WHERE tablename = 'dlq_messages'`),
		[]string{"idx_dlq_messages_original_topic original_topic", "idx_dlq_messages_status status", "idx_dlq_messages_created_at created_at)"})
	for _, table := range []string{"dlq.dlq_messages", "dlq.dlq_messages_archive"} {
		require.Contains(t, texts(t, pool, `SELECT conname::text FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'c'`, table),
			"chk_dlq_messages_status")
		require.Len(t, texts(t, pool, `SELECT conname::text FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'p'`, table), 1)
	}
	require.Contains(t,
		texts(t, pool, `SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'dlq.dlq_messages'::regclass`), "trg_dlq_messages_updated_at")
	require.Equal(t, []string{"p_retention_days integer DEFAULT 30, p_batch_size integer DEFAULT 1000"},
		texts(t, pool, `SELECT replace(pg_get_function_arguments(oid), 'IN ', '') FROM pg_proc WHERE proname = 'archive_old_dlq_messages' AND prokind = 'p'`))
	require.Equal(t, []string{"pgcrypto"}, texts(t, pool, `SELECT extname::text FROM pg_extension WHERE extname = 'pgcrypto'`))
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message, status) VALUES ('a', 'b', 'GONE')`)
	require.ErrorContains(t, err, "chk_dlq_messages_status")
}
