package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func class(name string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.ErrorClass = name }
}

var previews = map[string]func(*testing.T, fixture){
	"a preview counts the messages that would be sent and those that would not": func(t *testing.T, f fixture) {
		stored := f.store(
			dlqtest.Arrival(class("Timeout")), dlqtest.Arrival(class("Timeout")), dlqtest.Arrival(),
			dlqtest.Arrival(class("Refused"), dlqtest.FromTopic("orders.dlq", "other")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders.dlq")), // has no origin
			dlqtest.Arrival(dlqtest.Retries(3, 3)), dlqtest.Arrival(class("Timeout")), dlqtest.Arrival(), dlqtest.Arrival(),
			dlqtest.Arrival(dlqtest.Topic("elsewhere")))
		owner := f.claim(stored[6].ID)
		f.retry(stored[7].ID, dlq.ResultDelivered)
		f.retry(stored[8].ID, dlq.ResultDelivered)

		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}})
		require.NoError(t, err)
		require.EqualValues(t, 4, preview.Matched)
		require.EqualValues(t, 5, preview.Skipped)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 5, dlq.StatusDead: 1, dlq.StatusRetrying: 1, dlq.StatusResolved: 2}, preview.ByStatus)
		require.Equal(t, []dlq.PreviewCount{{Name: "Timeout", Count: 2}, {Name: "(none)", Count: 1}, {Name: "Refused", Count: 1}}, preview.ByErrorClass)
		require.Equal(t, []dlq.PreviewCount{{Name: "orders", Count: 3}, {Name: "other", Count: 1}}, preview.ByTarget)
		require.Equal(t, dlq.PreviewCount{Name: dlq.SkipResolved, Count: 2}, preview.SkipReasons[0])
		require.ElementsMatch(t, []dlq.PreviewCount{{Name: dlq.SkipDead, Count: 1}, {Name: dlq.SkipRetrying, Count: 1}, {Name: dlq.SkipNoOrigin, Count: 1}},
			preview.SkipReasons[1:])
		require.Equal(t, stored[:4], preview.Sample)
		require.Equal(t, owner, f.message(stored[6].ID).Owner)
		bulks := f.jobs(dlq.JobQuery{PageSize: 10})
		require.Empty(t, bulks, "nothing changed")

		preview, err = f.PreviewJob(t.Context(), dlq.JobSpec{
			Kind:   dlq.KindRetry,
			Filter: dlq.Filter{Topic: "orders.dlq", Statuses: []dlq.Status{dlq.StatusDead, dlq.StatusResolved}}})
		require.NoError(t, err)
		require.Zero(t, preview.Matched)
		require.EqualValues(t, 3, preview.Skipped)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusDead: 1, dlq.StatusResolved: 2}, preview.ByStatus)
		require.Empty(t, preview.Sample)
		require.Empty(t, preview.ByErrorClass)
		require.Empty(t, preview.ByTarget)

		preview, err = f.PreviewJob(t.Context(), dlq.JobSpec{
			Kind:   dlq.KindRetry,
			Filter: dlq.Filter{Topic: "orders.dlq", IDs: append(ids(stored), stored[0].ID, dlq.NewID())}})
		require.NoError(t, err)
		require.EqualValues(t, 4, preview.Matched)
		require.EqualValues(t, 5, preview.Skipped)
	},

	"suspicious messages are sent only on request": func(t *testing.T, f fixture) {
		suspicious := func(a *dlq.Arrival) { a.Suspicion = "retry_topic-attempts has 0 bytes" }
		stored := f.store(dlqtest.Arrival(), dlqtest.Arrival(suspicious), dlqtest.Arrival())
		require.True(t, f.message(stored[1].ID).Suspicious)
		require.Equal(t, "retry_topic-attempts has 0 bytes", f.detail(stored[1].ID).Failure.Suspicion)
		for include, want := range map[bool][]dlq.Message{false: {stored[0], stored[2]}, true: stored} {
			spec := dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}, IncludeSuspicious: include}
			preview, err := f.PreviewJob(t.Context(), spec)
			require.NoError(t, err)
			require.Equal(t, want, preview.Sample)
			if !include {
				require.Equal(t, []dlq.PreviewCount{{Name: dlq.SkipSuspicious, Count: 1}}, preview.SkipReasons)
			}
		}

		job := f.startBulk(dlq.Job{ID: dlq.NewID(), WorkflowID: "w", Lanes: 1, Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}}})
		require.EqualValues(t, 2, f.countBulk(job.ID).Matched)
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID}, f.drain(f.openLane(dlq.Lane{Job: job.ID})))
		f.end(job.ID, dlq.JobCompleted)
		job = f.startBulk(dlq.Job{ID: dlq.NewID(), WorkflowID: "w", Lanes: 1,
			Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}, IncludeSuspicious: true}})
		require.EqualValues(t, 1, f.countBulk(job.ID).Matched)
		require.Equal(t, []dlq.ID{stored[1].ID}, f.drain(f.openLane(dlq.Lane{Job: job.ID})))
	},

	"a preview is bounded": func(t *testing.T, f fixture) {
		var arrivals []dlq.Arrival
		for i := range dlq.PreviewRows + 5 {
			arrivals = append(arrivals, dlqtest.Arrivals(1+i/20, class(fmt.Sprintf("class-%02d", i)),
				dlqtest.FromTopic("orders.dlq", fmt.Sprintf("target-%02d", i)))...)
		}
		stored := f.store(arrivals...)
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}})
		require.NoError(t, err)
		require.EqualValues(t, len(stored), preview.Matched)
		require.Len(t, preview.ByErrorClass, dlq.PreviewRows)
		require.Len(t, preview.ByTarget, dlq.PreviewRows)
		require.Equal(t, dlq.PreviewCount{Name: "class-20", Count: 2}, preview.ByErrorClass[0], "the most frequent first")
		require.Equal(t, dlq.PreviewCount{Name: "target-00", Count: 1}, preview.ByTarget[5], "then by name")
		require.Equal(t, stored[:dlq.PreviewSample], preview.Sample)
	},

	"a preview without messages is empty": func(t *testing.T, f fixture) {
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "nothing"}})
		require.NoError(t, err)
		require.Equal(t, dlq.JobPreview{Scope: preview.Scope, ByStatus: map[dlq.Status]int64{}, Sample: preview.Sample}, preview)
		require.Empty(t, preview.Sample)
	},
}
