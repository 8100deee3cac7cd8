package registry

import (
	"sync/atomic"
	"time"
)

// pause is how long a registry that has failed gets no request.
const pause = 5 * time.Second

// breaker is open for a pause after each failure.
type breaker struct{ last atomic.Pointer[outage] }

// outage is a failure of the registry. Until the time in until, no request is made.
type outage struct {
	reason error
	until  time.Time
}

// err returns the failure of an outage, or nil if there is no outage or it is over.
func (o *outage) err() error {
	if o == nil || time.Now().After(o.until) {
		return nil
	}
	return o.reason
}

func (b *breaker) err() error { return b.last.Load().err() }

// fail opens the breaker, and reports whether the breaker was closed before.
func (b *breaker) fail(reason error) (opened bool) {
	return b.last.Swap(&outage{reason, time.Now().Add(pause)}).err() == nil
}

// allowedShare limits how long the ingest waits for the registry: 1/allowedShare of its time at most.
const allowedShare = 50
