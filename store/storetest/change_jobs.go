package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var actionJobs = map[string]func(*testing.T, fixture){
	"a bulk change exists before it is counted": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		asked := dlqtest.Change(dlq.KindDead, orders)
		asked.Spec.Reason = "the shop has closed"
		job, err := f.CreateJob(t.Context(), nil, asked)
		require.NoError(t, err)
		require.True(t, job.Counting)
		require.Equal(t, dlq.JobRunning, job.State)
		require.Equal(t, asked.Spec, job.Spec)
		require.Equal(t, asked.WorkflowID, job.WorkflowID)
		require.Zero(t, job.Matched)
		require.Nil(t, job.EndedAt)
		require.Equal(t, job, f.job(job.ID))

		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.store(dlqtest.Arrival())
		counted, err := f.CountJob(t.Context(), job.ID)
		require.NoError(t, err)
		require.False(t, counted.Counting)
		require.EqualValues(t, 3, counted.Matched, "the messages at the start that are unchanged since")
		f.retry(stored[1].ID, dlq.ResultDelivered)
		again, err := f.CountJob(t.Context(), job.ID)
		require.NoError(t, err)
		require.Equal(t, counted, again, "counted once")
		_, err = f.CountJob(t.Context(), dlq.NewID())
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"a bulk change continues where its last batch ended": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2*dlq.ChangeBatch+10, func(a *dlq.Arrival) { a.Payload = nil })...)
		f.claim(stored[0].ID)
		job := f.startAction(dlq.KindDead, orders)
		require.EqualValues(t, len(stored), job.Matched)
		first := f.step(job)
		require.False(t, first.Done)
		require.Positive(t, first.Changed)
		require.Equal(t, first.Changed, first.Total)
		middle := f.job(job.ID)
		require.Equal(t, first.Total, middle.Counts.Changed)
		require.Equal(t, dlq.JobRunning, middle.State)
		require.Positive(t, middle.RecentPerSecond)
		ended := f.finish(dlq.Job{ID: job.ID, Spec: middle.Spec})
		require.EqualValues(t, len(stored), ended.Counts.Changed)
		require.Zero(t, ended.Counts.Skipped)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusDead}}, PageSize: 1})
		require.EqualValues(t, len(stored), page.Total)
		require.Equal(t, dlq.ChangeStep{Stopped: true}, f.step(job), "it has ended")
	},

	"a bulk change that finds few messages reads on": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.ChangeBatch+10, func(a *dlq.Arrival) { a.Payload = nil })...)
		f.store(dlqtest.Arrivals(2, dlqtest.Error("timeout"))...)
		job := f.startAction(dlq.KindDelete, dlq.Filter{Topic: "orders", ErrorContains: "timeout"})
		require.EqualValues(t, 2, job.Matched)
		require.Equal(t, dlq.ChangeStep{}, f.step(job))
		require.EqualValues(t, 2, f.finish(job).Counts.Changed)
		require.Equal(t, dlq.StatusPending, f.message(stored[0].ID).Status)
	},

	"batches of one bulk change that run at once count every message once": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3*dlq.ChangeBatch, func(a *dlq.Arrival) { a.Payload = nil })...)
		job := f.startAction(dlq.KindDelete, orders)
		var group sync.WaitGroup
		changed, failures := make([]int64, 4), make([]error, 4)
		for i := range changed {
			group.Go(func() {
				for done := false; !done && failures[i] == nil; {
					step, err := f.Act(t.Context(), job, dlq.ChangeBatch)
					changed[i], done, failures[i] = changed[i]+step.Changed, step.Done, err
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.EqualValues(t, len(stored), changed[0]+changed[1]+changed[2]+changed[3])
		require.EqualValues(t, len(stored), f.end(job.ID, dlq.JobCompleted).Counts.Changed)
	},

	"a stopped bulk change changes nothing more": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.ChangeBatch+5, func(a *dlq.Arrival) { a.Payload = nil })...)
		job := f.startAction(dlq.KindDead, orders)
		changed := f.step(job).Changed
		stopped, err := f.StopJob(t.Context(), nil, job.ID, dlq.JobCancelling, "operator")
		require.NoError(t, err)
		require.Equal(t, dlq.JobCancelling, stopped.State)
		require.Equal(t, "operator", stopped.Reason)
		require.Equal(t, dlq.ChangeStep{Stopped: true}, f.step(job))
		ended := f.end(job.ID, dlq.JobCancelled)
		require.Equal(t, dlq.JobCancelled, ended.State)
		require.NotNil(t, ended.EndedAt)
		require.EqualValues(t, len(stored), ended.Matched)
		require.Equal(t, changed, ended.Counts.Changed, "what is changed stays changed")
		require.Equal(t, ended.Matched-changed, ended.Counts.Skipped)
		require.Equal(t, ended, f.job(job.ID))

		_, err = f.EndJob(t.Context(), nil, job.ID, dlq.JobFailed, "too late")
		require.NoError(t, err)
		_, err = f.StopJob(t.Context(), nil, job.ID, dlq.JobCancelling, "too late")
		require.NoError(t, err)
		require.Equal(t, ended, f.job(job.ID))
		_, err = f.EndJob(t.Context(), nil, job.ID, dlq.JobRunning, "")
		require.Error(t, err)
		for _, unknown := range []func() error{
			func() error { _, err := f.StopJob(t.Context(), nil, dlq.NewID(), dlq.JobCancelling, ""); return err },
			func() error { _, err := f.EndJob(t.Context(), nil, dlq.NewID(), dlq.JobFailed, ""); return err },
			func() error { _, err := f.Job(t.Context(), dlq.NewID()); return err },
		} {
			require.ErrorIs(t, unknown(), dlq.ErrNotFound)
		}
	},

	"a running bulk change says why it does not continue": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2)...)
		job := f.startAction(dlq.KindDead, orders)
		require.NoError(t, f.ExplainJob(t.Context(), job.ID, dlq.ErrUnavailable))
		require.Equal(t, dlq.ErrUnavailable.Error(), f.job(job.ID).Reason)
		require.Equal(t, dlq.JobRunning, f.job(job.ID).State)
		f.step(job)
		require.Empty(t, f.job(job.ID).Reason, "it continues")
		_, err := f.StopJob(t.Context(), nil, job.ID, dlq.JobCancelling, "operator")
		require.NoError(t, err)
		require.NoError(t, f.ExplainJob(t.Context(), job.ID, dlq.ErrUnavailable))
		require.Equal(t, "operator", f.job(job.ID).Reason)
	},

	"a smaller batch of a bulk change changes fewer messages": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		job := f.startAction(dlq.KindDead, orders)
		for _, total := range []int64{2, 4, 5} {
			step, err := f.Act(t.Context(), job, 2)
			require.NoError(t, err)
			require.Equal(t, total, step.Total)
		}
		require.EqualValues(t, 5, f.finish(job).Counts.Changed)
	},

	"a bulk change that ends before it is counted has matched what it changed": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2)...)
		job, err := f.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDead, orders))
		require.NoError(t, err)
		ended := f.finish(job)
		require.False(t, ended.Counting)
		require.Equal(t, []int64{2, 2, 0}, []int64{ended.Matched, ended.Counts.Changed, ended.Counts.Skipped})
		counted, err := f.CountJob(t.Context(), job.ID)
		require.NoError(t, err)
		require.Equal(t, ended, counted, "too late")
	},

	"bulk changes are listed, the newest first": func(t *testing.T, f fixture) {
		first := f.act(dlq.KindDead, dlq.Filter{Topic: "a"})
		second := f.startAction(dlq.KindRevive, dlq.Filter{Topic: "b"})
		for limit, want := range map[int][]dlq.Job{0: nil, 1: {second}, 10: {second, first}} {
			list := f.jobs(dlq.JobQuery{PageSize: limit})
			require.Len(t, list, len(want))
			for i := range list {
				require.Equal(t, want[i].ID, list[i].ID)
			}
		}
	},

	"a bulk change is refused while a different one of its topic runs": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(), dlqtest.Arrival(dlqtest.Topic("users")))
		running := f.startAction(dlq.KindDead, dlq.Filter{Topic: "orders"})
		f.requireRefused(dlqtest.Change(dlq.KindRevive, orders), running)
		f.requireRefused(dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders.dlq"}), running)
		f.requireRefused(dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders", ErrorContains: "boom"}), running)
		same := dlqtest.Change(dlq.KindDead, orders)
		same.Spec.Reason = "for another reason"
		joined, err := f.CreateJob(t.Context(), nil, same)
		require.NoError(t, err)
		require.Equal(t, running, joined)
		f.startAction(dlq.KindRevive, dlq.Filter{Topic: "users"})
		f.startBulk(dlqtest.Bulk("orders", 1)) // a bulk retry may run beside a bulk change
		f.end(running.ID, dlq.JobCompleted)
		f.startAction(dlq.KindRevive, dlq.Filter{Topic: "orders.dlq"})
	},

	"owners of running bulk changes are filtered by age": func(t *testing.T, f fixture) {
		before, err := f.Now(t.Context())
		require.NoError(t, err)
		running := f.startAction(dlq.KindDead, dlq.Filter{Topic: "a"})
		f.act(dlq.KindDead, dlq.Filter{Topic: "b"})
		after, err := f.Now(t.Context())
		require.NoError(t, err)
		for at, want := range map[time.Time][]dlq.Owner{before: nil, after: {running.Owner()}} {
			owners, err := f.JobOwners(t.Context(), at)
			require.NoError(t, err)
			require.ElementsMatch(t, want, owners)
		}
	},

	"a bulk change runs beside a bulk retry of its topic unless it deletes": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3 * dlq.PageSize)...)
		deletion := f.startAction(dlq.KindDelete, dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusResolved}})
		f.requireRefused(dlqtest.Bulk("orders.dlq", 1), deletion)
		f.end(deletion.ID, dlq.JobCompleted)
		retry := f.startBulk(dlqtest.Bulk("orders", 1))
		f.requireRefused(dlqtest.Change(dlq.KindDelete, dlq.Filter{Topic: "orders.dlq"}), retry)
		for _, kind := range dlq.KindRetry.Beside() {
			f.end(f.startAction(kind, orders).ID, dlq.JobCompleted)
		}
		lane := dlqtest.Lane(retry, 0)
		page := f.claimPage(lane)
		dead := f.act(dlq.KindDead, orders)
		require.EqualValues(t, 300, dead.Counts.Changed)
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		for i := range outcomes[:40] {
			outcomes[i] = outcome(page[i], dlq.ResultFailed)
		}
		counts := f.finalizePage(lane, outcomes)
		require.Equal(t, dlq.JobCounts{Retried: 60}, counts, "the others stay DEAD")
		require.Empty(t, f.claimPage(lane))
		result := f.end(retry.ID, dlq.JobCompleted)
		require.Equal(t, dlq.JobCounts{Retried: 60, Skipped: 240}, result.Counts)
	},
}
