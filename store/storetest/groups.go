package storetest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var (
	noPrice  = dlqtest.Cause("no price")
	noStock  = dlqtest.Cause("no stock")
	fixedAt  = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)
	earlier  = fixedAt.Add(-24 * time.Hour)
	nextDay  = fixedAt.Add(24 * time.Hour)
	ordersAt = func(partition int32, offset int64, written time.Time) func(*dlq.Arrival) {
		return func(a *dlq.Arrival) {
			a.Origin.Partition, a.Origin.Offset, a.Origin.Timestamp = &partition, &offset, written
		}
	}
)

// group reads a group before and after the latest changes are added to its sums.
func (f fixture) group(id dlq.ID) dlq.Group {
	f.t.Helper()
	before, err := f.Group(f.t.Context(), id, "")
	require.NoError(f.t, err)
	require.NoError(f.t, f.FoldCounts(f.t.Context()))
	after, err := f.Group(f.t.Context(), id, "")
	require.NoError(f.t, err)
	require.Equal(f.t, before, after, "the sums have changed the group")
	return after
}

// listedGroups lists groups, page by page, and returns the messages of their fingerprints.
func (f fixture) listedGroups(q dlq.GroupQuery) (names []string) {
	f.t.Helper()
	for range 100 {
		page, err := f.Groups(f.t.Context(), q)
		require.NoError(f.t, err)
		for i := range page.Entries {
			names = append(names, page.Entries[i].Fingerprint.Message)
		}
		if q.After = page.Next; page.Next == nil {
			return names
		}
	}
	require.Fail(f.t, "the list does not end")
	return nil
}

func (f fixture) fix(id dlq.ID, ends ...dlq.EndOffset) {
	f.t.Helper()
	require.NoError(f.t, f.FixGroup(f.t.Context(), nil, id, dlq.GroupFix{At: fixedAt, Ends: ends}))
}

