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

// requireActionRefused checks that a bulk action cannot be created because of another.
func (f fixture) requireActionRefused(asked, running dlq.BulkAction) {
	f.t.Helper()
	_, err := f.CreateAction(f.t.Context(), asked)
	var busy *dlq.ActionBusyError
	require.ErrorAs(f.t, err, &busy)
	require.Equal(f.t, dlq.ActionBusyError{Topic: asked.Spec.Topic, Running: running.ID}, *busy)
	_, err = f.Action(f.t.Context(), asked.ID)
	require.ErrorIs(f.t, err, dlq.ErrNotFound, "nothing is left of it")
}

var actionJobs = map[string]func(*testing.T, fixture){
	"a bulk action exists before it is counted": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		asked := dlqtest.Action(dlq.ActionDead, orders)
		asked.Spec.Reason = "the shop has closed"
		job, err := f.CreateAction(t.Context(), asked)
		require.NoError(t, err)
		require.True(t, job.Counting)
		require.Equal(t, dlq.BulkRunning, job.State)
		require.Equal(t, asked.Spec, job.Spec)
		require.Equal(t, asked.WorkflowID, job.WorkflowID)
		require.Zero(t, job.Matched)
		require.Nil(t, job.EndedAt)
		require.Equal(t, job, f.action(job.ID))

		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.store(dlqtest.Arrival())
		counted, err := f.CountAction(t.Context(), job.ID)
		require.NoError(t, err)
		require.False(t, counted.Counting)
		require.EqualValues(t, 3, counted.Matched, "the messages at the start that are unchanged since")
		f.retry(stored[1].ID, dlq.ResultDelivered)
		again, err := f.CountAction(t.Context(), job.ID)
		require.NoError(t, err)
		require.Equal(t, counted, again, "counted once")
		_, err = f.CountAction(t.Context(), dlq.NewID())
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"a bulk action continues where its last batch ended": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2*dlq.ActionBatch+10, func(a *dlq.Arrival) { a.Payload = nil })...)
		f.claim(stored[0].ID)
		job := f.startAction(dlq.ActionDead, orders)
		require.EqualValues(t, len(stored), job.Matched)
		first := f.step(job)
		require.False(t, first.Done)
		require.Positive(t, first.Changed)
		require.Equal(t, first.Changed, first.Total)
		middle := f.action(job.ID)
		require.Equal(t, first.Total, middle.Changed)
		require.Equal(t, dlq.BulkRunning, middle.State)
		require.Positive(t, middle.RecentPerSecond)
		ended := f.finish(dlq.BulkAction{ID: job.ID, Spec: middle.Spec})
		require.EqualValues(t, len(stored), ended.Changed)
		require.Zero(t, ended.Skipped)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusDead}}, PageSize: 1})
		require.EqualValues(t, len(stored), page.Total)
		require.Equal(t, dlq.ActionStep{Stopped: true}, f.step(job), "it has ended")
	},

	"a bulk action that finds few messages reads on": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.ActionBatch+10, func(a *dlq.Arrival) { a.Payload = nil })...)
		f.store(dlqtest.Arrivals(2, dlqtest.Error("timeout"))...)
		job := f.startAction(dlq.ActionDelete, dlq.Filter{Topic: "orders", ErrorContains: "timeout"})
		require.EqualValues(t, 2, job.Matched)
		require.Equal(t, dlq.ActionStep{}, f.step(job))
		require.EqualValues(t, 2, f.finish(job).Changed)
		require.Equal(t, dlq.StatusPending, f.message(stored[0].ID).Status)
	},

	"batches of one bulk action that run at once count every message once": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3*dlq.ActionBatch, func(a *dlq.Arrival) { a.Payload = nil })...)
		job := f.startAction(dlq.ActionDelete, orders)
		var group sync.WaitGroup
		changed, failures := make([]int64, 4), make([]error, 4)
		for i := range changed {
			group.Go(func() {
				for done := false; !done && failures[i] == nil; {
					step, err := f.Act(t.Context(), job, dlq.ActionBatch)
					changed[i], done, failures[i] = changed[i]+step.Changed, step.Done, err
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.EqualValues(t, len(stored), changed[0]+changed[1]+changed[2]+changed[3])
		require.EqualValues(t, len(stored), f.endAction(job.ID, dlq.BulkCompleted).Changed)
	},

	"a stopped bulk action changes nothing more": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.ActionBatch+5, func(a *dlq.Arrival) { a.Payload = nil })...)
		job := f.startAction(dlq.ActionDead, orders)
		changed := f.step(job).Changed
		stopped, err := f.StopAction(t.Context(), job.ID, "operator")
		require.NoError(t, err)
		require.Equal(t, dlq.BulkCancelling, stopped.State)
		require.Equal(t, "operator", stopped.Reason)
		require.Equal(t, dlq.ActionStep{Stopped: true}, f.step(job))
		ended := f.endAction(job.ID, dlq.BulkCancelled)
		require.Equal(t, dlq.BulkCancelled, ended.State)
		require.NotNil(t, ended.EndedAt)
		require.EqualValues(t, len(stored), ended.Matched)
		require.Equal(t, changed, ended.Changed, "what is changed stays changed")
		require.Equal(t, ended.Matched-changed, ended.Skipped)
		require.Equal(t, ended, f.action(job.ID))

		_, err = f.EndAction(t.Context(), job.ID, dlq.BulkFailed, "too late")
		require.NoError(t, err)
		_, err = f.StopAction(t.Context(), job.ID, "too late")
		require.NoError(t, err)
		require.Equal(t, ended, f.action(job.ID))
		_, err = f.EndAction(t.Context(), job.ID, dlq.BulkRunning, "")
		require.Error(t, err)
		for _, unknown := range []func() error{
			func() error { _, err := f.StopAction(t.Context(), dlq.NewID(), ""); return err },
			func() error { _, err := f.EndAction(t.Context(), dlq.NewID(), dlq.BulkFailed, ""); return err },
			func() error { _, err := f.Action(t.Context(), dlq.NewID()); return err },
		} {
			require.ErrorIs(t, unknown(), dlq.ErrNotFound)
		}
	},

	"a running bulk action says why it does not continue": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2)...)
		job := f.startAction(dlq.ActionDead, orders)
		require.NoError(t, f.ExplainAction(t.Context(), job.ID, dlq.ErrUnavailable))
		require.Equal(t, dlq.ErrUnavailable.Error(), f.action(job.ID).Reason)
		require.Equal(t, dlq.BulkRunning, f.action(job.ID).State)
		f.step(job)
		require.Empty(t, f.action(job.ID).Reason, "it continues")
		_, err := f.StopAction(t.Context(), job.ID, "operator")
		require.NoError(t, err)
		require.NoError(t, f.ExplainAction(t.Context(), job.ID, dlq.ErrUnavailable))
		require.Equal(t, "operator", f.action(job.ID).Reason)
	},

	"a smaller batch of a bulk action changes fewer messages": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		job := f.startAction(dlq.ActionDead, orders)
		for _, total := range []int64{2, 4, 5} {
			step, err := f.Act(t.Context(), job, 2)
			require.NoError(t, err)
			require.Equal(t, total, step.Total)
		}
		require.EqualValues(t, 5, f.finish(job).Changed)
	},

	"a bulk action that ends before it is counted has matched what it changed": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2)...)
		job, err := f.CreateAction(t.Context(), dlqtest.Action(dlq.ActionDead, orders))
		require.NoError(t, err)
		ended := f.finish(job)
		require.False(t, ended.Counting)
		require.Equal(t, []int64{2, 2, 0}, []int64{ended.Matched, ended.Changed, ended.Skipped})
		counted, err := f.CountAction(t.Context(), job.ID)
		require.NoError(t, err)
		require.Equal(t, ended, counted, "too late")
	},

	"bulk actions are listed, the newest first": func(t *testing.T, f fixture) {
		first := f.act(dlq.ActionDead, dlq.Filter{Topic: "a"})
		second := f.startAction(dlq.ActionRevive, dlq.Filter{Topic: "b"})
		for limit, want := range map[int][]dlq.BulkAction{0: nil, 1: {second}, 10: {second, first}} {
			list, err := f.Actions(t.Context(), "", limit)
			require.NoError(t, err)
			require.Len(t, list, len(want))
			for i := range list {
				require.Equal(t, want[i].ID, list[i].ID)
			}
		}
	},

	"a bulk action is refused while a different one of its topic runs": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(), dlqtest.Arrival(dlqtest.Topic("users")))
		running := f.startAction(dlq.ActionDead, dlq.Filter{Topic: "orders"})
		f.requireActionRefused(dlqtest.Action(dlq.ActionRevive, orders), running)
		f.requireActionRefused(dlqtest.Action(dlq.ActionDead, dlq.Filter{Topic: "orders.dlq"}), running)
		f.requireActionRefused(dlqtest.Action(dlq.ActionDead, dlq.Filter{Topic: "orders", ErrorContains: "boom"}), running)
		same := dlqtest.Action(dlq.ActionDead, orders)
		same.Spec.Reason = "for another reason"
		joined, err := f.CreateAction(t.Context(), same)
		require.NoError(t, err)
		require.Equal(t, running, joined)
		f.startAction(dlq.ActionRevive, dlq.Filter{Topic: "users"})
		f.startBulk(dlqtest.Bulk("orders", 1)) // which retries, and is no action
		f.endAction(running.ID, dlq.BulkCompleted)
		f.startAction(dlq.ActionRevive, dlq.Filter{Topic: "orders.dlq"})
	},

	"owners of running bulk actions are filtered by age": func(t *testing.T, f fixture) {
		before, err := f.Now(t.Context())
		require.NoError(t, err)
		running := f.startAction(dlq.ActionDead, dlq.Filter{Topic: "a"})
		f.act(dlq.ActionDead, dlq.Filter{Topic: "b"})
		after, err := f.Now(t.Context())
		require.NoError(t, err)
		for at, want := range map[time.Time][]dlq.Owner{before: nil, after: {running.Owner()}} {
			owners, err := f.ActionOwners(t.Context(), at)
			require.NoError(t, err)
			require.ElementsMatch(t, want, owners)
		}
	},

	"a bulk action and a bulk retry run on one topic": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3 * dlq.PageSize)...)
		retry := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(retry, 0)
		page := f.claimPage(lane)
		remove := f.startAction(dlq.ActionDelete, dlq.Filter{Topic: "orders", IDs: append(envelopeIDs(page[:10]), ids(stored[150:160])...)})
		ended := f.finish(remove)
		require.Equal(t, []int64{10, 10, 0}, []int64{ended.Matched, ended.Changed, ended.Skipped}, "not the page")
		dead := f.act(dlq.ActionDead, orders)
		require.EqualValues(t, 290, dead.Changed)
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		for i := range outcomes[:40] {
			outcomes[i] = outcome(page[i], dlq.ResultFailed)
		}
		counts := f.finalizePage(lane, outcomes)
		require.Equal(t, dlq.BulkCounts{Retried: 60}, counts, "the others stay DEAD")
		require.Empty(t, f.claimPage(lane))
		result := f.end(retry.ID, dlq.BulkCompleted)
		require.Equal(t, dlq.BulkCounts{Retried: 60, Skipped: 240}, result.Counts)
	},
}
