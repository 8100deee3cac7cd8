// Package postgres keeps dead letters in PostgreSQL.
//
// Every statement is a constant whose name ends in SQL, beside the code that runs it. Its parameters are named.
// Comments mark the few parts that the code replaces. The text is valid as it is, and can be pasted into psql
// with values for the parameters. TestEveryStatement runs EXPLAIN for each statement on a filled database, and lists
// the indexes of its plan.
package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// The statements contain the numbers 100, 10000, 10001 and 65536. These lines do not compile when
// dlq.PageSize, dlq.CountLimit or dlq.ListPayload changes.
var (
	_ = [1]struct{}{}[dlq.ListPayload-65536]
	_ = [1]struct{}{}[dlq.PageSize-100]
	_ = [1]struct{}{}[dlq.CountLimit+1-10001]
)

// Store keeps dead letters in PostgreSQL 15 or later, for any number of goroutines and processes. Errors match
// dlq.ErrUnavailable when the database is unavailable. The fields are set before the first use.
type Store struct {
	pool   pool
	topics *dlq.Topics
	// Outbox makes the store put every message that becomes exhausted into the outbox, for PublishExhausted.
	Outbox bool
	// Audit, if any, is called with every operation that the store has recorded.
	Audit func(dlq.Operation)
	// MaxGroups limits the groups of each dead-letter topic; 0 means dlq.MaxGroups.
	MaxGroups int
	// Targets decides which messages have the same target.
	Targets *dlq.Targets
	// VerifyGroups are the configured consumer groups.
	VerifyGroups *dlq.VerifyGroups
	// suspendedAfter is the constant of the same name, except in tests.
	suspendedAfter time.Duration
}

// New returns a store on a database with the schema of package migrations. The caller closes the pool.
func New(connections *pgxpool.Pool, topics *dlq.Topics) *Store {
	return &Store{pool: pool{connections}, topics: topics, suspendedAfter: suspendedAfter}
}

// callTimeout ends a call even if the network drops its packets. Statements on a page of rows take much less time.
const callTimeout = 10 * time.Second

// statementTimeouts are limits of calls with these statements. Zero leaves the limit to the caller.
var statementTimeouts = map[string]time.Duration{
	archiveBatchSQL: 30 * time.Second, // of up to 100,000 messages
	purgeBatchSQL:   30 * time.Second,
	purgeAuditSQL:   30 * time.Second,
	inOrderSQL:      30 * time.Second, // precedes statements that may read a whole topic
	byIndexSQL:      30 * time.Second,
	timeLimitSQL:    0, // precedes statements that read a whole scope
}

// withCallTimeout gives a call of these statements its deadline.
func withCallTimeout(ctx context.Context, statements ...string) (context.Context, context.CancelFunc) {
	longest := callTimeout
	for _, sql := range statements {
		limit, known := statementTimeouts[sql]
		if known && limit == 0 {
			return ctx, func() {}
		}
		longest = max(longest, limit)
	}
	return context.WithTimeout(ctx, longest)
}

const readOnlySQL = `SELECT current_setting('transaction_read_only')::bool`

// Ping checks that the database answers. The error is dlq.ErrReadOnly when the database accepts no changes.
func (s *Store) Ping(ctx context.Context) error {
	readOnly, _, err := queryOne(ctx, s, "ping", pgx.RowTo[bool], readOnlySQL, pgx.NamedArgs{})
	if err == nil && readOnly {
		err = dlq.ErrReadOnly
	}
	return err
}

// batch sends statements in one round trip and transaction. operation names the call in errors.
func (s *Store) batch(ctx context.Context, operation string, queue func(*pgx.Batch)) error {
	err := retryOnConflict(func() error {
		batch := &pgx.Batch{}
		queue(batch)
		statements := make([]string, len(batch.QueuedQueries))
		for i, query := range batch.QueuedQueries {
			statements[i] = query.SQL
		}
		ctx, cancel := withCallTimeout(ctx, statements...)
		defer cancel()
		return s.pool.send(ctx, batch)
	})
	return wrap(operation, err)
}

// inTransaction runs do in a transaction, and runs it again after a conflict. READ COMMITTED lets each statement see
// all that was committed before a lock was granted, even if the database has another default.
func (s *Store) inTransaction(ctx context.Context, do func(pgx.Tx) error) error {
	return retryOnConflict(func() error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
	})
}

// queueQuery adds a statement to the batch. Its rows go into found.
func queueQuery[T any](batch *pgx.Batch, found *[]T, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs) {
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		*found, err = pgx.CollectRows(rows, scan)
		return err
	})
}

// queryAll returns the rows of a statement. The statements in before, such as settings of the planner, run first.
func queryAll[T any](ctx context.Context, s *Store, operation string, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs,
	before ...string) (found []T, err error) {
	if len(before) == 0 { // a single span in a trace
		ctx, cancel := withCallTimeout(ctx, sql)
		defer cancel()
		err = wrap(operation, retryOnConflict(func() error {
			rows, err := s.pool.Query(ctx, sql, args)
			if err == nil {
				found, err = pgx.CollectRows(rows, scan)
			}
			return err
		}))
	} else {
		err = s.batch(ctx, operation, func(batch *pgx.Batch) {
			for _, first := range before {
				batch.Queue(first)
			}
			queueQuery(batch, &found, scan, sql, args)
		})
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// queryOne returns the first row of a statement; found is false when there is none.
func queryOne[T any](ctx context.Context, s *Store, operation string, scan pgx.RowToFunc[T], sql string, args pgx.NamedArgs,
	before ...string) (row T, found bool, err error) {
	rows, err := queryAll(ctx, s, operation, scan, sql, args, before...)
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// queryExisting returns the first row of a statement, or the error missing when there is none.
func queryExisting[T any](ctx context.Context, s *Store, operation string, missing error, scan pgx.RowToFunc[T], sql string,
	args pgx.NamedArgs, before ...string) (T, error) {
	row, found, err := queryOne(ctx, s, operation, scan, sql, args, before...)
	if err == nil && !found {
		err = missing
	}
	return row, err
}

// uuid converts an ID to the type that pgx encodes as UUID.
func uuid(id dlq.ID) [16]byte { return id }

func uuids(ids []dlq.ID) [][16]byte {
	return column(ids, func(id *dlq.ID) [16]byte { return *id })
}

// nilIf returns nil, which becomes NULL, if none is set.
func nilIf[T any](value T, none bool) *T {
	if none {
		return nil
	}
	return &value
}
