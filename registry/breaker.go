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

// allowance is the time that the ingest may wait for the registry. It grows with time, up to
// the most for one batch.
type allowance struct {
	mu      sync.Mutex
	most    time.Duration
	balance time.Duration
	since   time.Time // of the balance
}

// allowedShare is the inverse of the share of the time that is spent waiting at most.
const allowedShare = 50

func newAllowance(most time.Duration) *allowance {
	return &allowance{most: most, balance: most, since: time.Now()}
}

func (a *allowance) available() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.balance = min(a.balance+now.Sub(a.since)/allowedShare, a.most)
	a.since = now
	return a.balance
}

func (a *allowance) spend(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.balance -= d
}
