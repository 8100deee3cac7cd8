package storetest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var archives = map[string]func(*testing.T, fixture){
	"only RESOLVED and DEAD messages are archived, a batch at a time": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(7)...)
		f.claim(stored[0].ID)
		for _, m := range stored[1:4] {
			f.retry(m.ID, dlq.ResultDelivered)
		}
		for _, m := range stored[4:6] {
			f.retry(m.ID, dlq.ResultRejected)
		}
		var moved []int64
		for range 4 {
			n, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 2)
			require.NoError(t, err)
			moved = append(moved, n)
		}
		require.Equal(t, []int64{2, 2, 1, 0}, moved)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10})
		require.Equal(t, []dlq.ID{stored[6].ID, stored[0].ID}, ids(page.Messages))
		_, err := f.Message(t.Context(), stored[1].ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"messages that are too new are neither archived nor purged": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))
		moved, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, time.Hour, 10)
		require.NoError(t, err)
		require.Zero(t, moved)
		moved, err = f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 1, moved)
		purged, err := f.PurgeBatch(t.Context(), dlq.ArchiveRun{}, time.Hour, 10)
		require.NoError(t, err)
		require.Zero(t, purged)
	},

	"a purged message is deleted completely and can be stored again": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(3, dlqtest.Retries(3, 3))
		f.store(arrivals...)
		alive := f.store(dlqtest.Arrival())[0]
		_, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		var purged []int64
		for range 3 {
			n, err := f.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 0, 2)
			require.NoError(t, err)
			purged = append(purged, n)
		}
		require.Equal(t, []int64{2, 1, 0}, purged)
		stored, err := f.StoreArrivals(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Source(arrivals[0].Source))})
		require.NoError(t, err)
		require.Equal(t, 1, stored, "its source went with it")
		require.Equal(t, alive, f.message(alive.ID))
	},

	"archived messages are listed and found": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5, dlqtest.Retries(3, 3), noPrice)...)
		rare := f.store(dlqtest.Arrival(dlqtest.Retries(3, 3), noPrice, dlqtest.Key("rare"), dlqtest.Headers(dlq.Header{Key: "h", Value: []byte("1")})))[0]
		f.archiveAll()
		f.store(dlqtest.Arrivals(2)...)
		all := append(ids(stored), rare.ID)
		slices.Reverse(all)
		list := func(query dlq.ListQuery) dlq.Page {
			query.Topic, query.Archived = cmp.Or(query.Topic, "orders"), true
			query.PageSize = cmp.Or(query.PageSize, 10)
			return f.list(query)
		}
		page := list(dlq.ListQuery{})
		require.Equal(t, all, ids(page.Messages))
		require.Equal(t, int64(6), page.Total)
		require.Equal(t, dlq.StatusDead, page.Messages[0].Status)
		first := list(dlq.ListQuery{PageSize: 4})
		require.True(t, first.HasNext)
		after := first.Messages[3].Keyset()
		require.Equal(t, all[4:], ids(list(dlq.ListQuery{PageSize: 4, After: &after}).Messages))
		slices.Reverse(all)
		require.Equal(t, all, ids(list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, OldestFirst: true}).Messages))

		for name, filter := range map[string]dlq.Filter{
			"key":    {Key: []byte("rare")},
			"header": {Headers: map[string]string{"h": "1"}},
			"group":  {Group: rare.GroupID, Key: []byte("rare")},
			"text":   {ErrorContains: rare.ErrorMessage, Headers: map[string]string{"h": "1"}},
		} {
			require.Equal(t, []dlq.ID{rare.ID}, ids(list(dlq.ListQuery{Filter: filter}).Messages), name)
		}
		require.Empty(t, list(dlq.ListQuery{Filter: dlq.Filter{Statuses: []dlq.Status{dlq.StatusResolved}}}).Messages)
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10}).Messages, 2, "the others")

		group := list(dlq.ListQuery{Filter: dlq.Filter{Group: rare.GroupID}, SearchLimit: 2})
		require.Equal(t, 2, group.Searched.Messages, "a filter without an index looks at a limited number")
		require.True(t, group.HasNext)
		archived := dlq.DetailQuery{IDs: []dlq.ID{dlq.NewID(), rare.ID}, Archived: true}
		found, err := f.Details(t.Context(), archived)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "rare", string(found[0].Record.Key))
		weights, err := f.Weigh(t.Context(), archived)
		require.NoError(t, err)
		require.Len(t, weights, 1)
		require.Equal(t, rare.DLQTopic, weights[0].DLQTopic)
	},

	"an archived message is restored once, as a new PENDING message of its chain": func(t *testing.T, f fixture) {
		arrival := dlqtest.Arrival(dlqtest.Key("k"), dlqtest.Value(`{"n": 1}`), noPrice, dlqtest.Retries(3, 3),
			dlqtest.Headers(dlq.Header{Key: "h", Value: []byte("1")}))
		original := f.store(arrival)[0]
		before := f.detail(original.ID)
		f.archiveAll()
		restored, err := f.Restore(t.Context(), nil, original.ID)
		require.NoError(t, err)
		require.Equal(t, dlq.RestoredID(original.ID), restored.ID)
		require.Equal(t, dlq.StatusPending, restored.Status)
		require.Equal(t, []int{0, 3}, []int{restored.RetryCount, restored.MaxRetries})
		require.Equal(t, original.ID, restored.PreviousID)
		require.Equal(t, original.GroupID, restored.GroupID)
		require.Greater(t, restored.Seq, original.Seq)
		require.False(t, restored.CreatedAt.Before(original.CreatedAt))
		after := f.detail(restored.ID)
		require.Equal(t, before.Record, after.Record)
		require.Equal(t, before.Failure, after.Failure)
		require.True(t, after.Source.IsZero(), "it was not read from Kafka")
		require.Equal(t, restored, f.message(restored.ID))

		chain, err := f.Chain(t.Context(), restored.ID)
		require.NoError(t, err)
		require.Len(t, chain.Hops, 2)
		require.True(t, chain.Hops[0].Archived, "the original stays in the archive")
		_, err = f.Restore(t.Context(), nil, original.ID)
		var refused *dlq.NotRetryableError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, restored.ID.String())
		_, err = f.Restore(t.Context(), nil, restored.ID)
		require.ErrorIs(t, err, dlq.ErrNotFound, "it is not archived")

		f.retry(restored.ID, dlq.ResultDelivered)
		f.archiveAll()
		_, err = f.Restore(t.Context(), nil, original.ID)
		require.ErrorAs(t, err, &refused, "the copy is in the archive")
	},

	"callers that restore one message at once make one copy": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))[0]
		f.archiveAll()
		var restored atomic.Int64
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				if _, err := f.Restore(t.Context(), nil, original.ID); err == nil {
					restored.Add(1)
				}
			})
		}
		callers.Wait()
		require.EqualValues(t, 1, restored.Load())
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10}).Messages, 1)
	},

	"a message that an edited copy has replaced is not restored": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival())[0]
		copied, err := f.Replace(t.Context(), nil, original.ID, f.editedCopy(original.ID, "2"))
		require.NoError(t, err)
		f.archiveAll()
		_, err = f.Restore(t.Context(), nil, original.ID)
		f.requireReplaced(err, copied.ID)
		require.Zero(t, f.act(dlq.KindRestore, orders).Counts.Changed)
	},

	"a message is not restored again whose restored copy was edited and then deleted": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))[0]
		f.archiveAll()
		restored, err := f.Restore(t.Context(), nil, original.ID)
		require.NoError(t, err)
		edited, err := f.Replace(t.Context(), nil, restored.ID, f.editedCopy(restored.ID, "2"))
		require.NoError(t, err)
		require.NoError(t, f.Delete(t.Context(), nil, restored.ID))
		_, err = f.Restore(t.Context(), nil, original.ID)
		f.requireReplaced(err, edited.ID)
		require.Zero(t, f.act(dlq.KindRestore, orders).Counts.Changed)
	},

	"archived messages are restored by their group, and by what no index has": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3, dlqtest.Retries(3, 3))...)
		rare := f.store(dlqtest.Arrival(noPrice, dlqtest.Retries(3, 3)))[0]
		f.archiveAll()
		yes, no := true, false
		require.Zero(t, f.act(dlq.KindRestore, dlq.Filter{Topic: "orders", Suspicious: &yes}).Counts.Changed)
		require.EqualValues(t, 1, f.act(dlq.KindRestore, dlq.Filter{Topic: "orders", Group: rare.GroupID, Suspicious: &no}).Counts.Changed)
		require.Equal(t, dlq.RestoredID(rare.ID), f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10}).Messages[0].ID)
		require.EqualValues(t, len(stored), f.act(dlq.KindRestore, orders).Counts.Changed, "the others")
	},

	"archived messages are restored by a filter, in their order": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(6, dlqtest.Retries(3, 3))...)
		delivered := f.store(dlqtest.Arrival())[0]
		f.retry(delivered.ID, dlq.ResultDelivered)
		f.archiveAll()
		_, err := f.Restore(t.Context(), nil, stored[0].ID)
		require.NoError(t, err)
		dead := dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusDead}}
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRestore, Filter: dead})
		require.NoError(t, err)
		require.EqualValues(t, 6, preview.Matched)
		require.Len(t, preview.Sample, 6)

		job := f.startAction(dlq.KindRestore, dead)
		require.EqualValues(t, 6, job.Matched)
		var steps int
		for done := false; !done; steps++ {
			step, err := f.Act(t.Context(), job, 2)
			require.NoError(t, err)
			done = step.Done
		}
		require.GreaterOrEqual(t, steps, 3)
		ended := f.end(job.ID, dlq.JobCompleted)
		require.Equal(t, []int64{5, 1}, []int64{ended.Counts.Changed, ended.Counts.Skipped}, "one was restored before")
		var previous []dlq.ID
		for _, m := range f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10, OldestFirst: true}).Messages {
			require.Equal(t, dlq.StatusPending, m.Status)
			previous = append(previous, m.PreviousID)
		}
		require.ElementsMatch(t, ids(stored), previous)
		bySeq := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10}).Messages
		slices.SortFunc(bySeq, func(a, b dlq.Message) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, m := range bySeq {
			require.Equal(t, stored[i].ID, m.PreviousID, "the order of arrival is that of the originals")
		}
		require.Zero(t, f.act(dlq.KindRestore, dead).Counts.Changed, "a second job finds nothing")
		require.EqualValues(t, 1, f.act(dlq.KindRestore, dlq.Filter{Topic: "orders", IDs: []dlq.ID{delivered.ID}}).Counts.Changed)
		verdicts, err := f.Verdicts(t.Context(), []dlq.ID{delivered.ID})
		require.NoError(t, err)
		require.NotEqual(t, dlq.ReasonCameBack, verdicts[delivered.ID].Reason, "a copy is not a message that came back")
	},

	"a restored message is no new failure of its group": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(noPrice, dlqtest.Retries(3, 3)))[0]
		arrived := f.group(original.GroupID).Arrived
		f.archiveAll()
		_, err := f.Restore(t.Context(), nil, original.ID)
		require.NoError(t, err)
		group := f.group(original.GroupID)
		require.Equal(t, arrived, group.Arrived)
		require.EqualValues(t, 1, dlqtest.Pending(&group))
	},
}

// archiveAll archives all messages that have ended.
func (f fixture) archiveAll() {
	f.t.Helper()
	_, err := f.ArchiveBatch(f.t.Context(), dlq.ArchiveRun{}, 0, 1000)
	require.NoError(f.t, err)
}
