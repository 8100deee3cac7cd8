package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"dlqmanager/dlq"
)

// failed gives an error of the database its place, and marks it with
// dlq.ErrUnavailable when the database is away rather than the statement wrong.
func failed(what string, err error) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == lockNotAvailable {
		return fmt.Errorf("store: %s: %w: %w", what, dlq.ErrBlocked, err)
	}
	if refusal != nil && refusal.Code == diskFull {
		return fmt.Errorf("store: %s: %w: %w", what, dlq.ErrFull, err)
	}
	if refusal != nil && refusal.Code == readOnly {
		return fmt.Errorf("store: %s: %w: %w", what, dlq.ErrReadOnly, err)
	}
	if isUnavailable(err) {
		return fmt.Errorf("store: %s: %w: %w", what, dlq.ErrUnavailable, err)
	}
	return fmt.Errorf("store: %s: %w", what, err)
}

func isUnavailable(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return isAway(refusal.Code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return false // the caller gave up; that says nothing of the database
	case errors.As(err, &connect), errors.As(err, &network), // a deadline is a net.Error too
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, puddle.ErrClosedPool):
		return true
	}
	return false
}

// SQLSTATEs that have a meaning of their own.
const (
	lockNotAvailable = "55P03" // a lock was not granted in time
	diskFull         = "53100"
	readOnly         = "25006" // perhaps the primary has moved elsewhere
)

// isAway tells by SQLSTATE whether asking later can help by itself.
func isAway(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", "57P05", "25P03", // shut down, crashed, starting up, idle for too long
		"57014",          // the server's own time limit
		lockNotAvailable, // its limit for waiting for a lock
		readOnly,
		"40001", "40P01": // in each other's way more often than we try again
		return true
	}
	// Connections, and resources such as too many of them or a full disk.
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53")
}

// isRowsOwnFault reports whether the server refused data for what it is, so
// that the same batch without one row would pass.
func isRowsOwnFault(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) &&
		(strings.HasPrefix(refusal.Code, "22") || strings.HasPrefix(refusal.Code, "54"))
}

// inEachOthersWay is how often a statement that lost a deadlock runs again. Two
// are enough nearly always; the rest is for busy days.
const inEachOthersWay = 5

// again runs a statement until no other is in its way, or has just stored the same
// row. The server has undone what it did before.
func again(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var refusal *pgconn.PgError
		if try == inEachOthersWay || !errors.As(err, &refusal) {
			return err
		}
		switch refusal.Code {
		case "40P01", "40001", "23505": // deadlock, serialization failure, unique violation
		default:
			return err
		}
	}
}
