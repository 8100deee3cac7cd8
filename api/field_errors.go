package api

import (
	"fmt"
	"strings"
)

// maxFieldErrors limits the size of an answer. The first hundred bad fields are enough
// for any caller.
const maxFieldErrors = 100

// fieldErrors collects every invalid field of a request, so that one answer names them
// all.
type fieldErrors struct{ details []detail }

func (f *fieldErrors) reject(field, format string, args ...any) {
	if len(f.details) < maxFieldErrors {
		f.details = append(f.details, detail{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// toError is nil when no field was invalid.
func (f *fieldErrors) toError(summary string) error {
	if len(f.details) == 0 {
		return nil
	}
	names := make([]string, len(f.details))
	for i, d := range f.details {
		names[i] = d.Field
	}
	return invalid(summary+": "+strings.Join(names, ", "), f.details...)
}
