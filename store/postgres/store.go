// Package postgres keeps dead letters in PostgreSQL.
//
// Every statement stands whole in a constant whose name ends in SQL, beside the
// code that runs it. Its parameters are named. The few things that vary in it are
// marked by a comment, and the text is valid as it stands: it can be pasted into
// psql with values in place of the parameters. TestEveryStatement explains each of
// them on a filled database and names the indexes that it uses.
package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// The statements say 100 and 10001, so that they can be read and pasted. These
// lines do not compile when that is no longer the size of a page and one more than
// is counted.
var (
	_ = [1]struct{}{}[dlq.PageSize-100]
	_ = [1]struct{}{}[dlq.CountLimit+1-10001]
)

// Store keeps dead letters in PostgreSQL 15 or later. Errors that mean that the
// database is away match dlq.ErrUnavailable. It is safe for use by any number of
// goroutines and processes.
type Store struct {
	pool   *pgxpool.Pool
	topics *dlq.Topics
}

// New works on a database that package migrations has brought up to date. The pool
// stays the caller's to close.
func New(pool *pgxpool.Pool, topics *dlq.Topics) *Store {
	return &Store{pool: pool, topics: topics}
}

// callTimeout bounds a call, so that none hangs for ever where a network swallows
// what it is given. It is long for statements on a page of rows.
const callTimeout = 10 * time.Second

// limits are for statements that do more than that. Zero is the caller's own limit.
var limits = map[string]time.Duration{
	storeSQL:        time.Minute,      // brings up to maxStatement along
	archiveBatchSQL: 30 * time.Second, // of up to 100,000 messages
	purgeBatchSQL:   30 * time.Second,
	inOrderSQL:      30 * time.Second, // begins what may look through a whole topic
	byIndexSQL:      30 * time.Second,
	timeLimitSQL:    0, // begins what reads a whole scope
}

// limited gives a call of these statements its deadline, unless the caller's is earlier.
func limited(ctx context.Context, statements ...string) (context.Context, context.CancelFunc) {
	longest := callTimeout
	for _, sql := range statements {
		limit, known := limits[sql]
		if known && limit == 0 {
			return ctx, func() {}
		}
		longest = max(longest, limit)
	}
	return context.WithTimeout(ctx, longest)
}

const readOnlySQL = `SELECT current_setting('transaction_read_only')::bool`

// Ping asks the database for a sign of life. It returns dlq.ErrReadOnly when the database
// can only be read.
func (s *Store) Ping(ctx context.Context) error {
	readOnly, _, err := one(ctx, s, "ping", pgx.RowTo[bool], readOnlySQL, pgx.NamedArgs{})
	if err == nil && readOnly {
		err = dlq.ErrReadOnly
	}
	return err
}

// batch sends statements in one round trip and one transaction. what says in errors
// what was tried.
func (s *Store) batch(ctx context.Context, what string, queue func(*pgx.Batch)) error {
	err := again(func() error {
		batch := &pgx.Batch{}
		queue(batch)
		statements := make([]string, len(batch.QueuedQueries))
		for i, query := range batch.QueuedQueries {
			statements[i] = query.SQL
		}
		ctx, cancel := limited(ctx, statements...)
		defer cancel()
		return s.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return failed(what, err)
	}
	return nil
}

// queue adds a statement whose rows go into found.
func queue[T any](batch *pgx.Batch, found *[]T, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs) {
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		*found, err = pgx.CollectRows(rows, scan)
		return err
	})
}

// all returns the rows of a statement.
func all[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs) (found []T, err error) {
	ctx, cancel := limited(ctx, sql)
	defer cancel()
	err = again(func() error {
		rows, err := s.pool.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	if err != nil {
		return nil, failed(what, err)
	}
	return found, nil
}

// one returns the first row of a statement; found is false when it gives none.
func one[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs) (row T, found bool, err error) {
	rows, err := all(ctx, s, what, scan, sql, args)
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// uuid is how pgx takes an ID.
func uuid(id dlq.ID) [16]byte { return id }

func uuids(ids []dlq.ID) [][16]byte {
	list := make([][16]byte, len(ids))
	for i, id := range ids {
		list[i] = id
	}
	return list
}

// optional is nil when there is no value, which is NULL.
func optional[T any](value T, none bool) *T {
	if none {
		return nil
	}
	return &value
}
