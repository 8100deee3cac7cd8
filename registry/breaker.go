package registry

import (
	"sync"
	"time"
)

// pause is how long nothing is asked of a registry that has failed.
const pause = 5 * time.Second

// breaker is open for a pause after each failure.
type breaker struct {
	mu     sync.Mutex
	until  time.Time
	reason error
}

// err is the failure of an open breaker.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) {
		return b.reason
	}
	return nil
}

// fail opens the breaker. It reports whether it was not open.
func (b *breaker) fail(reason error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	opened = time.Now().After(b.until)
	b.until, b.reason = time.Now().Add(pause), reason
	return opened
}

// allowedShare is the inverse of the share of the time that the ingest waits for the registry at most.
const allowedShare = 50