var groups = map[string]func(*testing.T, fixture){
	"messages with the same cause are one group": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop")),
			dlqtest.Arrival(noStock), dlqtest.Arrival())
		id := stored[0].GroupID
		require.False(t, id.IsZero())
		require.Equal(t, id, stored[1].GroupID)
		require.NotEqual(t, id, stored[2].GroupID)
		require.True(t, stored[3].GroupID.IsZero(), "it has no fingerprint")
		f.retry(stored[0].ID, dlq.ResultDelivered)

		g := f.group(id)
		require.Equal(t, []dlq.GroupCount{
			{DLQTopic: "orders.dlq", OriginalTopic: "orders", Status: dlq.StatusResolved, Messages: 1},
			{DLQTopic: "shop.dlq", OriginalTopic: "shop", Status: dlq.StatusPending, Messages: 1},
		}, g.Counts)
		require.EqualValues(t, 2, g.Arrived)
		require.EqualValues(t, 2, g.LastHour)
		require.EqualValues(t, 1, dlqtest.Pending(&g))
		require.Equal(t, stored[1].ID, g.Sample)
		require.False(t, g.FirstSeen.After(stored[0].CreatedAt))
		require.Equal(t, stored[1].CreatedAt, g.LastSeen)
		require.Equal(t, dlq.GroupOpen, g.State)
		require.Equal(t, "no price", g.Fingerprint.Message)
	},

	"deleted messages have arrived but are not counted": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(noPrice))[0]
		require.NoError(t, f.Delete(t.Context(), nil, m.ID))
		g := f.group(m.GroupID)
		require.Empty(t, g.Counts)
		require.True(t, g.Sample.IsZero())
		require.EqualValues(t, 1, g.Arrived)
		require.Empty(t, f.listedGroups(dlq.GroupQuery{PageSize: 10}))
		require.Equal(t, []string{"no price"}, f.listedGroups(dlq.GroupQuery{State: dlq.GroupOpen, PageSize: 10}))
	},

	"groups are listed in each order, page by page": func(t *testing.T, f fixture) {
		for i, n := range []int{2, 1, 4, 3, 5} {
			for _, a := range dlqtest.Arrivals(n, dlqtest.Cause(strconv.Itoa(i))) {
				f.store(a)
			}
		}
		f.store(dlqtest.Arrival(dlqtest.Cause("0")))
		for range 2 { // first with changes that are not in the sums, then with sums only
			for sort, want := range map[dlq.GroupSort][]string{
				dlq.GroupsByFirstSeen: {"4", "3", "2", "1", "0"},
				dlq.GroupsByLastSeen:  {"0", "4", "3", "2", "1"},
			} {
				for size := 1; size <= 6; size++ {
					require.Equal(t, want, f.listedGroups(dlq.GroupQuery{Sort: sort, PageSize: size}), "%s, pages of %d", sort, size)
				}
			}
			pending := f.listedGroups(dlq.GroupQuery{Sort: dlq.GroupsByPending, PageSize: 2})
			require.Equal(t, []string{"4", "2"}, pending[:2])
			require.ElementsMatch(t, []string{"3", "0"}, pending[2:4])
			require.Equal(t, "1", pending[4])
			require.NoError(t, f.FoldCounts(t.Context()))
		}
	},

	"groups with PENDING messages are counted by state": func(t *testing.T, f fixture) {
		backlogs := func() map[dlq.BacklogState]dlq.GroupBacklog {
			list, err := f.GroupBacklogs(t.Context())
			require.NoError(t, err)
			byState := map[dlq.BacklogState]dlq.GroupBacklog{}
			for _, b := range list {
				require.Equal(t, "orders.dlq", b.DLQTopic)
				byState[b.State] = b
			}
			require.NoError(t, f.FoldCounts(t.Context()))
			after, err := f.GroupBacklogs(t.Context())
			require.NoError(t, err)
			require.Equal(t, list, after, "adding up the counts does not change them")
			return byState
		}
		price := f.store(dlqtest.Arrival(noPrice, ordersAt(0, 1, earlier)))[0]
		stock := f.store(dlqtest.Arrival(noStock), dlqtest.Arrival(noStock))
		f.store(dlqtest.Arrival())
		require.Equal(t, map[dlq.BacklogState]dlq.GroupBacklog{
			dlq.BacklogNew: {DLQTopic: "orders.dlq", State: dlq.BacklogNew, Groups: 2, Pending: 3,
				Causes: []dlq.BacklogCause{{Title: "no price", Place: "***", Pending: 1}, {Title: "no stock", Place: "***", Pending: 2}}},
		}, backlogs())

		held := dlq.GroupHeld
		require.NoError(t, f.ChangeGroup(t.Context(), nil, stock[0].GroupID, dlq.GroupChange{State: &held, Hold: dlq.Hold{Count: 100}}))
		require.Equal(t, map[dlq.BacklogState]dlq.GroupBacklog{
			dlq.BacklogNew: {DLQTopic: "orders.dlq", State: dlq.BacklogNew, Groups: 1, Pending: 1, OldestPending: &price.CreatedAt,
				Causes: []dlq.BacklogCause{{Title: "no price", Place: "***", Pending: 1}}},
			"held": {DLQTopic: "orders.dlq", State: "held", Groups: 1, Pending: 2, OldestPending: &stock[0].CreatedAt},
		}, backlogs(), "the oldest messages tell which of them are held")

		f.retry(stock[0].ID, dlq.ResultDelivered)
		f.retry(stock[1].ID, dlq.ResultDelivered)
		f.fix(price.GroupID)
		require.Equal(t, map[dlq.BacklogState]dlq.GroupBacklog{
			"fixed": {DLQTopic: "orders.dlq", State: "fixed", Groups: 1, Pending: 1},
		}, backlogs(), "a group without PENDING messages is not counted")

		f.store(dlqtest.Arrival(noPrice, ordersAt(0, 2, nextDay)))
		require.Equal(t, map[dlq.BacklogState]dlq.GroupBacklog{
			dlq.BacklogRegressed: {DLQTopic: "orders.dlq", State: dlq.BacklogRegressed, Groups: 1, Pending: 2,
				Causes: []dlq.BacklogCause{{Title: "no price", Place: "***", Pending: 2}}},
		}, backlogs())
	},

	"DEAD messages of held groups are counted by topic": func(t *testing.T, f fixture) {
		heldDead := func() []dlq.TopicCount {
			counts, err := f.HeldDead(t.Context())
			require.NoError(t, err)
			require.NoError(t, f.FoldCounts(t.Context()))
			after, err := f.HeldDead(t.Context())
			require.NoError(t, err)
			require.Equal(t, counts, after, "adding up the counts does not change them")
			return counts
		}
		price := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop")))
		stock, single := f.store(dlqtest.Arrival(noStock))[0], f.store(dlqtest.Arrival())[0]
		for _, m := range []dlq.Message{price[0], price[2], stock, single} {
			f.retry(m.ID, dlq.ResultRejected)
		}
		require.Empty(t, heldDead())

		held, open := dlq.GroupHeld, dlq.GroupOpen
		require.NoError(t, f.ChangeGroup(t.Context(), nil, price[0].GroupID, dlq.GroupChange{State: &held, Hold: dlq.Hold{Count: 100}}))
		require.Equal(t, []dlq.TopicCount{{DLQTopic: "orders.dlq", Messages: 1}, {DLQTopic: "shop.dlq", Messages: 1}}, heldDead())

		require.NoError(t, f.Delete(t.Context(), nil, price[2].ID))
		require.Equal(t, []dlq.TopicCount{{DLQTopic: "orders.dlq", Messages: 1}}, heldDead())

		require.NoError(t, f.ChangeGroup(t.Context(), nil, price[0].GroupID, dlq.GroupChange{State: &open}))
		require.Empty(t, heldDead())
	},

	"the groups that began first are named": func(t *testing.T, f fixture) {
		for i := range dlq.MaxBacklogCauses + 5 {
			f.store(dlqtest.Arrival(dlqtest.Cause("no " + strings.Repeat("x", i+1))))
		}
		list, err := f.GroupBacklogs(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Len(t, list[0].Causes, dlq.MaxBacklogCauses)
		require.Equal(t, dlq.BacklogCause{Title: "no x", Place: "***", Pending: 1}, list[0].Causes[0])
		require.EqualValues(t, dlq.MaxBacklogCauses+5, list[0].Pending)
	},

	"groups are selected by topic and state": func(t *testing.T, f fixture) {
		price := f.store(dlqtest.Arrival(noPrice))[0]
		f.store(dlqtest.Arrival(noStock, dlqtest.FromTopic("shop.dlq", "shop")))
		f.fix(price.GroupID)
		require.NoError(t, f.FoldCounts(t.Context()))
		for topic, want := range map[string][]string{"orders.dlq": {"no price"}, "orders": {"no price"}, "shop": {"no stock"}, "x": nil} {
			require.Equal(t, want, f.listedGroups(dlq.GroupQuery{Topic: topic, PageSize: 10}), topic)
		}
		require.Equal(t, []string{"no price"}, f.listedGroups(dlq.GroupQuery{State: dlq.GroupFixed, PageSize: 10}))
		require.Equal(t, []string{"no stock"}, f.listedGroups(dlq.GroupQuery{State: dlq.GroupOpen, PageSize: 10}))
	},

	"a group is limited to the topics of a principal": func(t *testing.T, f fixture) {
		inOrders := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop")))[0]
		both := inOrders.GroupID
		hidden := f.store(dlqtest.Arrival(noStock, dlqtest.FromTopic("shop.dlq", "shop")))[0].GroupID
		require.NoError(t, f.FoldCounts(t.Context()))
		require.Equal(t, []string{"no price"}, f.listedGroups(dlq.GroupQuery{Within: "^(orders.*)$", PageSize: 10}))
		g, err := f.Group(t.Context(), both, "^(orders.*)$")
		require.NoError(t, err)
		require.True(t, g.IsPartial)
		for _, expression := range []string{"", "^(orders.*|shop.*)$"} {
			whole, err := f.Group(t.Context(), both, expression)
			require.NoError(t, err)
			require.False(t, whole.IsPartial, expression)
		}
		require.Equal(t, []dlq.GroupCount{{DLQTopic: "orders.dlq", OriginalTopic: "orders", Status: dlq.StatusPending, Messages: 1}}, g.Counts)
		orders, shop := "^(orders.*)$", "^(shop.*)$"
		for _, sort := range dlq.GroupSorts {
			require.Empty(t, f.listedGroups(dlq.GroupQuery{Sort: sort, Within: orders, Topic: "shop.dlq", PageSize: 10}))
			require.Empty(t, f.listedGroups(dlq.GroupQuery{Sort: sort, Within: orders, Topic: "shop", PageSize: 10}))
			require.Empty(t, f.listedGroups(dlq.GroupQuery{Sort: sort, Within: shop, Topic: "orders.dlq", PageSize: 10}))
			require.Equal(t, []string{"no price"}, f.listedGroups(dlq.GroupQuery{Sort: sort, Within: orders, Topic: "orders", PageSize: 10}))
		}
		require.NoError(t, f.Delete(t.Context(), nil, inOrders.ID))
		require.NoError(t, f.FoldCounts(t.Context()))
		for _, sort := range dlq.GroupSorts {
			require.Empty(t, f.listedGroups(dlq.GroupQuery{Sort: sort, Within: orders, PageSize: 10}), "its messages are in other topics")
		}
		_, err = f.Group(t.Context(), hidden, "^(orders.*)$")
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.Group(t.Context(), dlq.NewID(), "")
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"hidden messages are no sample and do not change the order": func(t *testing.T, f fixture) {
		const orders = "^(orders.*)$"
		inShop := dlqtest.FromTopic("shop.dlq", "shop")
		shown := f.store(dlqtest.Arrival(noPrice))[0]
		f.store(dlqtest.Arrival(noPrice, inShop))
		f.store(dlqtest.Arrival(noStock))
		byLast := dlq.GroupQuery{Sort: dlq.GroupsByLastSeen, Within: orders, PageSize: 1}
		for range 2 { // first with changes that are not in the sums, then with sums only
			f.store(dlqtest.Arrival(noPrice, inShop))
			g, err := f.Group(t.Context(), shown.GroupID, orders)
			require.NoError(t, err)
			require.Equal(t, shown.ID, g.Sample)
			require.Equal(t, []string{"no stock", "no price"}, f.listedGroups(byLast))
			require.NoError(t, f.FoldCounts(t.Context()))
		}
	},

	"a filter selects the messages of a group": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noStock), dlqtest.Arrival(noPrice),
			dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop")))
		filter := dlq.Filter{Topic: "orders", Group: stored[0].GroupID}
		page := f.list(dlq.ListQuery{Filter: filter, PageSize: 1})
		require.Equal(t, []dlq.ID{stored[2].ID}, ids(page.Messages))
		require.EqualValues(t, 2, page.Total)
		after := page.Messages[0].Keyset()
		require.Equal(t, []dlq.ID{stored[0].ID}, ids(f.list(dlq.ListQuery{Filter: filter, PageSize: 1, After: &after}).Messages))
		filter.Key = page.Messages[0].ID[:0]
		require.Empty(t, f.list(dlq.ListQuery{Filter: filter, PageSize: 1}).Messages)
		filter.Key = nil
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: filter})
		require.NoError(t, err)
		require.EqualValues(t, 2, preview.Matched)
		bulk := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Filter(filter)))
		require.EqualValues(t, 2, bulk.Matched)
		claimed := f.claimPage(dlqtest.Lane(bulk, 0))
		require.Len(t, claimed, 2)
		require.Equal(t, stored[2].ID, claimed[1].ID)
	},

	"a preview counts the messages of each group": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noStock), dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice),
			dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "orders")), dlqtest.Arrival(), dlqtest.Arrival(noStock))
		_, err := f.MarkDead(t.Context(), nil, stored[0].ID)
		require.NoError(t, err)
		of := func(m dlq.Message, count int64) dlq.PreviewGroup {
			return dlq.PreviewGroup{ID: m.GroupID, Fingerprint: f.group(m.GroupID).Fingerprint, Count: count}
		}
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders"}})
		require.NoError(t, err)
		require.Equal(t, []dlq.PreviewGroup{of(stored[2], 3), of(stored[1], 2), {Count: 1}}, preview.ByGroup)
		require.EqualValues(t, 3, preview.Groups)

		action := dlq.JobSpec{Kind: dlq.KindDelete, Filter: dlq.Filter{Topic: "orders.dlq"}}
		deleted, err := f.PreviewJob(t.Context(), action)
		require.NoError(t, err)
		require.Equal(t, []dlq.PreviewGroup{of(stored[0], 3), of(stored[1], 2), {Count: 1}}, deleted.ByGroup)
		require.EqualValues(t, 3, deleted.Groups)
		action.Kind = dlq.KindRevive
		revived, err := f.PreviewJob(t.Context(), action)
		require.NoError(t, err)
		require.Equal(t, []dlq.PreviewGroup{of(stored[0], 1)}, revived.ByGroup)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 5, dlq.StatusDead: 1}, revived.ByStatus)
	},

	"a preview shows the largest groups, and how many there are": func(t *testing.T, f fixture) {
		var arrivals []dlq.Arrival
		for i := range dlq.PreviewRows + 5 {
			arrivals = append(arrivals, dlqtest.Arrivals(1+i%3, dlqtest.Cause(strconv.Itoa(i)))...)
		}
		f.store(arrivals...)
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders"}})
		require.NoError(t, err)
		action, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindDead, Filter: dlq.Filter{Topic: "orders"}})
		require.NoError(t, err)
		require.Equal(t, preview.ByGroup, action.ByGroup)
		require.Len(t, preview.ByGroup, dlq.PreviewRows)
		require.EqualValues(t, dlq.PreviewRows+5, preview.Groups)
		require.EqualValues(t, dlq.PreviewRows+5, action.Groups)
		require.EqualValues(t, 3, preview.ByGroup[0].Count)
		require.EqualValues(t, 1, preview.ByGroup[dlq.PreviewRows-1].Count)
	},

	"a bulk change changes the messages of a group": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noStock))
		action := f.act(dlq.KindDead, dlq.Filter{Topic: "orders", Group: stored[0].GroupID})
		require.EqualValues(t, 1, action.Counts.Changed)
		require.Equal(t, dlq.StatusPending, f.message(stored[1].ID).Status)
	},

	"operators note who owns a group, and every change is recorded": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival(noPrice))[0].GroupID
		owner, ticket := "ann", "https://tickets.example/1"
		require.NoError(t, f.ChangeGroup(t.Context(), asked(dlq.PermGroupUpdate), id, dlq.GroupChange{Owner: &owner, Ticket: &ticket}))
		f.requireRecorded(1, dlq.Operation{Action: dlq.PermGroupUpdate, Target: dlq.TargetGroup, TargetID: id, Topic: "orders.dlq", Outcome: dlq.OperationDone})
		note := "wrong price list"
		require.NoError(t, f.ChangeGroup(t.Context(), nil, id, dlq.GroupChange{Note: &note}))
		g := f.group(id)
		require.Equal(t, []string{owner, ticket, note}, []string{g.Owner, g.Ticket, g.Note})
		require.ErrorIs(t, f.ChangeGroup(t.Context(), asked(dlq.PermGroupUpdate), dlq.NewID(), dlq.GroupChange{Note: &note}), dlq.ErrNotFound)
		ticket = "https://tickets.example/2"
		require.NoError(t, f.FixGroup(t.Context(), nil, id, dlq.GroupFix{At: fixedAt, Ticket: &ticket}))
		f.fix(id)
		require.Equal(t, ticket, f.group(id).Ticket)
		require.ErrorIs(t, f.FixGroup(t.Context(), asked(dlq.PermGroupUpdate), dlq.NewID(), dlq.GroupFix{At: fixedAt}), dlq.ErrNotFound)
		require.Len(t, f.audited(dlq.OperationQuery{}), 1)
	},

	"a held group opens when a condition is met": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival(noPrice))[0].GroupID
		other := f.store(dlqtest.Arrival(noStock))[0].GroupID
		hold := func(hold dlq.Hold) {
			t.Helper()
			state := dlq.GroupHeld
			require.NoError(t, f.ChangeGroup(t.Context(), nil, id, dlq.GroupChange{State: &state, Hold: hold}))
		}
		opens := func(reason string) {
			t.Helper()
			require.NoError(t, f.FoldCounts(t.Context()))
			opened, err := f.OpenHeldGroups(t.Context())
			require.NoError(t, err)
			g := f.group(id)
			if reason == "" {
				require.Zero(t, opened)
				require.Equal(t, dlq.GroupHeld, g.State)
				return
			}
			require.Equal(t, 1, opened)
			require.Equal(t, dlq.GroupOpen, g.State)
			require.Equal(t, reason, g.StateReason)
			require.True(t, g.Hold.IsZero())
		}
		hold(dlq.Hold{Until: time.Now().Add(time.Hour)})
		opens("")
		hold(dlq.Hold{Until: time.Now().Add(-time.Second)})
		opens(dlq.HoldUntilReason)
		hold(dlq.Hold{Count: 2})
		require.EqualValues(t, 2, f.group(id).Hold.Count)
		f.store(dlqtest.Arrival(noPrice))
		require.EqualValues(t, 1, f.group(id).Hold.Count)
		opens("")
		f.store(dlqtest.Arrival(noPrice))
		opens(dlq.HoldCountReason)
		hold(dlq.Hold{Rate: 5})
		f.store(dlqtest.Arrival(noPrice))
		opens("")
		f.store(dlqtest.Arrival(noPrice))
		opens(dlq.HoldRateReason)
		require.Equal(t, dlq.GroupOpen, f.group(other).State)
	},

	"a failure from before the fix does not open the group": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival(noPrice))[0].GroupID
		f.fix(id, dlq.EndOffset{Topic: "orders", Partition: 0, Offset: 100})
		f.store(dlqtest.Arrival(noPrice, ordersAt(0, 99, fixedAt.Add(time.Minute))), // the clock of another program differs
			dlqtest.Arrival(noPrice, ordersAt(0, 5, time.Time{})))
		unknown := dlqtest.Arrival(noPrice)
		unknown.Record.Timestamp = earlier
		f.store(unknown, dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop"), ordersAt(0, 7, earlier)))
		g := f.group(id)
		require.Equal(t, dlq.GroupFixed, g.State)
		require.Equal(t, fixedAt, g.StateAt)
	},

	"a failure from after the fix opens the group": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival(noPrice))[0].GroupID
		late := dlqtest.Arrival(noPrice)
		late.Record.Timestamp = nextDay
		for name, arrival := range map[string]dlq.Arrival{
			"beyond the end of its partition":              dlqtest.Arrival(noPrice, ordersAt(0, 100, earlier)),
			"in a partition that was added":                dlqtest.Arrival(noPrice, ordersAt(8, 0, earlier)),
			"in another topic, written later":              dlqtest.Arrival(noPrice, dlqtest.FromTopic("shop.dlq", "shop"), ordersAt(0, 7, nextDay)),
			"in a topic that was created again":            dlqtest.Arrival(noPrice, ordersAt(0, 3, nextDay)),
			"without offset, and with a later dead letter": late,
		} {
			f.fix(id, dlq.EndOffset{Topic: "orders", Partition: 0, Offset: 100}, dlq.EndOffset{Topic: "orders", Partition: 1, Offset: 7})
			m := f.store(arrival)[0]
			g := f.group(id)
			require.Equal(t, dlq.GroupOpen, g.State, name)
			require.Equal(t, dlq.RegressionReason, g.StateReason, name)
			require.Equal(t, m.ID, g.RegressedBy, name)
		}
	},

	"a flood of unique messages becomes one group": func(t *testing.T, f fixture) {
		var arrivals []dlq.Arrival
		for i := range dlq.MaxGroups + 50 {
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Cause(strconv.Itoa(i))))
		}
		_, err := f.StoreArrivals(t.Context(), arrivals)
		require.NoError(t, err)
		other := f.store(dlqtest.Arrival(noStock, dlqtest.FromTopic("shop.dlq", "shop")))[0]
		overflow := dlq.Overflow("orders.dlq")
		g := f.group(dlq.GroupID(&overflow))
		require.EqualValues(t, 50, dlqtest.Pending(&g))
		require.Equal(t, dlq.RuleOverflow, g.Fingerprint.Rule)
		require.Equal(t, "no stock", f.group(other.GroupID).Fingerprint.Message)
		require.Len(t, f.listedGroups(dlq.GroupQuery{Topic: "orders.dlq", PageSize: 200}), dlq.MaxGroups+1)
	},
}
