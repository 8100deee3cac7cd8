package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// to makes a bulk retry send its messages to a topic.
func to(topic string) func(*dlq.JobSpec) {
	return func(s *dlq.JobSpec) { s.TargetTopic = topic }
}

func fromTo(dlqTopic, original, key string) dlq.Arrival {
	return dlqtest.Arrival(dlqtest.FromTopic(dlqTopic, original), dlqtest.Key(key))
}

// waitingFor is the queue of a key for a target topic.
func waitingFor(target string) dlq.Wait {
	return dlq.Wait{Target: dlq.Target{Topic: target, Partition: dlq.AnyPartition}, OfKey: true, Tries: 1, For: time.Hour}
}

// requireOneKey checks that a job has one target. It also checks that messages with the same record
// key wait for each other, although they have two original topics.
func (f fixture) requireOneKey(b dlq.Job, stored []dlq.Message, target string) {
	f.t.Helper()
	b = f.startBulk(b)
	require.False(f.t, b.MultiTarget, "there is one target")
	lane := f.openLane(dlqtest.Lane(b, 0))
	f.setStepLimit(b.ID, 1)
	page := f.tryClaim(lane).Page
	require.Equal(f.t, ids(stored[:1]), envelopeIDs(page))
	f.finalizePage(lane, requeuedPage(page, waitingFor(target)))
	require.NoError(f.t, f.SetStepLimit(f.t.Context(), b.ID, nil))
	require.Empty(f.t, f.tryClaim(lane).Page, "the later ones wait behind the first")
	require.EqualValues(f.t, len(stored), f.job(b.ID).Waiting)
	f.end(b.ID, dlq.JobCancelled)
}

// redirects has cases that pass with and without the routes of dlqtest.Targets.
var redirects = map[string]func(*testing.T, fixture){
	"a job with a target topic keeps it, and joins no job with another": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival())
		b := dlqtest.Bulk("orders.dlq", 1, to("orders.retry"))
		require.Equal(t, "orders.retry", f.startBulk(b).Spec.TargetTopic)
		require.Equal(t, "orders.retry", f.openLane(dlqtest.Lane(b, 0)).Spec.TargetTopic)
		for _, other := range []string{"", "orders.other"} {
			_, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 1, to(other)))
			require.ErrorAs(t, err, new(*dlq.JobBusyError), other)
		}
		joined, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 1, to("orders.retry")))
		require.NoError(t, err)
		require.Equal(t, b.ID, joined.ID)
	},

	"a key of several original topics is one key of a target topic": func(_ *testing.T, f fixture) {
		stored := f.store(fromTo("shared.dlq", "orders", "a"), fromTo("shared.dlq", "stock", "a"), fromTo("shared.dlq", "orders", "a"))
		f.requireOneKey(dlqtest.Bulk("shared.dlq", 1, to("retry")), stored, "retry")
	},

	"a key that has failed is blocked for all original topics of a target topic": func(t *testing.T, f fixture) {
		f.store(fromTo("shared.dlq", "orders", "a"), fromTo("shared.dlq", "stock", "a"), fromTo("shared.dlq", "stock", "b"))
		b := f.startBulk(dlqtest.Bulk("shared.dlq", 1, to("retry")))
		lane := f.openLane(dlqtest.Lane(b, 0))
		f.setStepLimit(b.ID, 1)
		f.finalizePage(lane, dlqtest.Outcomes(f.tryClaim(lane).Page, dlq.ResultFailed))
		require.NoError(t, f.SetStepLimit(t.Context(), b.ID, nil))
		page := f.tryClaim(lane).Page
		require.Equal(t, []bool{true, false}, []bool{page[0].Blocked, page[1].Blocked})
		require.Equal(t, page, f.claimed(lane))
	},

	"jobs that send to the same target topic keep the order of a key": func(t *testing.T, f fixture) {
		stored := f.store(fromTo("one.dlq", "orders", "a"), fromTo("other.dlq", "stock", "a"), fromTo("other.dlq", "stock", "b"))
		one := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("one.dlq", 1, to("retry"))), 0))
		other := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("other.dlq", 1, to("retry"))), 0))
		first := f.tryClaim(one).Page
		page := f.tryClaim(other).Page
		require.Equal(t, ids(stored[2:]), envelopeIDs(page), "the other key")
		f.finalizePage(other, dlqtest.Outcomes(page, dlq.ResultDelivered))
		f.finalizePage(one, dlqtest.Outcomes(first, dlq.ResultDelivered))
		require.Equal(t, ids(stored[1:2]), f.drain(other))
	},

	"jobs that send a key to different target topics do not wait for each other": func(t *testing.T, f fixture) {
		stored := f.store(fromTo("one.dlq", "orders", "a"), fromTo("other.dlq", "orders", "a"))
		one := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("one.dlq", 1, to("retry"))), 0))
		other := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("other.dlq", 1)), 0))
		require.Equal(t, ids(stored[:1]), envelopeIDs(f.tryClaim(one).Page))
		require.Equal(t, ids(stored[1:]), envelopeIDs(f.tryClaim(other).Page))
	},
}

var routed = map[string]func(*testing.T, fixture){
	"a key of several original topics with one route is one key": func(_ *testing.T, f fixture) {
		stored := f.store(fromTo("shared.dlq", "routed.a", "a"), fromTo("shared.dlq", "routed.b", "a"), fromTo("shared.dlq", "routed", "a"))
		f.requireOneKey(dlqtest.Bulk("shared.dlq", 1), stored, "routed")
	},

	"a job without a route and one with it keep the order of a key": func(t *testing.T, f fixture) {
		stored := f.store(fromTo("one.dlq", "routed", "a"), fromTo("other.dlq", "routed.b", "a"))
		one := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("one.dlq", 1)), 0))
		other := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("other.dlq", 1)), 0))
		first := f.tryClaim(one).Page
		require.Empty(t, f.tryClaim(other).Page)
		f.finalizePage(one, dlqtest.Outcomes(first, dlq.ResultDelivered))
		require.Equal(t, ids(stored[1:]), f.drain(other))
	},

	"a target topic replaces the route": func(t *testing.T, f fixture) {
		f.store(fromTo("shared.dlq", "routed.a", "a"), fromTo("shared.dlq", "orders", "a"))
		require.True(t, f.startBulk(dlqtest.Bulk("shared.dlq", 1)).MultiTarget)
		other := f.store(fromTo("more.dlq", "routed.a", "a"), fromTo("more.dlq", "orders", "a"))
		f.requireOneKey(dlqtest.Bulk("more.dlq", 1, to("retry")), other, "retry")
	},
}

// RunRoutes runs the contract tests of targets. open is as in Run, and the store has the
// routes of dlqtest.Targets.
func RunRoutes(t *testing.T, open func(t *testing.T) Store) { run(t, open, redirects, routed) }
