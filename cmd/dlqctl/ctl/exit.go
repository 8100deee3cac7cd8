package ctl

import (
	"errors"
	"net/http"

	"dlqmanager/client"
)

// The exit codes, which scripts rely on. `dlqctl --help` and docs/dlqctl.md list them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartly      = 3 // done, but messages failed or came back
	exitSignIn      = 4
	exitChanged     = 5 // the messages have changed since the plan, or the plan has expired
	exitTimeOver    = 124
	exitInterrupted = 130
)

var (
	errInterrupted = errors.New("interrupted")
	errTimeOver    = errors.New("the time of --timeout is over")
)

// usageError is a mistake in the use of the command line.
type usageError struct{ error }

// outcome ends the program with an exit code and a text. The text may be empty.
type outcome struct {
	code int
	text string
}

func (o outcome) Error() string { return o.text }

func exitCode(err error) int {
	ended, hasEnded := errors.AsType[outcome](err)
	_, isUsage := errors.AsType[usageError](err)
	failed, isAnswer := errors.AsType[*client.APIError](err)
	switch code := client.CodeOf(err); {
	case err == nil:
		return exitDone
	case hasEnded:
		return ended.code
	case isUsage:
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errTimeOver):
		return exitTimeOver
	case errors.Is(err, client.ErrSignIn):
		return exitSignIn
	case code == client.ErrorCodeValidationError:
		return exitUsage
	case isAnswer && failed.Status == http.StatusUnauthorized:
		return exitSignIn
	case code == client.ErrorCodePlanChanged || code == client.ErrorCodePlanExpired:
		return exitChanged
	}
	return exitFailed
}

// hints are advice by exit code. The advice is printed after the text of the error.
var hints = map[int]string{
	exitSignIn: `Sign in with "dlqctl login", or with a valid token: "dlqctl contexts set --help" shows how. ` +
		`"dlqctl doctor" looks at the connection.`,
	exitChanged: "Make a new plan and look at it: dlqctl plan --help",
}
