package migrations

import (
	"context"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
)

// UpWith is UpAs of a program with other files.
func UpWith(ctx context.Context, pool *pgxpool.Pool, files fs.FS, o Options) error {
	o.files = files
	return UpAs(ctx, pool, o)
}

// Required is the newest version that a program with these files cannot do without.
func Required(files fs.FS) (int, error) {
	list, err := versions(files)
	if err != nil {
		return 0, err
	}
	return required(files, list)
}
