// Package activities holds the steps that the workflows are made of: claiming,
// publishing, finalizing and archiving. Each struct declares the small part of
// the store and of Kafka that it needs; none knows PostgreSQL or a Kafka client.
//
// Every step may run more than once: Temporal repeats what did not report back.
// Claims are recognised by their owner and finalizing twice changes nothing, so
// a repeat is harmless in the store, and at the target it is the same message id.
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

// toTemporal gives a domain error the type, the details and the finality that a
// workflow decides by. Other errors stay as they are: Temporal retries them.
func toTemporal(err error) error {
	if err == nil {
		return nil
	}
	options := temporal.ApplicationErrorOptions{NonRetryable: true, Cause: err}
	var (
		notRetryable *dlq.NotRetryableError
		owned        *dlq.OwnedError
		delivery     *dlq.DeliveryError
	)
	switch {
	case errors.As(err, &notRetryable):
		options.Category = temporal.ApplicationErrorCategoryBenign // an ordinary answer: nobody needs a stack
		options.Details = []any{notRetryable}
		return temporal.NewApplicationErrorWithOptions(err.Error(), TypeNotRetryable, options)
	case errors.As(err, &owned):
		options.Category = temporal.ApplicationErrorCategoryBenign
		options.Details = []any{owned}
		return temporal.NewApplicationErrorWithOptions(err.Error(), TypeOwned, options)
	case errors.Is(err, dlq.ErrSpecUnreadable):
		return temporal.NewApplicationErrorWithOptions(err.Error(), TypeInvalid, options)
	case errors.Is(err, dlq.ErrNotFound):
		options.Category = temporal.ApplicationErrorCategoryBenign
		return temporal.NewApplicationErrorWithOptions(err.Error(), TypeNotFound, options)
	case errors.As(err, &delivery):
		options.NonRetryable = delivery.Category != dlq.CategoryTransient
		options.Details = []any{delivery.RetryAfter}
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(delivery.Category), options)
	default:
		return err
	}
}

// FromTemporal is the inverse for whoever waits for a workflow: it finds the
// domain error inside, or returns err as it is.
func FromTemporal(err error) error {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) {
		return err
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
	return err
}
