package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings of a session. They are set after connecting, because PgBouncer refuses unknown
// start-up parameters.
const (
	// idleTimeoutSQL releases the locks of a program that crashed or was suspended in a transaction. Only the
	// transaction of PublishExhausted pauses, and it sets a longer timeout.
	idleTimeoutSQL = `SELECT set_config('idle_in_transaction_session_timeout', '10s', false)`

	// lockTimeoutSQL limits the wait for a lock. Even the preparation of a statement waits for a table
	// whose index is being built. The caller tries again.
	lockTimeoutSQL = `SELECT set_config('lock_timeout', '2s', false)`

	// userTimeoutSQL ends the session of a program whose machine or network failed while
	// the server sent a response. TCP's default is a quarter of an hour.
	userTimeoutSQL = `SELECT set_config('tcp_user_timeout', '10s', false)`

	// keepaliveSQL ends the session of a program whose machine or network failed while the
	// server waits for the program, such as in the middle of a COPY. The default is two hours.
	keepaliveSQL = `SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
		set_config('tcp_keepalives_count', '3', false)`

	// isolationSQL lets each statement see all that was committed before, even if the
	// database has another default. Statements rely on that after they waited for a lock.
	isolationSQL = `SELECT set_config('default_transaction_isolation', 'read committed', false)`
)

const (
	// sessionTimeout bounds the statements above.
	sessionTimeout = 5 * time.Second

	// closeTimeout is how long the server may take to end a session whose statement was
	// cancelled. Until then the connection counts against the pool's maximum.
	closeTimeout = time.Second

	// pingAfter is how long a connection may be idle before it needs a ping. So a busy program sends no pings.
	pingAfter = 10 * time.Millisecond

	// pingTimeout is long enough for a server under load, and leaves the caller time for another connection.
	pingTimeout = 2 * time.Second
)

// NewPool connects to the database with the settings that a Store needs. When a connection does not answer a
// ping, the pool closes all idle connections. Most likely all of them have failed together, for example
// behind a proxy, and each of them would cost a caller the ping timeout.
func NewPool(ctx context.Context, options *pgxpool.Config) (*pgxpool.Pool, error) {
	detector := &silenceDetector{}
	given := options.AfterConnect
	options.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if given != nil {
			if err := given(ctx, conn); err != nil {
				return err
			}
		}
		registerArrays(conn.TypeMap())
		return setSession(ctx, conn)
	}
	options.ShouldPing = detector.isBroken
	options.BeforeClose = closeUnresponsive
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, err
	}
	detector.mu.Lock()
	defer detector.mu.Unlock()
	detector.reset = pool.Reset
	return pool, nil
}

// setSession ignores settings that the server refuses, such as tcp_user_timeout on other systems than Linux.
func setSession(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	for _, sql := range []string{idleTimeoutSQL, lockTimeoutSQL, userTimeoutSQL, keepaliveSQL, isolationSQL} {
		if _, err := conn.Exec(ctx, sql); err != nil && codeOf(err) == "" {
			return err
		}
	}
	return nil
}

// closeUnresponsive closes the socket of a connection whose server does not answer. The driver would wait 15
// seconds, and the pool could be full of such connections.
func closeUnresponsive(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return // no statement was cancelled
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-conn.PgConn().CleanupDone():
	case <-timer.C:
		_ = conn.PgConn().Conn().Close() // the connection is unusable either way
	}
}

// silenceDetector closes the idle connections of a pool when one of them has stopped answering.
type silenceDetector struct {
	mu        sync.Mutex
	reset     func()
	lastReset time.Time
}

// isBroken pings a connection that was idle. The pool closes a broken connection and takes the next connection.
func (d *silenceDetector) isBroken(ctx context.Context, params pgxpool.ShouldPingParams) bool {
	if params.IdleDuration < pingAfter {
		return false
	}
	began := time.Now()
	until := began.Add(pingTimeout)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	// A caller that is cancelled must not make the pool close a healthy connection.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	err := params.Conn.Ping(ctx)
	if err != nil && time.Since(began) >= pingTimeout {
		d.dropIdle(began)
	}
	return err != nil
}

// dropIdle closes all idle connections, once for all connections that stopped answering at the same time.
func (d *silenceDetector) dropIdle(silentSince time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reset == nil || d.lastReset.After(silentSince) {
		return
	}
	d.lastReset = time.Now()
	d.reset()
}
