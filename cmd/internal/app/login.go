package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/config"
	"dlqmanager/dlq"
)

// userAge is how long the pool may still use connections of a user when the file names another user.
const userAge = time.Second

// login gives every new connection the credentials and certificates that are in their files at that time. When the file names
// another user, the pool moves to that user at once. The server may soon drop the earlier user, and connections of that user
// would lose their rights.
type login struct {
	database config.Database
	pool     atomic.Pointer[pgxpool.Pool]
	user     atomic.Pointer[string] // the user of the newest connection
	checked  atomic.Int64           // when the user was last compared with the file, in nanoseconds since 1970
}

// apply sets the hooks in the options of a pool. Set l.pool after the pool is open.
func (l *login) apply(options *pgxpool.Config) {
	options.BeforeConnect = l.prepare
	if l.database.UserFile != "" {
		options.AfterConnect = l.connected
		options.PrepareConn = l.keep
	}
}

// prepare reads the files. While they are being replaced, a file may be missing, or the files may not fit together.
func (l *login) prepare(_ context.Context, c *pgx.ConnConfig) (err error) {
	if c.User, c.Password, err = l.database.Credentials(); err != nil {
		return fmt.Errorf("%w: %w", dlq.ErrUnavailable, err)
	}
	if l.database.SSLRootCert == "" && l.database.SSLCert == "" {
		return nil
	}
	if err := l.database.CheckCertificates(); err != nil {
		return fmt.Errorf("%w: %w", dlq.ErrUnavailable, err)
	}
	fresh, err := pgx.ParseConfig(l.database.URL()) // reads the certificates
	if err != nil {
		return fmt.Errorf("%w: %w", dlq.ErrUnavailable, err)
	}
	c.TLSConfig, c.Fallbacks = fresh.TLSConfig, fresh.Fallbacks
	return nil
}

// connected resets the pool if the new connection has another user, so that the connections of the earlier user close.
func (l *login) connected(_ context.Context, conn *pgx.Conn) error {
	user := conn.Config().User
	before := l.user.Swap(&user)
	if pool := l.pool.Load(); before != nil && *before != user && pool != nil {
		pool.Reset()
	}
	return nil
}

// keep checks the user once in every userAge. While the file names another user, it rejects the connection that is asked for,
// and the pool opens a new connection. If the new user cannot log in yet, the earlier connections remain.
func (l *login) keep(context.Context, *pgx.Conn) (bool, error) {
	now, checked := time.Now().UnixNano(), l.checked.Load()
	if now-checked < userAge.Nanoseconds() || !l.checked.CompareAndSwap(checked, now) {
		return true, nil
	}
	user, _, err := l.database.Credentials()
	newest := l.user.Load()
	isAnother := err == nil && newest != nil && user != *newest
	return !isAnother, nil
}
