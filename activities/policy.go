package activities

import (
	"errors"
	"math"
	"time"

	"dlqmanager/dlq"
)

// Policy says how often a failed delivery is tried within one retry, and how
// long to wait in between.
type Policy struct {
	// Attempts counts the first one.
	Attempts int
	// First is the wait after the first failure; it grows by Factor.
	First  time.Duration
	Factor float64
}

// PolicyOf returns the policy of an error category.
func PolicyOf(category dlq.Category) Policy {
	switch category {
	case dlq.CategoryTransient:
		// 1+2+4+…+256 s: eight and a half minutes outlast a broker's restart
		// or a leader election, without anybody being woken.
		return Policy{Attempts: 10, First: time.Second, Factor: 2}
	case dlq.CategoryRateLimit:
		// A throttled target needs quiet more than it needs attempts.
		return Policy{Attempts: 3, First: 10 * time.Second, Factor: 1}
	case dlq.CategoryAuth, dlq.CategoryBadData:
		// The same answer would come back: somebody has to change something.
		return Policy{Attempts: 1}
	default:
		return Policy{Attempts: 1}
	}
}

// Wait returns the pause after the given attempt, counted from 1. A target
// that says how long to wait is obeyed.
func (p Policy) Wait(attempt int, err error) time.Duration {
	var delivery *dlq.DeliveryError
	if errors.As(err, &delivery) && delivery.RetryAfter > 0 {
		return delivery.RetryAfter
	}
	return time.Duration(float64(p.First) * math.Pow(p.Factor, float64(attempt-1)))
}
