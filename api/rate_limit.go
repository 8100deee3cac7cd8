package api

import (
	"net/netip"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"dlqmanager/dlq"
)

const (
	// A client may send as many requests at once as the limit allows in rateBurst seconds.
	rateBurst = 2
	// From one address, refusedTokenBurst refused tokens may come at once, and then one refused token in each period of
	// refusedTokenEvery. So nobody can try many tokens.
	refusedTokenBurst = 10
	refusedTokenEvery = 6 * time.Second
	// maxRateClients bounds the memory of a rateLimiter. When it is full, it forgets the clients that it has not seen for the
	// longest time, at most half of all clients.
	maxRateClients = 20_000
)

// rateLimiter has a token bucket for each client.
type rateLimiter struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu sync.Mutex
	// When recent is full, it replaces older. A request of a client moves the client to recent.
	recent, older map[string]*rate.Limiter
}

func newRateLimiter(limit rate.Limit, burst int) *rateLimiter {
	return &rateLimiter{limit: limit, burst: burst, now: time.Now, recent: map[string]*rate.Limiter{}}
}

// newRequestLimiter returns nil, which limits nothing, if perSecond is zero.
func newRequestLimiter(perSecond float64) *rateLimiter {
	if perSecond <= 0 {
		return nil
	}
	return newRateLimiter(rate.Limit(perSecond), max(int(perSecond*rateBurst), 1))
}

// take returns zero if the client may send the request now. Otherwise it returns how long the client must wait.
func (l *rateLimiter) take(client string) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	reservation := l.bucket(client).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (l *rateLimiter) bucket(client string) *rate.Limiter {
	if bucket := l.recent[client]; bucket != nil {
		return bucket
	}
	bucket := l.older[client]
	if bucket == nil {
		bucket = rate.NewLimiter(l.limit, l.burst)
	}
	if len(l.recent) >= maxRateClients/2 {
		l.recent, l.older = map[string]*rate.Limiter{}, l.recent
	}
	l.recent[client] = bucket
	return bucket
}

// limitRate takes a token from the bucket of the principal. Without a valid token, the bucket belongs to the address. Each
// route has its own buckets, so that a client that polls too fast can still cancel a job. Probes are not limited, because a
// load balancer would remove the server.
func (s *Server) limitRate(c *fiber.Ctx, r *route, principal dlq.Principal) error {
	if r.path == "/healthz" || r.path == "/readyz" {
		return nil
	}
	if wait := s.rates.take(r.method + " " + r.path + " " + clientName(c, &principal)); wait > 0 {
		return tooMany("too many requests", wait)
	}
	return nil
}

// clientName is the principal of a client, or its address if it has no principal.
func clientName(c *fiber.Ctx, p *dlq.Principal) string {
	if p.Method != "" && p.Method != dlq.Anonymous.Method {
		return p.Method + " " + p.Subject
	}
	return "address " + addressBucket(clientOf(c))
}

// limitRefusedTokens counts a refused token of the client's address. It does not limit valid tokens, since several clients may
// share the address.
func (s *Server) limitRefusedTokens(c *fiber.Ctx) error {
	if wait := s.refusedTokens.take(addressBucket(clientOf(c))); wait > 0 {
		return tooMany("too many refused tokens from this address", wait)
	}
	return nil
}

// addressBucket is an IPv4 address, or the /64 network of an IPv6 address. A host usually has all addresses of such a network.
func addressBucket(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() {
		return address
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
