package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings of a session. They are set after connecting: PgBouncer refuses start-up
// parameters that it does not know.
const (
	// idleTimeoutSQL frees the locks of a program that vanished, or froze, in the middle
	// of a transaction. Ours go from one statement to the next at once.
	idleTimeoutSQL = `SELECT set_config('idle_in_transaction_session_timeout', '10s', false)`

	// lockTimeoutSQL bounds the wait for a lock of somebody else, also that for a table
	// whose index is being built, which the preparation of a statement waits for. The
	// caller tries again.
	lockTimeoutSQL = `SELECT set_config('lock_timeout', '2s', false)`

	// userTimeoutSQL ends the session of a program whose machine or network vanished
	// while it was sent an answer. By TCP's own rules that takes a quarter of an hour.
	userTimeoutSQL = `SELECT set_config('tcp_user_timeout', '10s', false)`

	// isolationSQL lets each statement see what others have committed, whatever the
	// database's default is: the statements rest on that after they have waited for a lock.
	isolationSQL = `SELECT set_config('default_transaction_isolation', 'read committed', false)`
)

const (
	// sessionTimeout bounds the statements above.
	sessionTimeout = 5 * time.Second

	// partingTime is how long the server may take to end a session whose statement was
	// given up. Meanwhile the connection counts against the pool's maximum.
	partingTime = time.Second

	// pingAfter is how long a connection may have been idle and still be used unseen. A
	// busy program pays for no ping, another does not notice it.
	pingAfter = 10 * time.Millisecond

	// pingTimeout is long for a server under load, and short enough that a caller
	// still gets its answer when it has to take another connection.
	pingTimeout = 2 * time.Second
)

// NewPool connects to the database as a Store needs it, with sessions that do not
// outlive their program for long. When one connection does not answer, as behind a
// proxy that has forgotten it, the pool drops all that are idle: they have most
// likely gone silent together, and would cost as many callers their patience one
// after the other.
func NewPool(ctx context.Context, options *pgxpool.Config) (*pgxpool.Pool, error) {
	w := &watch{}
	options.AfterConnect = setSession
	options.ShouldPing = w.isBroken
	options.BeforeClose = cutOff
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reset = pool.Reset
	return pool, nil
}

// setSession does without a setting that the server refuses: some have no
// tcp_user_timeout, such as those on other systems than Linux.
func setSession(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	for _, sql := range []string{idleTimeoutSQL, lockTimeoutSQL, userTimeoutSQL, isolationSQL} {
		_, err := conn.Exec(ctx, sql)
		var refusal *pgconn.PgError
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
	}
	return nil
}

// cutOff does not let a connection take its leave of a server that does not answer.
// The driver would wait 15 seconds, and the pool could be full of such connections.
func cutOff(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return // nothing was given up
	}
	timer := time.NewTimer(partingTime)
	defer timer.Stop()
	select {
	case <-conn.PgConn().CleanupDone():
	case <-timer.C:
		_ = conn.PgConn().Conn().Close() // whatever it says
	}
}

// watch looks after the connections of a pool.
type watch struct {
	mu    sync.Mutex
	reset func()
	last  time.Time
}

// isBroken pings a connection. The pool closes one that is broken and takes the next.
func (w *watch) isBroken(ctx context.Context, params pgxpool.ShouldPingParams) bool {
	if params.IdleDuration < pingAfter {
		return false
	}
	began := time.Now()
	until := began.Add(pingTimeout)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	// A caller that gives up does not cost the connection.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	err := params.Conn.Ping(ctx)
	if err != nil && time.Since(began) >= pingTimeout {
		w.dropAll(began)
	}
	return err != nil
}

// dropAll closes all idle connections, once for those that went silent together.
func (w *watch) dropAll(silentSince time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reset == nil || w.last.After(silentSince) {
		return
	}
	w.last = time.Now()
	w.reset()
}
