package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/dlq"
)

// loginPatience is how long a call waits for credentials that the server accepts. A password is changed in the
// server first and in its file afterwards, and new connections fail in between. loginPatience is shorter than
// the timeout of a readiness check, so that the check reports why.
const loginPatience = 1500 * time.Millisecond

// Pauses between two logins.
const (
	firstLoginPause   = 25 * time.Millisecond
	longestLoginPause = 400 * time.Millisecond
)

// pool repeats a call whose new connection could not log in. The server has not received such a call.
type pool struct{ *pgxpool.Pool }

func (p pool) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = untilLoggedIn(ctx, func() error {
		rows, err = p.Pool.Query(ctx, sql, args...) //nolint:sqlclosecheck // the caller closes them
		return err
	})
	return rows, err
}

func (p pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

func (p pool) BeginTx(ctx context.Context, options pgx.TxOptions) (tx pgx.Tx, err error) {
	err = untilLoggedIn(ctx, func() error {
		tx, err = p.Pool.BeginTx(ctx, options)
		return err
	})
	return tx, err
}

func (p pool) AcquireFunc(ctx context.Context, do func(*pgxpool.Conn) error) error {
	return untilLoggedIn(ctx, func() error { return p.Pool.AcquireFunc(ctx, do) })
}

// send runs a batch to its end.
func (p pool) send(ctx context.Context, batch *pgx.Batch) error {
	return untilLoggedIn(ctx, func() error { return p.SendBatch(ctx, batch).Close() })
}

func untilLoggedIn(ctx context.Context, do func() error) error {
	began := time.Now()
	for pause := firstLoginPause; ; pause = min(2*pause, longestLoginPause) {
		err := do()
		if !isRefusedLogin(err) || time.Since(began)+pause > loginPatience {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// isRefusedLogin reports whether the server refused the credentials of a new connection, or whether
// the pool's BeforeConnect could not read the credentials: it then returns dlq.ErrUnavailable.
func isRefusedLogin(err error) bool {
	if _, isConnecting := errors.AsType[*pgconn.ConnectError](err); isConnecting && codeOf(err) != "" {
		return strings.HasPrefix(codeOf(err), invalidAuthorization)
	}
	return errors.Is(err, dlq.ErrUnavailable)
}
