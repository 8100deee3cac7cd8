package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// within has the cases that limit a filter to the topics of a principal.
var within = map[string]func(*testing.T, fixture){
	"a filter is limited to the topics of a principal": func(t *testing.T, f fixture) {
		operator, err := dlq.NewGrant(dlq.RoleOperator, []string{"orders.*", "bills?dlq"})
		require.NoError(t, err)
		principal := dlq.Principal{Grants: []dlq.Grant{operator}}
		in := func(topic string) dlq.Arrival {
			return dlqtest.Arrival(dlqtest.FromTopic(topic, "orders"), dlqtest.Key("k"), dlqtest.Cause("no price"))
		}
		stored := f.store(
			in("orders.dlq"),
			in("stock.dlq"),
			in("my.orders.dlq"),
			in("bills.dlq"),
			in("billsdlq"))
		everything := make([]dlq.ID, len(stored))
		for i := range stored {
			everything[i] = stored[i].ID
		}
		for name, filter := range map[string]dlq.Filter{
			"by topic": {}, "by error": {ErrorContains: stored[0].ErrorMessage}, "by ids": {IDs: everything},
			"by key": {Key: []byte("k")}, "by group": {Group: f.message(everything[1]).GroupID},
			"by status": {Statuses: []dlq.Status{dlq.StatusPending}},
		} {
			filter.Topic, filter.Within = "orders", principal.Within(dlq.PermJobCreate)
			page := f.list(dlq.ListQuery{Filter: filter, PageSize: 10, OldestFirst: true})
			require.Equal(t, []dlq.ID{everything[0], everything[3]}, ids(page.Messages), name)
			require.EqualValues(t, 2, page.Total, name)
			preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: filter})
			require.NoError(t, err)
			require.EqualValues(t, 1, preview.Matched, "%s: orders does not follow from bills.dlq, and is not within", name)
			dead, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindDead, Filter: filter})
			require.NoError(t, err)
			require.EqualValues(t, 2, dead.Matched, name)
		}
		filter := dlq.Filter{Topic: "orders", Within: principal.Within(dlq.PermJobCreate)}

		action := f.act(dlq.KindDead, filter)
		require.EqualValues(t, 2, action.Counts.Changed)
		require.Equal(t, dlq.StatusDead, f.message(everything[0]).Status)
		require.Equal(t, dlq.StatusPending, f.message(everything[1]).Status)
		_, err = f.Revive(t.Context(), nil, everything[0])
		require.NoError(t, err)

		bulk := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Filter(filter)))
		require.EqualValues(t, 1, bulk.Matched)
		page := f.claimPage(dlqtest.Lane(bulk, 0))
		require.Len(t, page, 1)
		require.Equal(t, everything[0], page[0].ID)
	},

	"a list of jobs is limited to the topics of a principal": func(t *testing.T, f fixture) {
		noLimits := []string{""} // the topics are original topics
		mine, other := f.startBulk(dlqtest.Bulk("orders", 1)), f.startBulk(dlqtest.Bulk("stock", 1))
		for expression, want := range map[string][]dlq.ID{"": {other.ID, mine.ID}, "^(ord.*)$": {mine.ID}, "^(o)$": nil} {
			bulks := f.jobs(dlq.JobQuery{Within: expression, Limits: noLimits, PageSize: 10})
			var found []dlq.ID
			for i := range bulks {
				found = append(found, bulks[i].ID)
			}
			require.Equal(t, want, found, expression)
		}
		action := f.startAction(dlq.KindDead, dlq.Filter{Topic: "orders"})
		actions := f.jobs(dlq.JobQuery{Kinds: []dlq.JobKind{dlq.KindDead}, Within: "^(orders)$", Limits: noLimits, PageSize: 10})
		require.Len(t, actions, 1)
		require.Equal(t, action.ID, actions[0].ID)
		actions = f.jobs(dlq.JobQuery{Kinds: []dlq.JobKind{dlq.KindDead}, Within: "^(stock)$", Limits: noLimits, PageSize: 10})
		require.Empty(t, actions)
	},

	"a list of jobs on original topics is limited by the limits of the jobs": func(t *testing.T, f fixture) {
		const limit = "^(orders.*)$"
		limited := f.startBulk(dlqtest.Bulk("orders.v1", 1, dlqtest.Filter(dlq.Filter{Topic: "orders.v1", Within: limit})))
		ofDeadLetters := f.startBulk(dlqtest.Bulk("orders.dlq", 1))
		for range 3 {
			f.startBulk(dlqtest.Bulk(fmt.Sprint("orders.", dlq.NewID()), 1)) // has messages of every dead-letter topic
		}
		seen := func(q dlq.JobQuery) (ids []dlq.ID) {
			q.PageSize = 2
			list := f.jobs(q)
			for i := range list {
				ids = append(ids, list[i].ID)
			}
			return ids
		}
		require.Equal(t, []dlq.ID{ofDeadLetters.ID, limited.ID}, seen(dlq.JobQuery{Within: limit, Limits: []string{"^ $", limit}}), "behind hidden jobs")
		require.Equal(t, []dlq.ID{ofDeadLetters.ID}, seen(dlq.JobQuery{Within: limit, Limits: []string{"^ $"}}))
		require.Equal(t, []dlq.ID{ofDeadLetters.ID}, seen(dlq.JobQuery{Within: limit}))
	},
}
