package storetest

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// published publishes the exhausted messages of a topic and returns them. A message counts as
// published if accept returns true for it.
func (f fixture) published(topic string, accept func(dlq.Exhausted) bool) (passed []dlq.Exhausted) {
	f.t.Helper()
	for after := (dlq.Exhausted{Seq: math.MinInt64}); ; {
		page, err := f.PublishExhausted(f.t.Context(), topic, after, func(page []dlq.Exhausted) []bool {
			done := make([]bool, len(page))
			for i := range page {
				done[i] = accept(page[i])
			}
			return done
		})
		require.NoError(f.t, err)
		if len(page) == 0 {
			return passed
		}
		passed = append(passed, page...)
		after = page[len(page)-1]
	}
}

// unpublished counts the exhausted messages that are not published, by dead-letter topic.
func (f fixture) unpublished() map[string]int64 {
	f.t.Helper()
	list, err := f.Unpublished(f.t.Context())
	require.NoError(f.t, err)
	counts := map[string]int64{}
	var topics []string
	for _, u := range list {
		counts[u.DLQTopic] = u.Messages
		topics = append(topics, u.DLQTopic)
	}
	found, err := f.ExhaustedTopics(f.t.Context())
	require.NoError(f.t, err)
	require.ElementsMatch(f.t, topics, found)
	return counts
}

func all(dlq.Exhausted) bool  { return true }
func none(dlq.Exhausted) bool { return false }

func exhaustedIDs(page []dlq.Exhausted) []dlq.ID {
	list := make([]dlq.ID, len(page))
	for i := range page {
		list[i] = page[i].ID
	}
	return list
}

// RunWithoutOutbox runs the contract test of an empty store whose Outbox is not set.
func RunWithoutOutbox(t *testing.T, store Store) {
	f := fixture{Store: store, t: t}
	f.exhaustInEveryWay()
	require.Empty(t, f.unpublished())
}

// exhaustInEveryWay stores four messages and exhausts each in another way: on arrival, by a single
// retry, by the sweeper, and by a bulk retry of the topic "bulk".
func (f fixture) exhaustInEveryWay() []dlq.Message {
	f.t.Helper()
	stored := f.store(
		dlqtest.Arrival(dlqtest.Retries(3, 3), dlqtest.Error("again\x00")),
		dlqtest.Arrival(dlqtest.Retries(2, 3)),
		dlqtest.Arrival(dlqtest.Retries(4, 5)),
		dlqtest.Arrival(dlqtest.Topic("bulk"), dlqtest.Retries(2, 3)))
	f.retry(stored[1].ID, dlq.ResultFailed)
	_, err := f.Release(f.t.Context(), f.claim(stored[2].ID), "terminated")
	require.NoError(f.t, err)
	lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("bulk", 1)), 0)
	f.finalizePage(lane, dlqtest.Outcomes(f.claimPage(lane), dlq.ResultFailed))
	return stored
}

