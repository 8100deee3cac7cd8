package migrations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// startTimeout is how long the build of an index may wait for other transactions at the start of a
// program. A dump may last for hours, and programs can do without the index.
const startTimeout = 2 * time.Second

// largeTable is a size of a table in bytes. On a larger table, the build of an index takes longer than a start may last.
const largeTable = 128 << 20

// SQLSTATEs of a transaction that failed because another transaction was in its way.
const (
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// patient is the library's driver. It runs a migration again while other sessions hold locks that the migration needs.
type patient struct {
	database.Driver
	retry func(func() error) error
	build func(index, table, sql string) error
	note  func(version int) error
}

func newPatient(ctx context.Context, library database.Driver, pool *pgxpool.Pool, o Options) *patient {
	var limit time.Duration // none
	if o.LeaveLarge {
		limit = startTimeout
	}
	return &patient{
		Driver: library,
		retry:  func(do func() error) error { return retry(ctx, pool, o.Log, do) },
		build:  func(index, table, sql string) error { return build(ctx, pool, limit, index, table, sql) },
		note:   func(version int) error { return note(ctx, pool, o.files, version) },
	}
}

// Run applies a file.
func (p *patient) Run(migration io.Reader) error {
	sql, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	if match := concurrently.FindSubmatch(sql); match != nil {
		return p.build(string(match[1]), string(match[2]), string(sql))
	}
	return p.retry(func() error { return p.Driver.Run(bytes.NewReader(sql)) })
}

// SetVersion records the version of the schema. Before that it records the file of the version. When migrations are
// undone, the table of files exists until the last of them.
func (p *patient) SetVersion(version int, dirty bool) error {
	return p.retry(func() error {
		if !dirty && version > 0 {
			if err := p.note(version); err != nil {
				return err
			}
		}
		return p.Driver.SetVersion(version, dirty)
	})
}

// retry calls do until no other transaction is in its way. The other transactions go on in the pauses.
func retry(ctx context.Context, pool *pgxpool.Pool, log func(string), do func() error) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		err := do()
		if !inTheWay(err) {
			return err
		}
		log(fmt.Sprintf("a migration waits for the locks of other sessions, and tries again in %s; %s", wait, holder(ctx, pool)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func inTheWay(err error) bool {
	// The library's error hides PostgreSQL's error.
	var value database.Error
	var pointer *database.Error
	switch {
	case errors.As(err, &value):
		err = value.OrigErr
	case errors.As(err, &pointer):
		err = pointer.OrigErr
	}
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && (refusal.Code == lockNotAvailable || refusal.Code == deadlockDetected)
}

// holderSQL finds the oldest transaction of another session that holds a lock on a table of
// the schema.
const holderSQL = `
SELECT format('the oldest is pid %s, %s of user %s, in a transaction since %s',
	a.pid, COALESCE(NULLIF(a.application_name, ''), 'a program'), a.usename, a.xact_start)
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
	AND (c.relnamespace = to_regnamespace('dlq') OR c.oid = to_regclass('public.schema_migrations'))
ORDER BY a.xact_start
LIMIT 1`

// holder says which session a migration waits for.
func holder(ctx context.Context, pool *pgxpool.Pool) string {
	var text string
	if err := pool.QueryRow(ctx, holderSQL).Scan(&text); err != nil {
		return "pg_locks and pg_stat_activity name them"
	}
	return text
}

// concurrently matches a file that builds or drops an index while programs read and write the
// table. Such a statement cannot be part of a transaction, so the file has no other statement.
var concurrently = regexp.MustCompile(`(?m)^(?:CREATE(?: UNIQUE)?|DROP) INDEX CONCURRENTLY IF (?:NOT )?EXISTS (?:dlq\.)?(\w+)(?:\s+ON (dlq\.\w+))?`)

// build runs a file that concurrently matches. It waits for each other transaction up to the limit;
// 0 is no limit. No session waits for the build.
func build(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, index, table, sql string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, fmt.Sprintf(`SET lock_timeout = %d`, limit.Milliseconds())); err != nil {
		return err
	}
	if table != "" {
		// The server may still build the index for a process that was killed. LOCK TABLE waits without
		// a snapshot. Another statement would wait with a snapshot, and the build waits until snapshots end.
		if _, err := conn.Exec(ctx, `BEGIN; LOCK TABLE `+table+` IN SHARE UPDATE EXCLUSIVE MODE; COMMIT`); err != nil {
			return err
		}
	}
	// An index whose build was interrupted exists, but is of no use.
	var invalid bool
	const invalidSQL = `SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.' || $1) AND NOT indisvalid)`
	if err := conn.QueryRow(ctx, invalidSQL, index).Scan(&invalid); err != nil {
		return err
	}
	if invalid {
		// A build releases its lock just before it commits that the index is valid. Then the server refuses to drop the index.
		if _, err := conn.Exec(ctx, `DROP INDEX CONCURRENTLY dlq.`+index); err != nil && !isChangedMeanwhile(err) {
			return err
		}
	}
	_, err = conn.Exec(ctx, sql)
	return err
}

// isChangedMeanwhile tells whether another transaction has just changed the same row of the catalog. PostgreSQL has no
// SQLSTATE for this error, and translates its text.
func isChangedMeanwhile(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Routine == "simple_heap_update"
}

// beforeLarge is the newest version that can be reached without building an index on a large
// table.
func beforeLarge(ctx context.Context, pool *pgxpool.Pool, o Options, list []int, version int) (int, error) {
	for _, next := range list {
		if next <= version {
			continue
		}
		index, table, err := indexOf(o.files, next)
		if err != nil {
			return 0, err
		}
		if table == "" {
			continue
		}
		var size int64
		const sizeSQL = `SELECT COALESCE(pg_table_size(to_regclass($1)), 0)`
		if err := pool.QueryRow(ctx, sizeSQL, table).Scan(&size); err != nil {
			return 0, err
		}
		if size > largeTable {
			o.Log(fmt.Sprintf("the index %s is not built, since %s has %d MiB: run `dlq-worker migrate`; programs can go on meanwhile",
				index, table, size>>20))
			return before(list, next), nil
		}
	}
	return list[len(list)-1], nil
}

// indexOf is the index that a migration builds concurrently, and its table; both are empty for
// any other migration.
func indexOf(files fs.FS, version int) (index, table string, err error) {
	sql, err := upFile(files, version)
	if err != nil {
		return "", "", err
	}
	if match := concurrently.FindSubmatch(sql); match != nil {
		return string(match[1]), string(match[2]), nil
	}
	return "", "", nil
}

// upFile is the migration that leads to a version.
func upFile(files fs.FS, version int) ([]byte, error) {
	names, err := fs.Glob(files, fmt.Sprintf("%03d_*.up.sql", version))
	if err != nil || len(names) != 1 {
		return nil, errors.Join(err, fmt.Errorf("migration %03d has %d files", version, len(names)))
	}
	return fs.ReadFile(files, names[0])
}
