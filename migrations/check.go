package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// checkSQL reads the version of the schema, and whether another process migrates right now. It looks
// for the lock of that process, and takes no lock itself.
const checkSQL = `
SELECT version, dirty, EXISTS (
	SELECT FROM pg_locks
	WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32) + objid::bigint = $1)
FROM ` + versionTable

// noSuchTable is the SQLSTATE of a table that is not there.
const noSuchTable = "42P01"

// noPrivilege is the SQLSTATE of a missing right.
const noPrivilege = "42501"

// howToMigrate ends the errors about a schema that is not there yet.
const howToMigrate = "a worker applies migrations at its start, and so does `dlq-worker migrate`"

// Check returns nil when the program can work with the schema of the database. The schema may have more
// than this program needs, since an upgrade migrates before it starts the new programs. Check changes
// nothing and waits for no lock.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	list, err := versions(Files)
	if err != nil {
		return fmt.Errorf("check the database schema: %w", err)
	}
	needed, err := required(Files, list)
	if err != nil {
		return fmt.Errorf("check the database schema: %w", err)
	}
	var version int
	var dirty, underWay bool
	err = pool.QueryRow(ctx, checkSQL, int64(lockID)).Scan(&version, &dirty, &underWay)
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &refusal) && refusal.Code == noSuchTable:
		return fmt.Errorf("the database has no schema yet, and version %d is needed: %s", needed, howToMigrate)
	case err != nil:
		return fmt.Errorf("check the database schema: %w", err)
	}
	// A user without rights to the schema cannot read the applied files. Other checks name the missing rights.
	err = checkApplied(ctx, pool, Files, list, version, dirty)
	if hasNoRight := errors.As(err, &refusal) && refusal.Code == noPrivilege; err != nil && !hasNoRight {
		return fmt.Errorf("check the database schema: %w", err)
	}
	has := version
	if dirty { // this version was not applied to the end
		has = before(list, version)
	}
	newest := list[len(list)-1]
	switch {
	case has < needed && underWay:
		return fmt.Errorf("the database schema is being migrated, at version %d now, and version %d is needed: wait for it", version, needed)
	case has < needed:
		return fmt.Errorf("the database schema has version %d, and version %d is needed: %s", has, needed, howToMigrate)
	case version > newest:
		return worksWith(ctx, pool, version, newest)
	}
	return nil
}

// required is the newest version that a program cannot do without. An index that is built
// concurrently is not needed, since it only makes the program faster.
func required(files fs.FS, list []int) (int, error) {
	for _, version := range slices.Backward(list) {
		index, _, err := indexOf(files, version)
		if err != nil || index == "" {
			return version, err
		}
	}
	return 0, nil
}

// versions are the numbers of the files.
func versions(files fs.FS) ([]int, error) {
	names, err := fs.Glob(files, "*.up.sql")
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
