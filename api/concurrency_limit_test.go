package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

func TestOnePrincipalLeavesHalfOfThePlansToOthers(t *testing.T) {
	t.Parallel()
	s := stubborn{asked: make(chan struct{}), gate: make(chan struct{})}
	w := startWithTokens(t, with(s), func(o *api.Options) { o.MaxPlans = 4 })
	answers := make(chan response)
	plan := func(token string) {
		go func() { answers <- <-w.plan(bearer(token)) }()
	}
	for range 11 { // two requests run, eight wait, and one is refused
		plan("admin")
	}
	message, _ := requireError(t, <-answers, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Equal(t, "2 of your other plans are being made or waiting; try again later", message)
	<-s.asked
	<-s.asked
	for range 2 {
		plan("operator")
		<-s.asked
	}
	close(s.gate)
	for range 8 {
		<-s.asked
	}
	for range 12 {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}
}

func TestOnePrincipalLeavesHalfOfTheScansToOthers(t *testing.T) {
	t.Parallel()
	const scan = "/api/v1/dlq/orders.dlq.v1?error=a"
	s := scanning{newStore(t), make(chan struct{}), make(chan struct{})}
	w := startWithTokens(t, with(s), func(o *api.Options) { o.ScanWait, o.MaxScans = 10*time.Millisecond, 4 })
	answers := make(chan response)
	start := func(token string) {
		go func() {
			_, got := w.send(http.MethodGet, scan, nil, bearer(token))
			answers <- got
		}()
		<-s.asked
	}
	start("viewer")
	start("viewer")
	message, _ := requireError(t, w.call(http.MethodGet, scan, bearer("viewer")), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "2 of your other lists")
	const ofGroup = "/api/v1/dlq/orders.dlq.v1?group=" + someID
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, ofGroup, bearer("viewer")).status)
	start("operator")
	start("admin")
	requireError(t, w.call(http.MethodGet, ofGroup, bearer("viewer/orders.*")), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	message, _ = requireError(t, w.call(http.MethodGet, scan, bearer("admin")), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "4 other lists")
	close(s.gate)
	for range 4 {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}
}
