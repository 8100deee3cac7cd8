package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func targets(t *testing.T, routes map[string]string, allowed ...string) *dlq.Targets {
	t.Helper()
	targets, err := dlq.NewTargets(dlqtest.Topics(t), routes, allowed, []string{"shop"})
	require.NoError(t, err)
	return targets
}

func TestMessagesGoToTheirOriginalTopicUnlessARouteMatches(t *testing.T) {
	t.Parallel()
	routed := targets(t, map[string]string{"orders.*": "orders.retry", "orders.*.v1": "old-orders", "orders.eu.v1": "http:shop"})
	for original, target := range map[string]string{
		"payments": "payments", "orders.us": "orders.retry", "orders.us.v1": "old-orders", "orders.eu.v1": "http:shop", "ordersXeu": "ordersXeu",
	} {
		got, err := routed.Of(original, "")
		require.NoError(t, err)
		require.Equal(t, target, got, original)
	}
	got, err := (*dlq.Targets)(nil).Of("orders", "")
	require.NoError(t, err)
	require.Equal(t, "orders", got)
}

func TestAnOperatorMayNameTheOriginalTopicAndAllowedTargets(t *testing.T) {
	t.Parallel()
	allowing := targets(t, map[string]string{"orders": "orders.retry"}, "*.retry.*", "http:sh*")
	for _, requested := range []string{"orders", "orders.retry.billing", "http:shop"} {
		got, err := allowing.Of("orders", requested)
		require.NoError(t, err)
		require.Equal(t, requested, got)
	}
}

func TestATargetIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	allowing := targets(t, nil, "*")
	for requested, reason := range map[string]string{
		"orders.dlq":  "is a dead-letter topic",
		"_schemas":    "is an internal topic",
		"__state":     "is an internal topic",
		"or ders":     "is not the name of a topic",
		"http:":       "is not an endpoint of targets.endpoints",
		"http:ledger": "is not an endpoint of targets.endpoints",
		"http:shop":   "is not among the allowed targets", // * stands for topics
	} {
		_, err := allowing.Of("orders", requested)
		var refused *dlq.TargetError
		require.ErrorAs(t, err, &refused, requested)
		require.Contains(t, refused.Reason, reason)
	}
	for _, origin := range []string{"_schemas", "__state", "orders.dlq"} { // also after a change of the configuration
		for _, requested := range []string{"", origin} {
			_, err := allowing.Of(origin, requested)
			require.ErrorAs(t, err, new(*dlq.TargetError), origin)
		}
	}
	for _, exact := range []string{"", dlqtest.AllowedInternal} {
		got, err := allowing.Of(dlqtest.AllowedInternal, exact)
		require.NoError(t, err)
		require.Equal(t, dlqtest.AllowedInternal, got)
	}
	_, err := dlq.NewTargets(dlqtest.Topics(t), map[string]string{"orders": "__state"}, nil, nil)
	require.ErrorContains(t, err, `the target "__state" of "orders" is an internal topic`)
	_, err = targets(t, nil).Of("orders", "orders.retry")
	require.ErrorContains(t, err, `target "orders.retry" is not among the allowed targets`)
	_, err = (*dlq.Targets)(nil).Of("orders", "orders.retry")
	require.ErrorContains(t, err, "targets.allowed")
}

func TestRoutesMustLeadSomewhere(t *testing.T) {
	t.Parallel()
	for glob, target := range map[string]string{
		"orders": "orders.dlq", "a": "http:ledger", "b": "", "or ders": "orders", "": "orders",
	} {
		_, err := dlq.NewTargets(dlqtest.Topics(t), map[string]string{glob: target}, nil, nil)
		require.Error(t, err, "%q to %q", glob, target)
	}
	_, err := dlq.NewTargets(dlqtest.Topics(t), nil, []string{"a b"}, nil)
	require.Error(t, err)
}
