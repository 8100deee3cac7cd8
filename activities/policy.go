package activities

import (
	"errors"
	"math"
	"time"

	"dlqmanager/dlq"
)

// Policy is the number of delivery attempts within a retry, and the wait between them.
type Policy struct {
	// Attempts counts the first attempt too.
	Attempts int
	// First is the wait after the first failure. Each further wait is Factor times as long.
	First  time.Duration
	Factor float64
}

// PolicyOf returns the policy of an error category.
func PolicyOf(category dlq.Category) Policy {
	switch category {
	case dlq.CategoryTransient:
		// 1+2+4+…+256 s: eight and a half minutes outlast a broker's restart or a
		// leader election, so no operator is needed.
		return Policy{Attempts: 10, First: time.Second, Factor: 2}
	case dlq.CategoryRateLimit:
		// A target that throttles needs few attempts with long waits.
		return Policy{Attempts: 3, First: 10 * time.Second, Factor: 1}
	case dlq.CategoryAuth, dlq.CategoryBadData:
		// A second attempt would get the same answer. An operator has to change
		// something.
	}
	return Policy{Attempts: 1}
}

// Wait returns the wait after the given attempt, counted from 1. A wait that the target
// asked for takes precedence.
func (p Policy) Wait(attempt int, err error) time.Duration {
	if delivery, ok := errors.AsType[*dlq.DeliveryError](err); ok && delivery.RetryAfter > 0 {
		return delivery.RetryAfter
	}
	return time.Duration(float64(p.First) * math.Pow(p.Factor, float64(attempt-1)))
}
