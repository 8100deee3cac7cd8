package dlq_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// The rows of jobs have specifications under these names. The Go fields may have other names.
func TestTheJSONNamesOfASpecificationAreFixed(t *testing.T) {
	t.Parallel()
	id, err := dlq.ParseID("550e8400-e29b-41d4-a716-446655440000")
	require.NoError(t, err)
	at := time.Date(2026, 2, 20, 10, 30, 0, 123456000, time.UTC)
	spec := dlq.JobSpec{
		Kind: dlq.KindRetry,
		Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusPending}, ErrorContains: "timeout", Key: []byte{0, 0xff},
			CreatedFrom: at, CreatedTo: at.Add(time.Hour), IDs: []dlq.ID{id}},
		RateLimit: 5, Order: dlq.OrderNone, Ramp: &dlq.Ramp{Steps: []int{1, 10}, Wait: time.Second, MaxCameBack: 0.1}, Reason: "because",
	}
	const stored = `{"kind":"retry","topic":"orders","statuses":["PENDING"],"error_contains":"timeout","key":"AP8=",` +
		`"created_from":"2026-02-20T10:30:00.123456Z","created_to":"2026-02-20T11:30:00.123456Z","ids":["550e8400-e29b-41d4-a716-446655440000"],` +
		`"reason":"because","rate_limit":5,"order":"none","ramp":{"steps":[1,10],"wait_ns":1000000000,"max_came_back":0.1}}`
	encoded, err := json.Marshal(spec)
	require.NoError(t, err)
	require.Equal(t, stored, string(encoded))
	var back dlq.JobSpec
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Equal(t, spec, back)
}

func TestAnEmptyKeyIsAKey(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {}} {
		encoded, err := json.Marshal(dlq.Filter{Key: key})
		require.NoError(t, err)
		var back dlq.Filter
		require.NoError(t, json.Unmarshal(encoded, &back))
		require.Equal(t, key, back.Key)
	}
}

func TestNegationsInAnotherOrderAreTheSameWork(t *testing.T) {
	t.Parallel()
	spec := func(not ...dlq.Filter) dlq.JobSpec {
		return dlq.JobSpec{Kind: dlq.KindDelete, Filter: dlq.Filter{Topic: "orders", Not: not}}
	}
	key, class := dlq.Filter{Key: []byte("a")}, dlq.Filter{Class: "Late"}
	require.True(t, spec(key, class).IsSameWork(spec(class, key, class)))
	require.False(t, spec(key).IsSameWork(spec(class)))
	require.False(t, spec(key).IsSameWork(spec()))
	require.False(t, dlq.JobSpec{Kind: dlq.KindRetry, Filter: spec(key).Filter}.IsSameWork(dlq.JobSpec{Kind: dlq.KindRetry, Filter: spec(key, class).Filter}))
}

func TestANegationMakesAListASearch(t *testing.T) {
	t.Parallel()
	f := dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusDead}, Not: []dlq.Filter{{Key: []byte("a")}}}
	require.True(t, f.IsSearch())
	require.False(t, f.IsLookup(), "the index of keys finds what is excluded")
	scope, rest := f.SearchScope()
	require.Empty(t, scope.Not)
	require.Equal(t, f.Statuses, scope.Statuses)
	require.Equal(t, f.Not, rest.Not)
	f.TraceID = "t"
	require.False(t, f.IsSearch())
}
