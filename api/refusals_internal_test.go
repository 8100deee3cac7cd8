package api

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestAWindowOfRefusalsEndsByItself(t *testing.T) {
	t.Parallel()
	rows := make(chan dlq.Operation, 1)
	r := newRefusals(20*time.Millisecond, func(o dlq.Operation) { rows <- o })
	key := refusal{client: "token eve", route: "POST /", code: "SYS_DLQ_FORBIDDEN"}
	for n := range 4 {
		first, counted := r.add(key, dlq.Operation{RequestID: strconv.Itoa(n), Topic: "orders", TargetID: dlq.NewID(), Reason: "why"})
		require.Equal(t, n == 0, first)
		require.True(t, counted)
	}
	row := <-rows
	require.JSONEq(t, `{"code": "SYS_DLQ_FORBIDDEN", "count": 3}`, string(row.Detail))
	row.Detail = nil
	require.Equal(t, dlq.Operation{RequestID: "3"}, row)
	first, _ := r.add(key, dlq.Operation{})
	require.True(t, first, "a new window")
}

func TestTheMemoryForRefusalsIsBounded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var recorded int
	r := newRefusals(time.Hour, func(dlq.Operation) { mu.Lock(); defer mu.Unlock(); recorded++ })
	for n := range maxRefusals {
		first, counted := r.add(refusal{client: strconv.Itoa(n)}, dlq.Operation{})
		require.True(t, first && counted)
	}
	first, counted := r.add(refusal{client: "one more"}, dlq.Operation{})
	require.False(t, first || counted)
	_, counted = r.add(refusal{client: "7"}, dlq.Operation{})
	require.True(t, counted)
	r.flush()
	require.Equal(t, 1, recorded, "of those that were refused once, the row is written")
	require.Empty(t, r.open)
}
