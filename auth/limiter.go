package auth

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of failures.
const (
	// FailureBurst is how many failures an address may have at once.
	FailureBurst = 10
	// FailureEvery is how often it may fail after that.
	FailureEvery = 6 * time.Second
	// limiterSize is the number of addresses after which the Limiter forgets the older half.
	limiterSize = 10_000
)

// Limiter limits the rate of failures of each client address, so that nobody can try many
// tokens. It does not count successes. Its memory is bounded.
type Limiter struct {
	metrics *Metrics
	now     func() time.Time

	mu sync.Mutex
	// recent and older have a bucket for each address that failed. When recent is full, it
	// replaces older. An address that fails or is asked for moves to recent.
	recent, older map[string]*rate.Limiter
}

// NewLimiter takes the metrics that count refused attempts.
func NewLimiter(metrics *Metrics) *Limiter {
	return &Limiter{metrics: metrics, now: time.Now, recent: map[string]*rate.Limiter{}}
}

// Allow returns 0 if the address may try a token, else how long it must wait, in whole
// seconds.
func (l *Limiter) Allow(address string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.bucket(client(address))
	if bucket == nil {
		return 0
	}
	missing := 1 - bucket.TokensAt(l.now())
	if missing <= 0 {
		return 0
	}
	l.metrics.Failed(ReasonLimited)
	wait = time.Duration(missing * float64(FailureEvery))
	return (wait + time.Second - 1).Truncate(time.Second)
}

// Failed records a failure of the address.
func (l *Limiter) Failed(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client(address)
	bucket := l.bucket(key)
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Every(FailureEvery), FailureBurst)
		l.put(key, bucket)
	}
	bucket.AllowN(l.now(), 1)
}

// bucket is nil for an address without a recent failure.
func (l *Limiter) bucket(key string) *rate.Limiter {
	if bucket := l.recent[key]; bucket != nil {
		return bucket
	}
	bucket := l.older[key]
	if bucket != nil {
		l.put(key, bucket)
	}
	return bucket
}

func (l *Limiter) put(key string, bucket *rate.Limiter) {
	if len(l.recent) >= limiterSize/2 {
		l.recent, l.older = map[string]*rate.Limiter{}, l.recent
	}
	l.recent[key] = bucket
}

// client is what shares a bucket: an IPv4 address, or the /64 of an IPv6 address, since a
// host usually has all addresses of it.
func client(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
