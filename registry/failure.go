package registry

import (
	"errors"
	"fmt"
)

// failure is the reason why a value was not decoded or encoded, in words for operators. The words name no
// hosts.
type failure struct {
	// reason is the label of the metric.
	reason string
	text   string
}

func (f *failure) Error() string { return f.text }

// The reasons of failures.
const (
	reasonUnavailable = "unavailable" // the registry answers too late or not at all, or refuses the credentials
	reasonUnknown     = "unknown_schema"
	reasonSchema      = "schema" // the schema cannot be used
	reasonValue       = "value"  // the value was not written with this schema
	reasonTooLarge    = "too_large"
)

var reasons = []string{reasonUnavailable, reasonUnknown, reasonSchema, reasonValue, reasonTooLarge}

var errNoPrefix = errors.New("it is not in the wire format of a schema registry")

var errTimeout = &failure{reasonUnavailable, "the schema registry has not answered in time"}

func badSchema(format string, args ...any) error {
	return &failure{reasonSchema, fmt.Sprintf(format, args...)}
}

func badValue(format string, args ...any) error {
	return &failure{reasonValue, fmt.Sprintf(format, args...)}
}

// short limits the text of a library's error, which may quote a schema or a value.
func short(err error) string {
	const most = 500
	text := err.Error()
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// guard turns a panic of a library into an error, because schemas and values come from anywhere.
func guard(reason string, f func() error) (err error) {
	defer func() {
		value := recover()
		if f, ok := value.(*failure); ok {
			err = f
		} else if value != nil {
			err = &failure{reason, "the library that decodes it has failed: " + short(fmt.Errorf("%v", value))}
		}
	}()
	return f()
}

func reasonOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return reasonValue
}