var exhausted = map[string]func(*testing.T, fixture){
	"every way to exhaust a message leaves it to be published": func(t *testing.T, f fixture) {
		stored := f.exhaustInEveryWay()
		require.Equal(t, map[string]int64{"orders.dlq": 3, "bulk.dlq": 1}, f.unpublished())
		page := f.published("orders.dlq", all)
		require.Equal(t, ids(stored[:3]), exhaustedIDs(page))
		for i, reason := range []string{"3 of 3 retries: again␀", "3 of 3 retries: broker unavailable", "5 of 5 retries: terminated"} {
			require.Equal(t, "exhausted after "+reason, page[i].Reason())
			record := f.detail(stored[i].ID).Record
			require.Equal(t, []any{record.Key, record.Value, record.Headers}, []any{page[i].Record.Key, page[i].Record.Value, page[i].Record.Headers})
		}
		page = f.published("bulk.dlq", all)
		require.Equal(t, ids(stored[3:]), exhaustedIDs(page))
		require.Equal(t, "exhausted after 3 of 3 retries: broker unavailable", page[0].Reason())
		require.Empty(t, f.unpublished())
	},

	"messages that did not exhaust their retries are not published": func(t *testing.T, f fixture) {
		stored := f.store(append(dlqtest.Arrivals(4, dlqtest.Retries(2, 3)), dlqtest.Arrival(dlqtest.FromTopic("", "orders"), dlqtest.Retries(3, 3)))...)
		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.retry(stored[1].ID, dlq.ResultRejected)
		f.retry(stored[2].ID, dlq.ResultReleased)
		_, err := f.MarkDead(t.Context(), nil, stored[3].ID)
		require.NoError(t, err)
		require.Empty(t, f.unpublished(), "nor is one without a topic")
	},

	"a message that was not published stays, and later ones are passed": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(250, dlqtest.Retries(3, 3))...)
		bad := stored[7].ID
		require.Equal(t, ids(stored), exhaustedIDs(f.published("orders.dlq", func(e dlq.Exhausted) bool { return e.ID != bad })))
		require.Equal(t, map[string]int64{"orders.dlq": 1}, f.unpublished())
		require.Equal(t, []dlq.ID{bad}, exhaustedIDs(f.published("orders.dlq", none)))
		require.Equal(t, []dlq.ID{bad}, exhaustedIDs(f.published("orders.dlq", all)))
	},

	"archived messages are published whole": func(t *testing.T, f fixture) {
		a := dlqtest.Arrival(dlqtest.Retries(3, 3))
		f.store(a)
		_, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		page := f.published("orders.dlq", all)
		require.Equal(t, []dlq.ID{a.ID}, exhaustedIDs(page))
		require.False(t, page[0].Deleted)
		require.Equal(t, a.Record.Value, page[0].Record.Value)
		require.Empty(t, f.unpublished())
	},

	"messages that are deleted or purged leave nothing to publish": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(6, dlqtest.Retries(3, 3))...)
		require.NoError(t, f.Delete(t.Context(), nil, stored[0].ID))
		require.Equal(t, map[string]int64{"orders.dlq": 5}, f.unpublished())
		f.act(dlq.KindDelete, dlq.Filter{Topic: "orders", IDs: []dlq.ID{stored[1].ID, stored[2].ID}})
		require.Equal(t, map[string]int64{"orders.dlq": 3}, f.unpublished())
		_, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		_, err = f.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		require.Empty(t, f.unpublished())
	},

	"a page to publish is bounded in bytes": func(t *testing.T, f fixture) {
		a := dlqtest.Arrivals(6, dlqtest.Retries(3, 3), dlqtest.Value(strings.Repeat("x", dlq.PageBytes/2-1000)))
		a[2].Record.Value = []byte(strings.Repeat("y", 2*dlq.PageBytes))
		f.store(a...)
		after := dlq.Exhausted{Seq: math.MinInt64}
		for _, want := range []int{2, 1, 2, 1, 0} {
			page, err := f.PublishExhausted(t.Context(), "orders.dlq", after, func(page []dlq.Exhausted) []bool { return make([]bool, len(page)) })
			require.NoError(t, err)
			require.Len(t, page, want)
			if want > 0 {
				after = page[want-1]
			}
		}
	},

	"only one caller publishes at a time": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2, dlqtest.Retries(3, 3))...)
		first := dlq.Exhausted{Seq: math.MinInt64}
		_, err := f.PublishExhausted(t.Context(), "orders.dlq", first, func(page []dlq.Exhausted) []bool {
			_, err := f.PublishExhausted(t.Context(), "orders.dlq", first, func([]dlq.Exhausted) []bool { panic("it is published twice") })
			require.ErrorIs(t, err, dlq.ErrBlocked)
			return make([]bool, len(page))
		})
		require.NoError(t, err)
		require.Len(t, f.published("orders.dlq", all), 2, "the lock is free again")
	},
}
