package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"dlqmanager/dlq"
)

// wrap adds the operation to an error of the database. The result matches dlq.ErrUnavailable
// when the database is unavailable, and not when the statement is wrong.
func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	if known := errorsOfCodes[codeOf(err)]; known != nil {
		return fmt.Errorf("store: %s: %w: %w", operation, known, err)
	}
	if isUnavailable(err) {
		return fmt.Errorf("store: %s: %w: %w", operation, dlq.ErrUnavailable, err)
	}
	return fmt.Errorf("store: %s: %w", operation, err)
}

var errorsOfCodes = map[string]error{
	lockNotAvailable: dlq.ErrBlocked, statementTimeout: dlq.ErrSlow, diskFull: dlq.ErrFull, readOnly: dlq.ErrReadOnly,
}

// codeOf is the SQLSTATE of an error of the server; empty for other errors.
func codeOf(err error) string {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code
	}
	return ""
}

func isBlocked(err error) bool { return codeOf(err) == lockNotAvailable }

// isOvertaken reports whether a condition of failsUnless did not hold.
func isOvertaken(err error) bool { return codeOf(err) == notABool }

func isUnavailable(err error) bool {
	if code := codeOf(err); code != "" {
		return isUnavailableCode(code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return false // by the caller; the database may be available
	case errors.As(err, &connect), errors.As(err, &network), // a deadline is a net.Error too
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, puddle.ErrClosedPool):
		return true
	}
	return false
}

// SQLSTATEs that map to errors of their own.
const (
	lockNotAvailable = "55P03"
	notABool         = "22P02"
	statementTimeout = "57014"
	diskFull         = "53100"
	readOnly         = "25006" // after a failover this may be a replica

	// invalidAuthorization is the class of wrong users, passwords and client certificates.
	invalidAuthorization = "28"
)

// isUnavailableCode reports whether an error with this SQLSTATE may end by itself.
func isUnavailableCode(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", "57P05", "25P03", // shut down, crashed, starting up, idle for too long
		statementTimeout,
		lockNotAvailable, // lock_timeout
		readOnly,
		"40001", "40P01": // conflict with another transaction, after maxConflictTries
		return true
	}
	// Class 08 is the connection, and class 53 resources, such as connections or disk space. Refused
	// credentials may be from before a rotation.
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, invalidAuthorization)
}

// isDataError reports whether the server refused the data of a row. The batch succeeds without
// this row.
func isDataError(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "54")
}

// maxConflictTries limits how often a statement runs again after a conflict. Two tries are nearly always enough.
const maxConflictTries = 5

// retryOnConflict runs a statement or a step again after a conflict with another transaction: a deadlock, a
// serialization failure, a row that both inserted, or errOvertaken. The failed try is rolled back.
func retryOnConflict(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		switch {
		case errors.Is(err, errOvertaken):
			try = 0 // the next tries lock, so they are not overtaken
		case try == maxConflictTries || !slices.Contains(conflicts, codeOf(err)):
			return err
		}
	}
}

// conflicts are a deadlock, a serialization failure, and a unique violation.
var conflicts = []string{"40P01", "40001", "23505"}
