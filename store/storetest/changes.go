package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// startAction creates a bulk change and counts its messages.
func (f fixture) startAction(what dlq.JobKind, filter dlq.Filter) dlq.Job {
	f.t.Helper()
	asked := dlqtest.Change(what, filter)
	created, err := f.CreateJob(f.t.Context(), nil, asked)
	require.NoError(f.t, err)
	require.Equal(f.t, asked.ID, created.ID, "another one was joined")
	counted, err := f.CountJob(f.t.Context(), created.ID)
	require.NoError(f.t, err)
	return counted
}

func (f fixture) step(job dlq.Job) dlq.ChangeStep {
	f.t.Helper()
	step, err := f.Act(f.t.Context(), job, dlq.ChangeBatch)
	require.NoError(f.t, err)
	return step
}

// finish runs all batches of a job and ends it.
func (f fixture) finish(job dlq.Job) dlq.Job {
	f.t.Helper()
	for range 1000 {
		if step := f.step(job); step.Done {
			return f.end(job.ID, dlq.JobCompleted)
		}
	}
	require.Fail(f.t, "the job does not end")
	return dlq.Job{}
}

func (f fixture) act(what dlq.JobKind, filter dlq.Filter) dlq.Job {
	f.t.Helper()
	return f.finish(f.startAction(what, filter))
}

// oneOfEach stores a message in each status, in the order of dlq.Statuses.
func (f fixture) oneOfEach() []dlq.Message {
	f.t.Helper()
	stored := f.store(dlqtest.Arrivals(4)...)
	f.claim(stored[1].ID)
	f.retry(stored[2].ID, dlq.ResultDelivered)
	f.retry(stored[3].ID, dlq.ResultRejected)
	for i := range stored {
		stored[i] = f.message(stored[i].ID)
	}
	return stored
}

var orders = dlq.Filter{Topic: "orders"}

