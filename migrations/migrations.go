// Package migrations holds the database schema as numbered SQL files and brings
// a database to it. Every file is one transaction and may run again, so what was
// interrupted can be repeated.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-migrate/migrate/v4"
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

// versionTable is named with its schema: a database user called dlq would find
// another table of this name as soon as the schema dlq exists.
const versionTable = `"public"."schema_migrations"`

// lockID is the advisory lock that lets one process migrate at a time. The
// number is arbitrary and must never change.
const lockID = 7_305_011_990_412

// DirtyError means that a migration was interrupted between its work and the
// note that it is done. A person must look before anything else runs.
type DirtyError struct{ Version int }

// Error says what to look at and what to do then.
func (e *DirtyError) Error() string {
	reset, before := "DELETE FROM public.schema_migrations", 0
	list, _ := versions()
	for _, version := range list {
		if version < e.Version {
			before = version
		}
	}
	if before > 0 {
		reset = fmt.Sprintf("UPDATE public.schema_migrations SET version = %d, dirty = false", before)
	}
	return fmt.Sprintf("the database schema is marked dirty at version %d: migration %03d failed or was interrupted. "+
		"It is one transaction, so it happened wholly or not at all, and it may run again. "+
		"See in the logs why it failed, mend the cause, then run %q and start again", e.Version, e.Version, reset)
}

// Up brings the database to the newest version. Any number of processes may
// call it at once: one works, the others wait for it until ctx ends. It connects
// as the pool does, on connections of its own. A schema that an interrupted
// migration left behind is a *DirtyError. A schema that is newer than this
// program is an error too, and stays as it is.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	return UpAs(ctx, pool, Roles{})
}

// UpAs is Up with database roles.
func UpAs(ctx context.Context, pool *pgxpool.Pool, roles Roles) error {
	return run(ctx, pool, roles, known((*migrate.Migrate).Up))
}

// Down drops the schema with all messages. It refuses the schemas that Up refuses.
func Down(ctx context.Context, pool *pgxpool.Pool) error {
	return run(ctx, pool, Roles{}, known((*migrate.Migrate).Down))
}

// known refuses a schema whose version this program does not know, also a dirty one:
// only the program that made it knows how to repair it or to revert it.
func known(do func(*migrate.Migrate) error) func(*migrate.Migrate) error {
	return func(m *migrate.Migrate) error {
		list, err := versions()
		if err != nil {
			return err
		}
		version, _, err := m.Version()
		if err == nil && !slices.Contains(list, int(version)) {
			return fmt.Errorf("the database schema has version %d, which this program does not know; its newest is %d. "+
				"If an unreleased program made this database for development, delete its state (such as .data) and start again. "+
				"Otherwise run the newer program that made it", version, list[len(list)-1])
		}
		return do(m)
	}
}

// Version is the number of the newest migration in the database; 0 before the
// first.
func Version(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	version := 0
	err := run(ctx, pool, Roles{}, func(m *migrate.Migrate) error {
		v, dirty, err := m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		version = int(v)
		if err == nil && dirty {
			return migrate.ErrDirty{Version: version}
		}
		return err
	})
	return version, err
}

// run does one thing to the schema while holding the lock. golang-migrate has a
// lock of its own, but gives up waiting for it after seconds.
func run(ctx context.Context, pool *pgxpool.Pool, roles Roles, do func(*migrate.Migrate) error) (err error) {
	config := pool.Config()
	config.MinConns, config.MinIdleConns, config.MaxConns = 0, 0, 3
	// A migration of much data takes long, and waits for others; what limits the
	// program's own statements must not stop it.
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET default_transaction_isolation = 'read committed'`) // to see what was written before a lock was granted
		return err
	}
	roles.configure(config)
	delete(config.ConnConfig.RuntimeParams, "lock_timeout")
	if _, limited := config.ConnConfig.RuntimeParams["statement_timeout"]; limited {
		config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	}
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer own.Close()

	lock, err := own.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer lock.Release() // closing the pool ends the connection, and so the lock
	if _, err := lock.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockID)); err != nil {
		return fmt.Errorf("migrate: wait for another process that migrates: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = lock.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(lockID))
	}()

	if err := ensureVersionTable(ctx, lock); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	source, err := iofs.New(Files, ".")
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	database, err := driver.WithInstance(stdlib.OpenDBFromPool(own), &driver.Config{MigrationsTable: versionTable, MigrationsTableQuoted: true})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", database)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() { _, _ = m.Close() }()
	// The library takes no context; it stops between two migrations when asked.
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()

	err = do(m)
	var dirty migrate.ErrDirty
	switch {
	case errors.As(err, &dirty):
		return &DirtyError{Version: dirty.Version}
	case err != nil && !errors.Is(err, migrate.ErrNoChange):
		return fmt.Errorf("migrate: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("migrate: %w", ctx.Err())
	case roles.Application != "":
		return grant(ctx, own, roles.Application)
	}
	return nil
}

// ensureVersionTable makes the table if it is missing, as golang-migrate would. That keeps its
// connection when it may not, and the pool would wait for the connection for ever.
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
