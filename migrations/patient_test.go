package migrations_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/migrations"
)

// release has the files of a later program, which has more migrations than this program.
func release(t *testing.T, more map[string]string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		data, err := migrations.Files.ReadFile(name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	for name, sql := range more {
		files[name+".up.sql"] = &fstest.MapFile{Data: []byte(sql)}
	}
	return files
}

// told returns a log, and a channel with the first message of the log.
func told() (log func(string), first <-chan string) {
	messages := make(chan string, 1)
	return func(message string) {
		select {
		case messages <- message:
		default:
		}
	}, messages
}

// inBackground starts a migration. The channel gets its result.
func inBackground(t *testing.T, pool *pgxpool.Pool, files fs.FS, o migrations.Options) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	go func() { done <- migrations.UpWith(ctx, pool, files, o) }()
	return done
}

// A dump reads all tables for hours. Without the time limit, every reader after the migration
// would wait for the end of the dump.
func TestAMigrationLetsReadersPassWhileItWaitsForALongOne(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"dlq.dlq_messages", "public.schema_migrations"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			dump, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = dump.Exec(t.Context(), `SET LOCAL application_name = 'pg_dump'; LOCK TABLE `+table+` IN ACCESS SHARE MODE`)
			require.NoError(t, err)

			log, first := told()
			files := release(t, map[string]string{"904_add": `ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS note TEXT`})
			done := inBackground(t, pool, files, migrations.Options{Log: log})
			require.Regexp(t, `waits for the locks of other sessions, and tries again in 1s; the oldest is pid \d+, pg_dump of user`, <-first)
			exec(t, pool, `SELECT FROM `+table) // the migration is between two attempts
			require.NoError(t, migrations.Check(t.Context(), pool), "programs of this version go on")
			require.NoError(t, dump.Rollback(t.Context()))
			require.NoError(t, <-done)
			require.Equal(t, "904", version(t, pool))
			exec(t, pool, `SELECT note FROM dlq.dlq_messages`)
		})
	}
}

func TestAMigrationThatIsStoppedWhileItWaitsGoesOnAtTheNextStart(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	dump, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `LOCK TABLE dlq.dlq_messages IN ACCESS SHARE MODE`)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	files := release(t, map[string]string{"904_add": `ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS note TEXT`})
	err = migrations.UpWith(ctx, pool, files, migrations.Options{Log: func(string) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "904 dirty", version(t, pool))
	require.NoError(t, dump.Rollback(t.Context()))
	require.NoError(t, migrations.UpWith(t.Context(), pool, files, migrations.Options{}))
	require.Equal(t, "904", version(t, pool))
}

const index = `-- an index of a later release
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_note ON dlq.dlq_messages (error_message)`

func TestAnIndexIsBuiltWhileOthersWrite(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	require.NoError(t, err)

	done := inBackground(t, pool, release(t, map[string]string{"904_index": index}), migrations.Options{})
	eventually(t, pool, building("waiting for writers before build"))
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	require.NoError(t, migrations.Check(t.Context(), pool))
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, []string{"true"}, texts(t, pool, `SELECT indisvalid::text FROM pg_index WHERE indexrelid = 'dlq.idx_dlq_messages_note'::regclass`))
}

func TestAnIndexWhoseBuildWasInterruptedIsBuiltAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'orders', 'boom' FROM generate_series(1, 2)`)
	_, err := pool.Exec(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY idx_dlq_messages_note ON dlq.dlq_messages (error_message)`)
	require.ErrorContains(t, err, "could not create unique index", "it stays, and is invalid")
	exec(t, pool, `UPDATE public.schema_migrations SET version = 904, dirty = true`)

	require.NoError(t, migrations.UpWith(t.Context(), pool, release(t, map[string]string{"904_index": index}), migrations.Options{}))
	require.Equal(t, []string{"true false"}, texts(t, pool,
		`SELECT indisvalid || ' ' || indisunique FROM pg_index WHERE indexrelid = 'dlq.idx_dlq_messages_note'::regclass`))
}

// building is a query for the phase of a build.
func building(phase string) string {
	return `SELECT pid::text FROM pg_stat_progress_create_index WHERE datname = current_database() AND phase = '` + phase + `'`
}

// eventually waits until a query has rows.
func eventually(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(texts(t, pool, sql)) > 0 }, 20*time.Second, 10*time.Millisecond, sql)
}

