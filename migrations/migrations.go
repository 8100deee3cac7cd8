// Package migrations holds the database schema as numbered SQL files, and applies them to a
// database. Every file is a transaction, or the concurrent build of an index. Every file may run
// again: an interrupted migration is repeated at the next start.
//
// Programs of the previous version keep running during and after a migration. So a migration only
// adds parts of the schema. A later release removes the parts that no program needs any more. Its
// migration raises dlq.dlq_schema.oldest_program.
package migrations

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Files are the migrations, NNN_name.up.sql and NNN_name.down.sql.
//
//go:embed *.sql
var Files embed.FS

// versionTable has its schema in the name. Otherwise a database user called dlq would look for the
// table in the schema dlq as soon as that schema exists.
const versionTable = `"public"."schema_migrations"`

// lockID is the advisory lock that lets a single process migrate at a time. The
// number is arbitrary and must never change.
const lockID = 7_305_011_990_412

// lockPoll is how long a process waits before asking for the lock again.
const lockPoll = 200 * time.Millisecond

// Options say how UpAs brings a database to the newest version.
type Options struct {
	Roles Roles
	// LeaveLarge leaves the index builds on tables of more than 128 MiB, and all later migrations,
	// to a later call without this option.
	LeaveLarge bool
	// Log is told which indexes are left, and which session a migration waits for. Log may be nil.
	Log func(message string)

	files fs.FS // Files, except in tests
}

// Up brings the database to the newest version. Any number of processes may call Up at once: the
// first process migrates, and the other processes wait for its end, or until ctx ends. Up connects
// as the pool does, on connections of its own. Up does not change a schema that is newer than this
// program, and returns an error if this program cannot work with that schema.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	return UpAs(ctx, pool, Options{})
}

// UpAs is Up with options.
func UpAs(ctx context.Context, pool *pgxpool.Pool, o Options) error {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.files == nil {
		o.files = Files
	}
	return run(ctx, pool, o, func(own *pgxpool.Pool, m *migrate.Migrate) error {
		list, err := versions(o.files)
		if err != nil {
			return err
		}
		newest := list[len(list)-1]
		version, dirty, err := current(m)
		if err != nil {
			return err
		}
		if err := checkApplied(ctx, own, o.files, list, version, dirty); err != nil {
			return err
		}
		if version > newest {
			return worksWith(ctx, own, version, newest)
		}
		if dirty { // the process at work has ended, since this process has the lock
			version = before(list, version)
			if err := m.Force(cmp.Or(version, database.NilVersion)); err != nil {
				return err
			}
		}
		return o.advance(ctx, own, m, list, version)
	})
}

// advance brings a schema from a version of the list to the newest version of the list.
func (o Options) advance(ctx context.Context, own *pgxpool.Pool, m *migrate.Migrate, list []int, version int) (err error) {
	target := list[len(list)-1]
	if o.LeaveLarge {
		if target, err = beforeLarge(ctx, own, o, list, version); err != nil {
			return err
		}
	}
	if target > version {
		if target, err = migrateTo(m, o, list, target); err != nil {
			return err
		}
	}
	if o.Roles.Application != "" && ctx.Err() == nil {
		if err := grant(ctx, own, o.Roles.Application); err != nil {
			return err
		}
	}
	needed, err := required(o.files, list)
	if err == nil && target < needed {
		err = fmt.Errorf("this program needs version %d of the schema, which comes after an index that is not built: run `dlq-worker migrate`", needed)
	}
	return err
}

// migrateTo returns the reached version.
func migrateTo(m *migrate.Migrate, o Options, list []int, target int) (int, error) {
	err := m.Migrate(uint(target))
	if !o.LeaveLarge || !inTheWay(err) {
		return target, err
	}
	// Only the build of an index gives up: all other migrations are tried again.
	o.Log("an index is not built, since another transaction is in its way: run `dlq-worker migrate`; programs can go on meanwhile")
	left, _, err := current(m)
	return before(list, left), err
}

// Down drops the schema with all messages. Down refuses a schema of other migrations, or of a newer
// program, and a schema whose migration was interrupted.
func Down(ctx context.Context, pool *pgxpool.Pool) error {
	return run(ctx, pool, Options{Log: func(string) {}, files: Files}, func(own *pgxpool.Pool, m *migrate.Migrate) error {
		list, err := versions(Files)
		if err != nil {
			return err
		}
		version, dirty, err := current(m)
		if err == nil {
			err = checkApplied(ctx, own, Files, list, version, dirty)
		}
		if newest := list[len(list)-1]; err == nil && version > newest {
			err = fmt.Errorf("the database schema has version %d, and the newest that this program knows is %d: run the newer program", version, newest)
		}
		if err != nil {
			return err
		}
		return m.Down()
	})
}

// current is the version in the database, 0 before the first migration. dirty says that a process
// is applying this version, or died while it applied this version.
func current(m *migrate.Migrate) (version int, dirty bool, err error) {
	v, dirty, err := m.Version()
	if errors.Is(err, migrate.ErrNilVersion) {
		return 0, false, nil
	}
	return int(v), dirty, err
}

