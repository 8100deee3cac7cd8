package migrations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrForeign refuses a database whose schema was made by other migrations than this program
// has. Nothing was changed.
var ErrForeign = errors.New("the schema dlq of this database was not made by the migrations of this program, and is left as it is: " +
	"use another database, or run the program that made it")

// sumOf is the SHA-256 of a migration, in hexadecimal.
func sumOf(files fs.FS, version int) (string, error) {
	sql, err := upFile(files, version)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(sql)
	return hex.EncodeToString(sum[:]), nil
}

const noteFileSQL = `
INSERT INTO dlq.dlq_schema_files (version, sha256) VALUES ($1, $2)
ON CONFLICT (version) DO UPDATE SET sha256 = EXCLUDED.sha256`

// note records which file a version of the schema was made by. If a process dies before the library
// records the version, the next process repeats the migration and this record.
func note(ctx context.Context, pool *pgxpool.Pool, files fs.FS, version int) error {
	sum, err := sumOf(files, version)
	if err == nil {
		_, err = pool.Exec(ctx, noteFileSQL, version, sum)
	}
	return err
}

const appliedSQL = `SELECT version, sha256 FROM dlq.dlq_schema_files ORDER BY version`

// checkApplied returns ErrForeign if the applied migrations up to a version are not the migrations in
// files. It ignores later versions, which a newer program has applied. It also ignores a dirty version,
// whose file may not be recorded.
func checkApplied(ctx context.Context, pool *pgxpool.Pool, files fs.FS, list []int, version int, dirty bool) error {
	if dirty {
		version--
	}
	applied := map[int]string{}
	var number int
	var sum string
	rows, err := pool.Query(ctx, appliedSQL)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&number, &sum}, func() error {
			applied[number] = sum
			return nil
		})
	}
	var refusal *pgconn.PgError
	isMissing := errors.As(err, &refusal) && refusal.Code == noSuchTable // then nothing was applied
	if err != nil && !isMissing {
		return err
	}
	if version == 0 { // nothing is applied, unless by hand
		var isTaken bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass('dlq.dlq_messages') IS NOT NULL`).Scan(&isTaken); err != nil || !isTaken {
			return err
		}
		version = list[0]
	}
	for _, known := range list {
		if known > version {
			return nil
		}
		sum, err := sumOf(files, known)
		switch {
		case err != nil:
			return err
		case applied[known] != sum:
			return ErrForeign
		}
	}
	return nil
}