// A build waits for the end of all older snapshots.
func TestAProcessThatWaitsForAnotherIsNotInTheWayOfItsIndex(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	require.NoError(t, err)
	files := release(t, map[string]string{"904_index": index})
	first := inBackground(t, pool, files, migrations.Options{})
	eventually(t, pool, building("waiting for writers before build"))
	second := inBackground(t, pool, files, migrations.Options{})
	eventually(t, pool, `SELECT pid::text FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE '%advisory_lock(%' AND pid <> pg_backend_pid()`)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

// A session may end before its process, at a failover or by pg_terminate_backend.
func TestAProcessWaitsForAnotherThatHasLostItsLock(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	require.NoError(t, err)
	files := release(t, map[string]string{"904_index": index})
	first := inBackground(t, pool, files, migrations.Options{})
	eventually(t, pool, building("waiting for writers before build"))
	require.Equal(t, []string{"true"}, texts(t, pool, `SELECT pg_terminate_backend(l.pid, 10000)::text
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE a.datname = current_database() AND locktype = 'advisory' AND (classid::bigint << 32) + objid::bigint = 7305011990412`))
	log, told := told()
	second := inBackground(t, pool, files, migrations.Options{Log: log})
	require.Equal(t, "another process migrates the database; this one waits for its end", <-told)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

// PostgreSQL notices only at the end of a statement that its client is gone.
func TestAnIndexThatPostgreSQLBuildsForAKilledProcessIsNotBuiltAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `SELECT count(*) FROM dlq.dlq_messages`)
	require.NoError(t, err)
	exec(t, pool, `UPDATE public.schema_migrations SET version = 904, dirty = true`)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	killed, err := conn.Hijack().PgConn().Hijack()
	require.NoError(t, err)
	killed.Frontend.SendQuery(&pgproto3.Query{String: index})
	require.NoError(t, killed.Frontend.Flush())
	eventually(t, pool, building("waiting for old snapshots"))
	require.NoError(t, killed.Conn.Close())
	const state = `SELECT indexrelid || ' ' || indisvalid FROM pg_index WHERE indexrelid = 'dlq.idx_dlq_messages_note'::regclass`
	before := texts(t, pool, state)

	done := inBackground(t, pool, release(t, map[string]string{"904_index": index}), migrations.Options{})
	eventually(t, pool, `SELECT pid::text FROM pg_locks WHERE NOT granted AND relation = 'dlq.dlq_messages'::regclass`)
	require.NoError(t, dump.Rollback(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, strings.Replace(before[0], "false", "true", 1), texts(t, pool, state)[0])
}

func TestLimitsOfADatabaseOrRoleDoNotStopAMigration(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	for _, setting := range []string{
		"statement_timeout = 60000", "idle_session_timeout = 60000", "idle_in_transaction_session_timeout = 60000", "lock_timeout = 60000", "search_path = ''",
	} {
		exec(t, pool, `ALTER DATABASE "`+pool.Config().ConnConfig.Database+`" SET `+setting)
	}
	limited := dbtest.Pool(t, pool.Config().ConnString())
	require.NoError(t, migrations.UpWith(t.Context(), limited, release(t, map[string]string{"904_settings": `
		CREATE TABLE public.settings AS
		SELECT name || ' ' || setting AS text FROM pg_settings WHERE name ~ '^(statement|idle.*session|lock)_timeout$'`}), migrations.Options{}))
	require.Equal(t, []string{"idle_in_transaction_session_timeout 0", "idle_session_timeout 0", "lock_timeout 1000", "statement_timeout 0"},
		texts(t, pool, `SELECT text FROM public.settings ORDER BY text`))
}

func TestAStartLeavesTheIndexesOfLargeTables(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	later := map[string]string{
		// Each row fills a page.
		"904_large": `CREATE TABLE dlq.large (id INT, filler TEXT) WITH (fillfactor = 10);
			INSERT INTO dlq.large SELECT n, repeat('x', 1000) FROM generate_series(1, 17000) AS n`,
	}
	require.NoError(t, migrations.UpWith(t.Context(), pool, release(t, later), migrations.Options{}))
	later["905_small"] = `CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_small ON dlq.dlq_messages (error_message)`
	later["906_index"] = `CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_large ON dlq.large (id)`
	later["907_index"] = `CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_later ON dlq.dlq_messages (error_message)`
	files := release(t, later)
	required, err := migrations.Required(files)
	require.NoError(t, err)
	require.Equal(t, 904, required, "a program can do without indexes")

	log, first := told()
	for range 2 {
		require.NoError(t, migrations.UpWith(t.Context(), pool, files, migrations.Options{LeaveLarge: true, Log: log}))
		require.Regexp(t, "^the index idx_large is not built, since dlq.large has 13\\d MiB: run `dlq-worker migrate`", <-first)
		require.Equal(t, "905", version(t, pool))
	}
	require.NoError(t, migrations.UpWith(t.Context(), pool, files, migrations.Options{}))
	require.Equal(t, "907", version(t, pool))

	later["908_index"] = `CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_last ON dlq.large (id)`
	later["909_table"] = `CREATE TABLE dlq.needed ()`
	require.ErrorContains(t, migrations.UpWith(t.Context(), pool, release(t, later), migrations.Options{LeaveLarge: true}), "needs version 909")
}

// A dump has its snapshot for hours. A worker that starts meanwhile can do without the index.
func TestAStartLeavesAnIndexThatWaitsForAnotherTransaction(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `SELECT count(*) FROM dlq.dlq_messages`)
	require.NoError(t, err)
	files := release(t, map[string]string{"904_index": index})
	log, first := told()
	for range 2 {
		require.NoError(t, <-inBackground(t, pool, files, migrations.Options{LeaveLarge: true, Log: log}))
		require.Contains(t, <-first, "an index is not built, since another transaction is in its way")
	}
	require.NoError(t, migrations.Check(t.Context(), pool))
	require.NoError(t, dump.Rollback(t.Context()))
	require.NoError(t, migrations.UpWith(t.Context(), pool, files, migrations.Options{LeaveLarge: true}))
	require.Equal(t, "904", version(t, pool))
}

func TestAStartDoesNotWaitForAProcessThatGoesBeyondWhatItNeeds(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7305011990412)`)
	require.NoError(t, err)
	exec(t, pool, `UPDATE public.schema_migrations SET version = $1, dirty = true`, newest+1)
	require.NoError(t, migrations.UpAs(t.Context(), pool, migrations.Options{LeaveLarge: true}))
}
