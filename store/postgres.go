package store

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// Postgres keeps dead letters in PostgreSQL 15 or later. Errors that mean that
// the database is away match dlq.ErrUnavailable. It is safe for use by any
// number of goroutines and processes.
type Postgres struct {
	pool   *pgxpool.Pool
	topics *dlq.Topics
}

// NewPostgres works on a database that package migrations has brought up to
// date. The pool stays the caller's to close.
func NewPostgres(pool *pgxpool.Pool, topics *dlq.Topics) *Postgres {
	return &Postgres{pool: pool, topics: topics}
}

// Ping asks the database for a sign of life.
func (p *Postgres) Ping(ctx context.Context) error {
	if err := p.pool.Ping(ctx); err != nil {
		return failed("ping", err)
	}
	return nil
}

// hasOrigin is the condition that a message m has somewhere to go: what
// Topics.CheckOrigin says, where the named parameter expression is
// Topics.Expression.
const hasOrigin = `m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @expression`
