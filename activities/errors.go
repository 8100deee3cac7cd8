// Package activities has the steps of the workflows: claim, publish, finalize and archive.
// Each struct declares the few methods that it needs of the store and of Kafka. The
// package depends on neither PostgreSQL nor a Kafka client.
//
// Every step may run more than once, since Temporal repeats an activity whose result was lost.
// In the store a repeat is harmless: a claim recognises its owner, and a
// second finalize changes nothing. At the target both copies have the same message id.
package activities

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"dlqmanager/dlq"
)

// Types of the errors that activities return to workflows. A delivery error's
// type is its category.
const (
	TypeNotFound     = "NotFound"
	TypeNotRetryable = "NotRetryable"
	TypeOwned        = "Owned"
	TypeInvalid      = "Invalid"
)

// toTemporal converts a domain error to an application error. The workflow reads the type and the details of this error,
// and whether it is retryable. Other errors are returned unchanged, and Temporal retries the activity.
func toTemporal(err error) error {
	if err == nil {
		return nil
	}
	options := temporal.ApplicationErrorOptions{NonRetryable: true, Cause: err}
	benign := temporal.ApplicationErrorCategoryBenign // an expected answer, which the SDK does not log as an error
	var (
		notRetryable *dlq.NotRetryableError
		owned        *dlq.OwnedError
		delivery     *dlq.DeliveryError
		errorType    string
	)
	switch {
	case errors.As(err, &notRetryable):
		errorType, options.Category, options.Details = TypeNotRetryable, benign, []any{notRetryable}
	case errors.As(err, &owned):
		errorType, options.Category, options.Details = TypeOwned, benign, []any{owned}
	case errors.As(err, &delivery): // also when the target is not allowed any more
		errorType, options.Details = string(delivery.Category), []any{delivery.RetryAfter}
		options.NonRetryable = delivery.Category != dlq.CategoryTransient
	case errors.Is(err, dlq.ErrSpecUnreadable), errors.As(err, new(*dlq.TargetError)):
		errorType = TypeInvalid
	case errors.Is(err, dlq.ErrNotFound):
		errorType, options.Category = TypeNotFound, benign
	default:
		return err
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), errorType, options)
}

// FromTemporal is the inverse of toTemporal, for the result of a workflow: the
// domain error inside err, or nil.
func FromTemporal(err error) error {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return nil
	}
	switch application.Type() {
	case TypeNotFound:
		return dlq.ErrNotFound
	case TypeNotRetryable:
		domain := new(dlq.NotRetryableError)
		if application.Details(domain) == nil {
			return domain
		}
	case TypeOwned:
		domain := new(dlq.OwnedError)
		if application.Details(domain) == nil {
			return domain
		}
	}
	return nil
}