var actions = map[string]func(*testing.T, fixture){
	"a bulk revive makes dead messages PENDING and changes no others": func(t *testing.T, f fixture) {
		before := f.oneOfEach()
		elsewhere := f.store(dlqtest.Arrival(dlqtest.Topic("elsewhere"), dlqtest.Retries(3, 3)))[0]
		ended := f.act(dlq.KindRevive, dlq.Filter{Topic: "orders.dlq"})
		require.Equal(t, []int64{1, 1, 0}, []int64{ended.Matched, ended.Counts.Changed, ended.Counts.Skipped})
		for _, m := range append(before[:3:3], elsewhere) {
			require.Equal(t, m, f.message(m.ID))
		}
		revived, dead := f.message(before[3].ID), before[3]
		require.Equal(t, dlq.StatusPending, revived.Status)
		require.Zero(t, revived.RetryCount)
		require.Zero(t, revived.Owner)
		require.Empty(t, revived.Resolution)
		require.True(t, revived.UpdatedAt.After(dead.UpdatedAt))
		require.Equal(t, dead.LastRetryAt, revived.LastRetryAt)
		f.retry(revived.ID, dlq.ResultDelivered)
	},

	"a bulk change marks PENDING and RETRYING messages dead": func(t *testing.T, f fixture) {
		before := f.oneOfEach()
		ended := f.act(dlq.KindDead, orders)
		require.Equal(t, []int64{2, 2, 0}, []int64{ended.Matched, ended.Counts.Changed, ended.Counts.Skipped})
		for _, m := range before[:2] {
			now := f.message(m.ID)
			require.Equal(t, dlq.StatusDead, now.Status)
			require.Equal(t, dlq.ResolutionGivenUp, now.Resolution)
			require.Equal(t, m.RetryCount, now.RetryCount)
			require.Equal(t, m.Owner, now.Owner)
			require.True(t, now.UpdatedAt.After(m.UpdatedAt))
		}
		for _, m := range before[2:] {
			require.Equal(t, m, f.message(m.ID))
		}
		_, ok, err := f.Finalize(t.Context(), before[1].Owner, dlqtest.Delivered(before[1].ID))
		require.NoError(t, err)
		require.True(t, ok, "it was delivered all the same")
		require.Equal(t, dlq.StatusResolved, f.message(before[1].ID).Status)
	},

	"a bulk delete leaves only messages that are being retried": func(t *testing.T, f fixture) {
		before := f.oneOfEach()
		f.retry(before[0].ID, dlq.ResultFailed)
		ended := f.act(dlq.KindDelete, orders)
		require.Equal(t, []int64{3, 3, 0}, []int64{ended.Matched, ended.Counts.Changed, ended.Counts.Skipped})
		for _, m := range []dlq.Message{before[0], before[2], before[3]} {
			_, err := dlqtest.Detail(t.Context(), f, m.ID)
			require.ErrorIs(t, err, dlq.ErrNotFound)
		}
		require.Equal(t, before[1], f.message(before[1].ID))
		topics, err := f.Topics(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusRetrying: 1}, topics[0].Counts)
	},

	"a bulk change changes the messages under both names of the topic": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("orders", "b")),
			dlqtest.Arrival(dlqtest.FromTopic("c.dlq", "c")), dlqtest.Arrival(dlqtest.FromTopic("orders", "orders")))
		require.EqualValues(t, 3, f.act(dlq.KindDead, orders).Counts.Changed)
		for i, status := range []dlq.Status{dlq.StatusDead, dlq.StatusDead, dlq.StatusPending, dlq.StatusDead} {
			require.Equal(t, status, f.message(stored[i].ID).Status)
		}
	},

	"a bulk change fixes its scope at the start": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		job := f.startAction(dlq.KindDead, orders)
		require.EqualValues(t, 5, job.Matched)
		require.Equal(t, stored[4].Seq, job.UpperBound)
		later := f.store(dlqtest.Arrival())[0]
		f.retry(stored[0].ID, dlq.ResultFailed)
		f.retry(stored[1].ID, dlq.ResultDelivered)
		require.NoError(t, f.Delete(t.Context(), nil, stored[2].ID))
		ended := f.finish(job)
		require.Equal(t, []int64{5, 2, 3}, []int64{ended.Matched, ended.Counts.Changed, ended.Counts.Skipped})
		for _, m := range []dlq.ID{stored[0].ID, later.ID} {
			require.Equal(t, dlq.StatusPending, f.message(m).Status)
		}
		require.Equal(t, dlq.StatusDead, f.message(stored[4].ID).Status)
	},

	"a bulk change applies every filter": func(t *testing.T, f fixture) {
		wanted := f.store(dlqtest.Arrival(dlqtest.Error("Timeout after 5 s"), dlqtest.Key("k")))[0]
		others := f.store(dlqtest.Arrival(dlqtest.Error("timeout"), dlqtest.Key("other")), dlqtest.Arrival(dlqtest.Key("k")), dlqtest.Arrival(dlqtest.NoKey))
		for name, filter := range map[string]dlq.Filter{
			"error and key":       {ErrorContains: "TIMEOUT", Key: []byte("k")},
			"error, key and id":   {ErrorContains: "timeout", Key: []byte("k"), IDs: []dlq.ID{wanted.ID, others[0].ID, others[1].ID}},
			"ids":                 {IDs: []dlq.ID{dlq.NewID(), wanted.ID, wanted.ID}},
			"time":                {CreatedFrom: wanted.CreatedAt, CreatedTo: wanted.CreatedAt.Add(time.Microsecond)},
			"status":              {Statuses: []dlq.Status{dlq.StatusPending, dlq.StatusResolved}, ErrorContains: "timeout after"},
			"time, error and key": {CreatedTo: others[0].CreatedAt, ErrorContains: "timeout", Key: []byte("k")},
		} {
			filter.Topic = "orders"
			ended := f.act(dlq.KindDead, filter)
			require.Equal(t, []int64{1, 1}, []int64{ended.Matched, ended.Counts.Changed}, name)
			require.Equal(t, dlq.StatusDead, f.message(wanted.ID).Status, name)
			for _, m := range others {
				require.Equal(t, m, f.message(m.ID), name)
			}
			_, err := f.Revive(t.Context(), nil, wanted.ID)
			require.NoError(t, err)
		}
		for name, filter := range map[string]dlq.Filter{
			"another key": {Key: []byte("none")}, "another error": {ErrorContains: "refused"}, "from later": {CreatedFrom: others[2].CreatedAt.Add(1000)},
			"until": {CreatedTo: wanted.CreatedAt}, "status": {Statuses: []dlq.Status{dlq.StatusDead}}, "an unknown id": {IDs: []dlq.ID{dlq.NewID()}},
		} {
			filter.Topic = "orders"
			require.Zero(t, f.act(dlq.KindDead, filter).Counts.Changed, name)
		}
	},

	"a preview of a bulk change changes nothing": func(t *testing.T, f fixture) {
		stored := f.oneOfEach()
		many := f.store(dlqtest.Arrivals(dlq.PreviewSample, dlqtest.Error("timeout"))...)
		preview := func(what dlq.JobKind, filter dlq.Filter) dlq.JobPreview {
			filter.Topic = "orders.dlq"
			p, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: what, Filter: filter})
			require.NoError(t, err)
			p.Scope, p.Digest = dlq.Scope{}, 0
			return p
		}
		byStatus := map[dlq.Status]int64{dlq.StatusPending: 11, dlq.StatusRetrying: 1, dlq.StatusResolved: 1, dlq.StatusDead: 1}
		revive := preview(dlq.KindRevive, dlq.Filter{})
		require.Equal(t, dlq.JobPreview{Matched: 1, Skipped: 13, ByStatus: byStatus, Sample: stored[3:],
			ByGroup: []dlq.PreviewGroup{{Count: 1}}, Groups: 1}, revive)
		dead := preview(dlq.KindDead, dlq.Filter{})
		require.EqualValues(t, 12, dead.Matched)
		require.Equal(t, append(stored[:2:2], many[:8]...), dead.Sample, "the oldest first")
		remove := preview(dlq.KindDelete, dlq.Filter{ErrorContains: "TIMEOUT", IDs: ids(many[:3])})
		require.Equal(t, dlq.JobPreview{Matched: 3, ByStatus: map[dlq.Status]int64{dlq.StatusPending: 3}, Sample: many[:3],
			ByGroup: []dlq.PreviewGroup{{Count: 3}}, Groups: 1}, remove)
		key := preview(dlq.KindDelete, dlq.Filter{Key: f.detail(many[0].ID).Record.Key, Statuses: []dlq.Status{dlq.StatusPending}})
		require.Equal(t, many[:1], key.Sample)
		none := preview(dlq.KindRevive, dlq.Filter{Statuses: []dlq.Status{dlq.StatusPending}})
		require.Zero(t, none.Matched)
		require.EqualValues(t, 11, none.Skipped)
		require.Empty(t, none.Sample)
		for _, m := range append(stored, many...) {
			require.Equal(t, m, f.message(m.ID))
		}
		list := f.jobs(dlq.JobQuery{PageSize: 10})
		require.Empty(t, list)
	},
}
