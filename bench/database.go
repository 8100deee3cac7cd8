package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/migrations"
	"dlqmanager/store/postgres"
)

// database is a database of the benchmark's server.
type database struct {
	name  string
	pool  *pgxpool.Pool
	store *postgres.Store
}

// maxConnections limits a pool, as the default of database.max_open_conns does in the programs.
const maxConnections = 25

// open connects to an existing database.
func (b *bench) open(ctx context.Context, name string) (*database, error) {
	options, err := pgxpool.ParseConfig(b.postgres.URL(name))
	if err != nil {
		return nil, err
	}
	options.MaxConns = maxConnections
	pool, err := postgres.NewPool(ctx, options) // as in the programs
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	store := postgres.New(pool, b.topics)
	store.Outbox = true // as in the programs
	return &database{name: name, pool: pool, store: store}, nil
}

// create creates a database with the schema and the messages of the given topics. Then it runs VACUUM,
// ANALYZE and CHECKPOINT, so that the tables are as long after an ingest.
func (b *bench) create(ctx context.Context, name string, topics ...seedTopic) (*database, error) {
	if err := b.postgres.EnsureDatabase(ctx, name); err != nil {
		return nil, err
	}
	db, err := b.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if err = migrations.Up(ctx, db.pool); err == nil && len(topics) > 0 {
		err = b.seed(ctx, db, topics)
	}
	if err != nil {
		db.pool.Close()
		return nil, err
	}
	return db, nil
}

// template creates a database that copyOf can copy, unless the database exists.
func (b *bench) template(ctx context.Context, name string, topics ...seedTopic) error {
	if b.templates[name] {
		return nil
	}
	db, err := b.create(ctx, name, topics...)
	if err != nil {
		return err
	}
	db.pool.Close() // a database with connections cannot be copied
	b.templates[name] = true
	return nil
}

// copyOf copies a template file by file, so that every measurement has identical tables. CREATE
// DATABASE returns after the files are on disk, so no measurement includes these writes.
func (b *bench) copyOf(ctx context.Context, template string) (*database, error) {
	b.databases++
	name := fmt.Sprintf("%s_%d", template, b.databases)
	if _, err := b.admin.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, template)); err != nil {
		return nil, err
	}
	return b.open(ctx, name)
}

// drop removes the database, even if other pools are connected to it.
func (b *bench) drop(ctx context.Context, db *database) error {
	db.pool.Close()
	_, err := b.admin.Exec(ctx, "DROP DATABASE "+db.name+" WITH (FORCE)")
	return err
}

// walPosition returns the WAL position of the server, in bytes.
func (b *bench) walPosition(ctx context.Context) (float64, error) {
	var position float64
	err := b.admin.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&position)
	return position, err
}
