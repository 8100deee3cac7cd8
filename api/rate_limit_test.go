package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClientGetsItsRateAndABurst(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	limiter := newRequestLimiter(10) // allows the requests of two seconds at once
	limiter.now = func() time.Time { return now }
	for range 20 {
		require.Zero(t, limiter.take("a"))
	}
	require.Equal(t, 100*time.Millisecond, limiter.take("a"))
	require.Equal(t, 100*time.Millisecond, limiter.take("a"), "a refused request takes nothing")
	require.Zero(t, limiter.take("b"), "another client")
	now = now.Add(100 * time.Millisecond)
	require.Zero(t, limiter.take("a"))
	require.NotZero(t, limiter.take("a"))
}

func TestManyClientsDoNotGrowTheMemoryNorFreeABusyOne(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	limiter := newRequestLimiter(1)
	limiter.now = func() time.Time { return now }
	require.Zero(t, limiter.take("busy"))
	require.Zero(t, limiter.take("busy"))
	for i := range 10 * maxRateClients {
		limiter.take(fmt.Sprint(i))
		if i%1000 == 0 {
			require.NotZero(t, limiter.take("busy"))
		}
	}
	require.LessOrEqual(t, len(limiter.recent)+len(limiter.older), maxRateClients)
}

func TestWithoutARateNothingIsLimited(t *testing.T) {
	t.Parallel()
	require.Nil(t, newRequestLimiter(0))
	require.Zero(t, newRequestLimiter(0).take("a"))
}

func TestAnIPv6HostHasOneBucket(t *testing.T) {
	t.Parallel()
	require.Equal(t, addressBucket("2001:db8::1"), addressBucket("2001:db8::ffff:1"))
	require.NotEqual(t, addressBucket("2001:db8::1"), addressBucket("2001:db8:0:1::1"))
	require.NotEqual(t, addressBucket("192.0.2.1"), addressBucket("192.0.2.2"))
}
