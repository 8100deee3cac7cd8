package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var lists = map[string]func(*testing.T, fixture){
	"lists and plans leave out large payloads": func(t *testing.T, f fixture) {
		large, small := `"`+strings.Repeat("x", dlq.ListPayload)+`"`, `"`+strings.Repeat("x", dlq.ListPayload-2)+`"`
		stored := f.store(dlqtest.Arrival(bigOnes, dlqtest.Value(large)), dlqtest.Arrival(bigOnes, dlqtest.Value(small)),
			dlqtest.Arrival(bigOnes, dlqtest.Value("no json")))
		listed := func(messages []dlq.Message) {
			t.Helper()
			require.Equal(t, ids(stored), ids(messages))
			require.Nil(t, messages[0].Payload)
			require.Equal(t, len(large), messages[0].OmittedPayload)
			require.Equal(t, small, string(messages[1].Payload))
			require.Zero(t, messages[1].OmittedPayload)
			require.Nil(t, messages[2].Payload)
			require.Zero(t, messages[2].OmittedPayload)
		}
		for name, filter := range byteFilters(&stored[0]) {
			t.Log(name)
			listed(f.list(dlq.ListQuery{Filter: filter, PageSize: 10, OldestFirst: true}).Messages)
		}
		preview, err := f.PreviewJob(t.Context(), dlqtest.Bulk("orders", 1).Spec)
		require.NoError(t, err)
		listed(preview.Sample)
		action, err := f.PreviewJob(t.Context(), dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders"}).Spec)
		require.NoError(t, err)
		listed(action.Sample)
		require.Equal(t, large, string(f.detail(stored[0].ID).Payload))
	},

	"a page ends early at its bytes, and its cursor misses nothing": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(150, bigOnes, dlqtest.Value(`"`+strings.Repeat("x", 60<<10)+`"`))...)
		for name, filter := range byteFilters(&stored[0]) {
			var all []dlq.ID
			var after *dlq.Keyset
			for pages := 1; ; pages++ {
				page := f.list(dlq.ListQuery{Filter: filter, PageSize: 100, After: after, OldestFirst: true})
				bytes := 0
				for i := range page.Messages {
					bytes += len(page.Messages[i].Payload)
				}
				require.Less(t, bytes, dlq.ListBytes, name)
				all = append(all, ids(page.Messages)...)
				if !page.HasNext {
					break
				}
				require.Greater(t, bytes, dlq.ListBytes*9/10, name)
				after = new(page.Messages[len(page.Messages)-1].Keyset())
				if page.Searched != nil {
					after = page.Searched.Last
				}
			}
			require.Equal(t, ids(stored), all, name)
		}
	},

	"a topic is a dead-letter topic or an original topic": func(t *testing.T, f fixture) {
		stored := f.store(
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("other.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "other")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders.dlq")),
			dlqtest.Arrival(dlqtest.FromTopic("elsewhere.dlq", "elsewhere")))
		for topic, want := range map[string][]int{
			"orders": {1, 0}, "orders.dlq": {3, 2, 0}, "other.dlq": {1}, "other": {2}, "nothing": {}, "": {},
		} {
			page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: topic}, PageSize: 10})
			wanted := []dlq.ID{}
			for _, i := range want {
				wanted = append(wanted, stored[i].ID)
			}
			require.Equal(t, wanted, ids(page.Messages), topic)
			require.EqualValues(t, len(want), page.Total, topic)
			require.True(t, page.TotalExact)
			require.False(t, page.HasNext)
		}
	},

	"pages by number and by cursor are the same": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(25)...)
		for i := range 5 { // pages contain several statuses
			f.retry(stored[5*i].ID, []dlq.Result{dlq.ResultDelivered, dlq.ResultRejected, dlq.ResultFailed}[i%3])
		}
		f.claim(stored[7].ID)
		for _, oldestFirst := range []bool{false, true} {
			want := ids(stored)
			if !oldestFirst {
				slices.Reverse(want)
			}
			var byNumber, byCursor []dlq.ID
			var after *dlq.Keyset
			for number := 1; number <= 4; number++ {
				q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, Page: number, PageSize: 7, OldestFirst: oldestFirst}
				page := f.list(q)
				require.Equal(t, number < 4, page.HasNext)
				require.EqualValues(t, 25, page.Total)
				byNumber = append(byNumber, ids(page.Messages)...)

				q.Page, q.After = 99, after
				if after == nil {
					q.Page = 1
				}
				page = f.list(q)
				require.Equal(t, number < 4, page.HasNext)
				require.EqualValues(t, 25, page.Total, "a total does not depend on the cursor")
				byCursor = append(byCursor, ids(page.Messages)...)
				last := page.Messages[len(page.Messages)-1].Keyset()
				after = &last
			}
			require.Equal(t, want, byNumber)
			require.Equal(t, want, byCursor)
		}
		beyond := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, Page: 5, PageSize: 7})
		require.Empty(t, beyond.Messages)
		require.False(t, beyond.HasNext)
		require.EqualValues(t, 25, beyond.Total)
	},

	"a cursor is stable while messages are stored and deleted": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(6)...)
		first := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 3})
		f.store(dlqtest.Arrivals(2)...)
		require.NoError(t, f.Delete(t.Context(), nil, first.Messages[2].ID))
		after := first.Messages[2].Keyset()
		second := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 3, After: &after})
		require.Equal(t, []dlq.ID{stored[2].ID, stored[1].ID, stored[0].ID}, ids(second.Messages))
	},

	"filter by status": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		f.claim(stored[1].ID)
		f.retry(stored[2].ID, dlq.ResultDelivered)
		f.retry(stored[3].ID, dlq.ResultRejected)
		for i, status := range dlq.Statuses {
			page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{status}}, PageSize: 10})
			require.Equal(t, []dlq.ID{stored[i].ID}, ids(page.Messages), status)
			require.EqualValues(t, 1, page.Total)
		}
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders",
			Statuses: []dlq.Status{dlq.StatusDead, dlq.StatusPending, dlq.StatusDead}}, PageSize: 10})
		require.Equal(t, []dlq.ID{stored[3].ID, stored[0].ID}, ids(page.Messages))
		page = f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{"GONE"}}, PageSize: 10})
		require.Empty(t, page.Messages)
	},

	"filter by part of the error, case-insensitive and without wildcards": func(t *testing.T, f fixture) {
		stored := f.store(
			dlqtest.Arrival(dlqtest.Error("100% of TIMEOUTS")),
			dlqtest.Arrival(dlqtest.Error("a_b")),
			dlqtest.Arrival(dlqtest.Error("axb, 100 of")),
			dlqtest.Arrival(dlqtest.Error(`back\slash`)),
			dlqtest.Arrival(dlqtest.Error("Zürich ZÜGE")))
		for part, want := range map[string]int{"zürICH": 4, "zÜge": 4, "timeout": 0, "0% o": 0, "A_B": 1, "axB": 2, `K\s`: 3} {
			page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", ErrorContains: part}, PageSize: 10})
			require.Equal(t, []dlq.ID{stored[want].ID}, ids(page.Messages), part)
			require.EqualValues(t, 1, page.Total, part)
		}
	},

	"filter by key": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.Key("a")), dlqtest.Arrival(dlqtest.Key("")), dlqtest.Arrival(dlqtest.NoKey),
			dlqtest.Arrival(dlqtest.Key("a\x00\xff")), dlqtest.Arrival(dlqtest.Key("a")))
		for key, want := range map[string][]int{"a": {4, 0}, "": {1}, "a\x00\xff": {3}, "A": {}} {
			page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Key: []byte(key)}, PageSize: 10})
			wanted := []dlq.ID{}
			for _, i := range want {
				wanted = append(wanted, stored[i].ID)
			}
			require.Equal(t, wanted, ids(page.Messages), "%q", key)
			require.EqualValues(t, len(want), page.Total, "%q", key)
		}
	},

	"filter by time of arrival": func(t *testing.T, f fixture) {
		var stored []dlq.Message
		for range 3 { // each in a transaction of its own, so that the times differ
			stored = append(stored, f.store(dlqtest.Arrival())...)
		}
		second, third := stored[1].CreatedAt, stored[2].CreatedAt
		require.True(t, second.Before(third))
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", CreatedFrom: second, CreatedTo: third}, PageSize: 10})
		require.Equal(t, []dlq.ID{stored[1].ID}, ids(page.Messages), "from is inclusive, to is exclusive")
		page = f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", CreatedFrom: time.Now().Add(time.Hour)}, PageSize: 10})
		require.Empty(t, page.Messages)
	},

	"filters are combined": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.Key("k"), dlqtest.Error("timeout")), dlqtest.Arrival(dlqtest.Key("k")),
			dlqtest.Arrival(dlqtest.Key("k"), dlqtest.Error("timeout")))
		f.retry(stored[2].ID, dlq.ResultDelivered)
		page := f.list(dlq.ListQuery{PageSize: 10, Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("k"), ErrorContains: "TIME",
			Statuses: []dlq.Status{dlq.StatusPending}, CreatedFrom: stored[0].CreatedAt, CreatedTo: time.Now().Add(time.Hour)}})
		require.Equal(t, []dlq.ID{stored[0].ID}, ids(page.Messages))
	},

	"a total is exact up to its limit": func(t *testing.T, f fixture) {
		for range 10 {
			_, err := f.StoreArrivals(t.Context(), dlqtest.Arrivals(dlq.CountLimit/10))
			require.NoError(t, err)
		}
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1})
		require.EqualValues(t, dlq.CountLimit, page.Total)
		require.True(t, page.TotalExact)
		f.store(dlqtest.Arrival())
		page = f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1})
		require.EqualValues(t, dlq.CountLimit, page.Total)
		require.False(t, page.TotalExact)
	},
}

// bigOnes sets the key and the header that byteFilters select.
func bigOnes(a *dlq.Arrival) {
	a.Record.Key, a.Record.Headers = []byte("big"), []dlq.Header{{Key: "x-group", Value: []byte("big")}}
}

// byteFilters are filters that select all big messages, each with a statement of its own.
func byteFilters(m *dlq.Message) map[string]dlq.Filter {
	return map[string]dlq.Filter{
		"topic":  {Topic: "orders"},
		"group":  {Topic: "orders", Group: m.GroupID},
		"text":   {Topic: "orders", ErrorContains: m.ErrorMessage},
		"key":    {Topic: "orders", Key: []byte("big")},
		"record": {Topic: "orders", Headers: map[string]string{"x-group": "big"}},
	}
}
