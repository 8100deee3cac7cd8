package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// checkSQL also tells whether another process migrates right now: then the
// version is marked dirty too, though nothing is wrong. It looks at that
// process's lock without taking any.
const checkSQL = `
SELECT version, dirty, dirty AND EXISTS (
	SELECT FROM pg_locks
	WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32) + objid::bigint = $1)
FROM ` + versionTable

// noSuchTable is the SQLSTATE of a table that is not there.
const noSuchTable = "42P01"

// Check returns nil when the program can work with the schema of the database: it is
// that of this program, or a newer one, since an upgrade migrates first. After an
// interrupted migration of this program the error is a *DirtyError. Check changes
// nothing and waits for no lock.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	needed, err := newest()
	if err != nil {
		return fmt.Errorf("check the database schema: %w", err)
	}
	var version int
	var dirty, underWay bool
	err = pool.QueryRow(ctx, checkSQL, int64(lockID)).Scan(&version, &dirty, &underWay)
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &refusal) && refusal.Code == noSuchTable:
		return fmt.Errorf("the database has no schema yet, and version %d is needed: a worker applies migrations at its start", needed)
	case err != nil:
		return fmt.Errorf("check the database schema: %w", err)
	case underWay:
		return fmt.Errorf("the database schema is being migrated, at version %d now, and version %d is needed: wait for it", version, needed)
	case dirty && version <= needed:
		return &DirtyError{Version: version}
	case dirty:
		return fmt.Errorf("the database schema is marked dirty at version %d, and version %d is the newest that this program knows: "+
			"look in the logs of the newer program, whose migration failed or was interrupted", version, needed)
	case version < needed:
		return fmt.Errorf("the database schema has version %d, and version %d is needed: a worker applies migrations at its start",
			version, needed)
	}
	return nil
}

// versions are the numbers of Files, which have gaps: 005 to 010 were never released.
func versions() ([]int, error) {
	names, err := fs.Glob(Files, "*.up.sql")
	if err != nil || len(names) == 0 {
		return nil, errors.Join(err, errors.New("the program has no migrations"))
	}
	list := make([]int, len(names))
	for i, name := range names { // they are sorted, and their numbers have three digits
		number, _, _ := strings.Cut(name, "_")
		if list[i], err = strconv.Atoi(number); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newest is the number of the last of Files.
func newest() (int, error) {
	list, err := versions()
	if err != nil {
		return 0, err
	}
	return list[len(list)-1], nil
}
