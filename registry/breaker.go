package registry

import (
	"sync/atomic"
	"time"
)

// pause is how long nothing is asked of a registry that has failed.
const pause = 5 * time.Second

// breaker is open for a pause after each failure.
type breaker struct{ last atomic.Pointer[outage] }

// outage is a failure, and until when nothing is asked because of it.
type outage struct {
	reason error
	until  time.Time
}

// err is the failure of an open breaker. A nil outage is over.
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

// allowedShare limits how long the ingest waits for the registry: 1/allowedShare of the time at most.
const allowedShare = 50
