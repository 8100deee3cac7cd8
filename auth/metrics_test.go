package auth

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestFailuresAreCountedByReason(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p := newProvider(t)
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer}")
	counted := First(registry, tokens, p.oidcFor(t, newClock()))
	count, err := testutil.GatherAndCount(registry, "dlq_auth_failures_total")
	require.NoError(t, err)
	require.Len(t, Reasons, count, "each starts at 0")

	_, err = counted.Authenticate(t.Context(), token)
	require.NoError(t, err)
	for _, failing := range []string{"", "a.b.c", NewToken(), NewToken(), "garbage"} {
		_, err = counted.Authenticate(t.Context(), failing)
		require.Error(t, err)
	}
	for reason, want := range map[Reason]float64{ReasonMissing: 1, ReasonUnavailable: 1, ReasonUnknown: 2, ReasonMalformed: 1, ReasonExpired: 0} {
		require.InDelta(t, want, testutil.ToFloat64(counted.(*first).failures.WithLabelValues(string(reason))), 0, reason)
	}
}
