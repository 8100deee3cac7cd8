package api

import (
	"fmt"
	"strings"
)

// maxFaults bounds an answer: who sends a thousand bad fields is helped by the
// first hundred.
const maxFaults = 100

// faults collects everything that is wrong with a request, so that a caller
// hears it all at once.
type faults struct{ details []detail }

func (f *faults) reject(field, format string, args ...any) {
	if len(f.details) < maxFaults {
		f.details = append(f.details, detail{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// refusal is nil when nothing was wrong.
func (f *faults) refusal(what string) error {
	if len(f.details) == 0 {
		return nil
	}
	names := make([]string, len(f.details))
	for i, d := range f.details {
		names[i] = d.Field
	}
	return invalid(what+": "+strings.Join(names, ", "), f.details...)
}
