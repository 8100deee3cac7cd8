package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// The codes of the error body. They are part of the contract.
const (
	codeNotFound         = "SYS_DLQ_NOT_FOUND"
	codeValidation       = "SYS_DLQ_VALIDATION_ERROR"
	codeConflict         = "SYS_DLQ_CONFLICT"
	codeInternal         = "SYS_DLQ_INTERNAL_ERROR"
	codeUnavailable      = "SYS_DLQ_UNAVAILABLE"
	codePayloadTooLarge  = "SYS_DLQ_PAYLOAD_TOO_LARGE"
	codeMethodNotAllowed = "SYS_DLQ_METHOD_NOT_ALLOWED"
	codeUnauthenticated  = "SYS_DLQ_UNAUTHENTICATED"
	codeForbidden        = "SYS_DLQ_FORBIDDEN"
	codeTooManyRequests  = "SYS_DLQ_TOO_MANY_REQUESTS"
	codeNeedsDatabase    = "SYS_DLQ_NEEDS_DATABASE"
	codePlanChanged      = "SYS_DLQ_PLAN_CHANGED"
	codePlanExpired      = "SYS_DLQ_PLAN_EXPIRED"
	codeMasked           = "SYS_DLQ_MASKED"
)

// retryAfterSeconds is sent with every 503. A failover takes some seconds, and earlier
// retries would only add load.
const retryAfterSeconds = "5"

// detail describes one invalid field.
type detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// errorView is the documented body of every error.
type errorView struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	RequestID string   `json:"request_id"`
	Details   []detail `json:"details"`
}

// apiError is an error with its HTTP answer. The cause is shown only in the log.
type apiError struct {
	status  int
	code    string
	message string
	details []detail
	cause   error
	// retryAfter is the header Retry-After of a 429, in seconds.
	retryAfter string
}

func (r *apiError) Error() string {
	if r.cause != nil {
		return r.message + ": " + r.cause.Error()
	}
	return r.message
}

func (r *apiError) Unwrap() error { return r.cause }

func (r *apiError) view(requestID string) errorView {
	details := r.details
	if details == nil {
		details = []detail{}
	}
	return errorView{errorBody{Code: r.code, Message: r.message, RequestID: requestID, Details: details}}
}

func invalid(message string, details ...detail) *apiError {
	return &apiError{status: http.StatusBadRequest, code: codeValidation, message: message, details: details}
}

func conflict(message string, cause error, details ...detail) *apiError {
	return &apiError{status: http.StatusConflict, code: codeConflict, message: message, details: details, cause: cause}
}

// describeNotFound adds the kind and id of the missing resource to dlq.ErrNotFound. It returns other errors unchanged, also
// errors that it has described before.
func describeNotFound(err error, kind string, id dlq.ID) error {
	if _, isDescribed := errors.AsType[*apiError](err); isDescribed || !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	message := fmt.Sprintf("%s not found: %s", kind, id)
	switch kind {
	case "message":
		message = "dlq " + message
	case "group":
		message += "; a group without messages is removed a month after its last arrival, or when its topic has too many groups"
	}
	return &apiError{status: http.StatusNotFound, code: codeNotFound, message: message, cause: err}
}

// translate maps every error to its answer. An unknown error becomes an internal error. Its text is shown only in the log.
func translate(err error) *apiError {
	var (
		refused      *apiError
		notRetryable *dlq.NotRetryableError
		owned        *dlq.OwnedError
		busyJob      *dlq.JobBusyError
		unrouted     *fiber.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &notRetryable):
		return conflict(notRetryable.Error(), err)
	case errors.As(err, &owned):
		return conflict(owned.Error(), err)
	case errors.As(err, &busyJob):
		return busy(busyJob)
	case errors.Is(err, dlq.ErrNotFound):
		return &apiError{status: http.StatusNotFound, code: codeNotFound, message: "not found", cause: err}
	case errors.Is(err, dlq.ErrFull):
		return unavailable(dlq.ErrFull.Error()+"; free some space", err)
	case errors.Is(err, dlq.ErrReadOnly):
		return unavailable(dlq.ErrReadOnly.Error()+"; try again later", err)
	case errors.Is(err, dlq.ErrUnavailable):
		return unavailable("a required service is unavailable; try again later", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("the request took too long; try again later", err)
	case errors.As(err, &unrouted):
		return protocol(unrouted)
	default:
		return &apiError{status: http.StatusInternalServerError, code: codeInternal, message: "internal error", cause: err}
	}
}

// busy names the running job, unless the sender may not see it.
func busy(err *dlq.JobBusyError) *apiError {
	if err.Running.IsZero() {
		return conflict(err.Error(), err)
	}
	return conflict(err.Error(), err, detail{Field: "job_id", Message: err.Running.String()})
}

func unavailable(message string, cause error) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable, message: message, cause: cause}
}

// protocol maps the errors of Fiber and fasthttp before any handler runs. Their texts quote the request, so neither the answer
// nor the log has them.
func protocol(err *fiber.Error) *apiError {
	r := &apiError{status: err.Code, code: codeValidation, message: strings.ToLower(http.StatusText(err.Code))}
	switch err.Code {
	case http.StatusNotFound:
		r.code, r.message = codeNotFound, "no such route"
	case http.StatusMethodNotAllowed:
		r.code = codeMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		r.code, r.message = codePayloadTooLarge, "the request body is too large"
	case http.StatusRequestHeaderFieldsTooLarge:
		r.message = "the request line and headers are too large"
	case http.StatusRequestURITooLong:
		r.message = "the path and query are too long"
	case http.StatusRequestTimeout:
		r.message = "the request did not arrive in time"
	default:
		r.status, r.message = http.StatusBadRequest, "malformed HTTP request"
	}
	return r
}

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
	names := views(f.details, func(d *detail) string { return d.Field })
	return invalid(summary+": "+strings.Join(names, ", "), f.details...)
}

// needsDatabase refuses a request that messages in memory cannot serve. fields are the fields that need a database; none if the
// route itself needs it.
func needsDatabase(fields ...string) *apiError {
	return &apiError{status: http.StatusNotImplemented, code: codeNeedsDatabase,
		message: "this needs a database, and messages are kept in memory; set database.host (DLQ_DATABASE_HOST)",
		details: views(fields, func(field *string) detail { return detail{*field, "needs a database"} })}
}

// checkGiven refuses the parameters or fields that need a database, while messages are in memory. works are the names that need
// no database.
func checkGiven[V any](s *Server, given map[string]V, works ...string) error {
	if s.guard.hasDatabase() {
		return nil
	}
	fields := slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(name string) bool { return slices.Contains(works, name) })
	if len(fields) == 0 {
		return nil
	}
	return needsDatabase(fields...)
}
