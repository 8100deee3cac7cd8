package console

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic of a page, with its stack for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recovered turns a panic into an error. Each goroutine of a page needs it, since a panic would end the whole server.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = &panicError{value, debug.Stack()}
	}
}
