package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
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

// collectBehind reads rows that begin with the same columns, which go into head,
// and one that says whether more is in the row; it returns what scan makes of that.
// So a statement can tell something even when it finds nothing.
func collectBehind[T any](rows pgx.Rows, scan pgx.RowToFunc[T], head ...any) (found []T, err error) {
	var more bool
	head = append(head, &more)
	skip := make([]any, len(rows.FieldDescriptions())-len(head)) // nil targets are not read
	targets := slices.Concat(head, skip)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		if !more {
			continue
		}
		one, err := scan(shifted{rows, len(head)})
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// shifted is a row without its first columns.
type shifted struct {
	pgx.Rows
	columns int
}

func (s shifted) Scan(targets ...any) error {
	return s.Rows.Scan(append(make([]any, s.columns), targets...)...)
}
