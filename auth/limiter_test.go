package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func newTestLimiter() (*Limiter, *clock) {
	c := newClock()
	l := NewLimiter(NewMetrics(prometheus.NewRegistry()))
	l.now = c.now
	return l, c
}

func (l *Limiter) failTimes(n int, address string) {
	for range n {
		l.Failed(address)
	}
}

func TestAnAddressThatFailsTooOftenMustWait(t *testing.T) {
	t.Parallel()
	l, c := newTestLimiter()
	l.failTimes(FailureBurst-1, "192.0.2.1")
	require.Zero(t, l.Allow("192.0.2.1"))
	l.Failed("192.0.2.1")
	require.Equal(t, FailureEvery, l.Allow("192.0.2.1"))
	require.Zero(t, l.Allow("192.0.2.2"), "others are not concerned")
	require.InDelta(t, 1, testutil.ToFloat64(l.metrics.failures.WithLabelValues("limited")), 0)

	c.advance(FailureEvery - 1500*time.Millisecond)
	require.Equal(t, 2*time.Second, l.Allow("192.0.2.1"), "in whole seconds")
	c.advance(1500 * time.Millisecond)
	require.Zero(t, l.Allow("192.0.2.1"))
	l.Failed("192.0.2.1")
	require.NotZero(t, l.Allow("192.0.2.1"))
	c.advance(FailureBurst * FailureEvery)
	l.failTimes(FailureBurst-1, "192.0.2.1")
	require.Zero(t, l.Allow("192.0.2.1"), "failures of a minute ago are forgotten")
}

func TestAnIPv6NetworkIsOneClient(t *testing.T) {
	t.Parallel()
	l, _ := newTestLimiter()
	for i := range FailureBurst {
		l.Failed(fmt.Sprintf("2001:db8::%x", i))
	}
	require.NotZero(t, l.Allow("2001:db8::ffff"))
	require.Zero(t, l.Allow("2001:db8:0:1::1"))
	l.failTimes(FailureBurst, "::ffff:192.0.2.1")
	require.NotZero(t, l.Allow("192.0.2.1"))
	l.failTimes(FailureBurst, "not an address")
	require.NotZero(t, l.Allow("not an address"))
}

func TestTheMemoryOfTheLimiterIsBounded(t *testing.T) {
	t.Parallel()
	l, _ := newTestLimiter()
	l.failTimes(FailureBurst, "192.0.2.1")
	for i := range 5 * limiterSize {
		l.Failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		require.LessOrEqual(t, len(l.recent)+len(l.older), limiterSize)
		if i%100 == 0 {
			require.NotZero(t, l.Allow("192.0.2.1"), "an address that goes on trying is not forgotten")
		}
	}
}
