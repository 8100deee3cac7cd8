package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiled starts a CPU profile of this process and resets the statement statistics.
// end writes both into the profile folder. A later run overwrites the files of an
// earlier run with the same name.
func (b *bench) profiled(ctx context.Context, name string) (end func() error, err error) {
	if b.profile == "" {
		return func() error { return nil }, nil
	}
	if _, err := b.admin.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(b.profile, name+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			return err
		}
		return b.writeStatements(ctx, filepath.Join(b.profile, name+".statements.txt"))
	}, nil
}

// writeStatements lists the ten statements with the longest total time.
func (b *bench) writeStatements(ctx context.Context, path string) error {
	rows, err := b.admin.Query(ctx, `
		SELECT calls, total_exec_time, mean_exec_time, rows, wal_records, wal_fpi, wal_bytes::float8,
			regexp_replace(left(query, 200), '\s+', ' ', 'g')
		FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 10`)
	if err != nil {
		return err
	}
	defer rows.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	fmt.Fprintln(file, "calls\ttotal ms\tmean ms\trows\tWAL records\tpage images\tWAL bytes\tstatement")
	for rows.Next() {
		var calls, affected, records, images int64
		var total, mean, bytes float64
		var query string
		if err := rows.Scan(&calls, &total, &mean, &affected, &records, &images, &bytes, &query); err != nil {
			return err
		}
		fmt.Fprintf(file, "%d\t%.0f\t%.3f\t%d\t%d\t%d\t%.0f\t%s\n", calls, total, mean, affected, records, images, bytes, query)
	}
	return rows.Err()
}