// before is the version that precedes the given version in the list; 0 for the first version.
func before(list []int, version int) int {
	i, _ := slices.BinarySearch(list, version)
	if i == 0 {
		return 0
	}
	return list[i-1]
}

// worksWith returns nil if a program can work with a newer schema. known is the newest migration of
// the program.
func worksWith(ctx context.Context, pool *pgxpool.Pool, version, known int) error {
	var oldest int
	if err := pool.QueryRow(ctx, `SELECT oldest_program FROM dlq.dlq_schema`).Scan(&oldest); err != nil {
		return fmt.Errorf("read which programs the schema is for: %w", err)
	}
	if oldest > known {
		return fmt.Errorf("the database schema has version %d, and needs a program that knows version %d; the newest that this one knows is %d: "+
			"run a newer program, or restore the database from before the upgrade", version, oldest, known)
	}
	return nil
}

// settingsSQL overrides the settings of the program, its role and its database. While a migration waits for the
// lock of a table, all later statements on the table wait too, even to read. lock_timeout limits this wait. The
// other timeouts are off: a migration of much data takes long, and the session with the advisory lock is idle
// meanwhile. With READ COMMITTED a migration sees everything that was written before its lock was granted.
const settingsSQL = `
SELECT set_config(name, CASE name
	WHEN 'lock_timeout' THEN '1s'
	WHEN 'default_transaction_isolation' THEN 'read committed'
	WHEN 'search_path' THEN 'public'
	ELSE '0' END, false)
FROM pg_settings
WHERE name IN ('lock_timeout', 'default_transaction_isolation', 'search_path',
	'statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout')`

// run calls do while it holds the advisory lock. golang-migrate has a lock of its own, but waits
// only some seconds for it.
func run(ctx context.Context, pool *pgxpool.Pool, o Options, do func(*pgxpool.Pool, *migrate.Migrate) error) error {
	if err := o.run(ctx, pool, do); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (o Options) run(ctx context.Context, pool *pgxpool.Pool, do func(*pgxpool.Pool, *migrate.Migrate) error) error {
	config := pool.Config()
	config.MinConns, config.MinIdleConns, config.MaxConns = 0, 0, 3
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, settingsSQL)
		return err
	}
	o.Roles.configure(config)
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer own.Close()

	lock, err := own.Acquire(ctx)
	if err != nil {
		return err
	}
	defer lock.Release() // closing the pool ends the connection, and so the lock
	if needed, err := o.lock(ctx, lock, pool); err != nil || !needed {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = lock.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(lockID))
	}()

	if err := ensureVersionTable(ctx, lock); err != nil {
		return err
	}
	source, err := iofs.New(o.files, ".")
	if err != nil {
		return err
	}
	library, err := driver.WithInstance(stdlib.OpenDBFromPool(own), &driver.Config{MigrationsTable: versionTable, MigrationsTableQuoted: true})
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", newPatient(ctx, library, own, o))
	if err != nil {
		return err
	}
	defer func() { _, _ = m.Close() }()
	// The library takes no context, but stops between two migrations when asked.
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()

	if err := do(own, m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return ctx.Err()
}

// tryLockSQL does not take the lock while another process has the lock of golang-migrate. Such a process
// still migrates, even if the session that held our lock for it was ended.
const tryLockSQL = `
SELECT CASE WHEN NOT EXISTS (
	SELECT FROM pg_locks
	WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32) + objid::bigint = $2::text::bigint
) THEN pg_try_advisory_lock($1) ELSE false END`

// lock waits until this process may change the schema. With LeaveLarge, lock does not wait if the
// schema has all that this program needs, and another process builds further indexes, for example.
// Then needed is false.
func (o Options) lock(ctx context.Context, conn *pgxpool.Conn, pool *pgxpool.Pool) (needed bool, err error) {
	libraryID, err := database.GenerateAdvisoryLockId(conn.Conn().Config().Database, "public", "schema_migrations")
	if err != nil {
		return false, err
	}
	for told := false; ; told = true {
		// A wait in PostgreSQL would hold a snapshot. A concurrent build of the other process would
		// wait for the end of that snapshot, and neither process would ever continue.
		var held bool
		err := conn.QueryRow(ctx, tryLockSQL, int64(lockID), libraryID).Scan(&held)
		switch {
		case err != nil:
			return false, fmt.Errorf("wait for another process that migrates: %w", err)
		case held:
			return true, nil
		case o.LeaveLarge && Check(ctx, pool) == nil:
			o.Log("another process migrates the database; this one has the schema that it needs")
			return false, nil
		case !told:
			o.Log("another process migrates the database; this one waits for its end")
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("wait for another process that migrates: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// ensureVersionTable creates the version table if it is missing. golang-migrate would create it too. But without
// the right to create a table the library keeps its connection, and the pool would wait for the connection for ever.
func ensureVersionTable(ctx context.Context, conn *pgxpool.Conn) error {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&exists); err != nil {
		return err
	}
	statement := `CREATE TABLE ` + versionTable + ` (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`
	if exists {
		statement = `SELECT FROM ` + versionTable + ` LIMIT 0`
	}
	_, err := conn.Exec(ctx, statement)
	return err
}
