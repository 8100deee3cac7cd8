package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// oneBulk is a store with one bulk retry.
type oneBulk struct {
	Store
	bulk dlq.Job
}

func (o *oneBulk) Job(context.Context, dlq.ID) (dlq.Job, error) { return o.bulk, nil }

func TestBulkRetryTellsProgressRatesAndEstimatedEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ended := now.Add(-60 * time.Second)
	started := now.Add(-100 * time.Second)
	slow := dlq.JobSpec{Kind: dlq.KindRetry, RateLimit: 5}
	for name, example := range map[string]struct {
		bulk      dlq.Job
		progress  float64
		perSecond float64
		average   float64
		left      time.Duration // time until the estimated end; negative if there is no estimate
	}{
		"running, 1 of 4 in 100 s": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started, RecentPerSecond: 30,
			Counts: dlq.JobCounts{Retried: 900, Failed: 50, Dead: 50}}, 0.25, 30, 10, 100 * time.Second},
		"limited to less than it just did": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started, RecentPerSecond: 30, Spec: slow,
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 30, 10, 600 * time.Second},
		"slower than its limit": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started, RecentPerSecond: 3, Spec: slow,
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 3, 10, 1000 * time.Second},
		"skipped messages are done, but were not sent": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started, RecentPerSecond: 10,
			Counts: dlq.JobCounts{Retried: 1000, Skipped: 2000}}, 0.75, 10, 10, 100 * time.Second},
		"in a ramp, before two of its waits": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started,
			Spec:   dlq.JobSpec{Kind: dlq.KindRetry, RateLimit: 100, Ramp: &dlq.Ramp{Steps: []int{1000, 1000}, Wait: 10 * time.Minute}},
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 0, 10, 20*time.Minute + 30*time.Second},
		"in a ramp whose rate is unknown": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started,
			Spec:   dlq.JobSpec{Kind: dlq.KindRetry, Ramp: &dlq.Ramp{Steps: []int{1000, 1000}, Wait: 10 * time.Minute}},
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 0, 10, -1},
		"paused": {dlq.Job{State: dlq.JobPaused, Matched: 4000, StartedAt: started, RecentPerSecond: 8,
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 8, 10, -1},
		"nothing sent for ten seconds": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started,
			Counts: dlq.JobCounts{Retried: 1000}}, 0.25, 0, 10, -1},
		"nothing sent yet": {dlq.Job{State: dlq.JobRunning, Matched: 4000, StartedAt: started}, 0, 0, 0, -1},
		"counting":         {dlq.Job{State: dlq.JobRunning, Counting: true, StartedAt: started, RecentPerSecond: 5}, 0, 5, 0, -1},
		"nothing matched":  {dlq.Job{State: dlq.JobRunning, StartedAt: started}, 0, 0, 0, -1},
		"started in our future": {dlq.Job{State: dlq.JobRunning, Matched: 2, StartedAt: now.Add(time.Hour),
			Counts: dlq.JobCounts{Retried: 1}}, 0.5, 0, 0, -1},
		"would take for ever": {dlq.Job{State: dlq.JobRunning, Matched: 1 << 40, StartedAt: started, RecentPerSecond: 0.1,
			Counts: dlq.JobCounts{Retried: 1000}}, 0, 0.1, 10, -1},
		"cancelled after 40 s": {dlq.Job{State: dlq.JobCancelled, Matched: 4000, StartedAt: started, EndedAt: &ended, RecentPerSecond: 3,
			Counts: dlq.JobCounts{Retried: 400, Skipped: 3600}}, 1, 10, 10, -1},
		"nothing matched, completed": {dlq.Job{State: dlq.JobCompleted, StartedAt: started, EndedAt: &ended}, 1, 0, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := &oneBulk{bulk: example.bulk}
			w := start(t, with(one))
			before := time.Now()
			one.bulk.StartedAt = example.bulk.StartedAt.Add(before.Sub(now))
			if example.bulk.EndedAt != nil {
				one.bulk.EndedAt = new(example.bulk.EndedAt.Add(before.Sub(now)))
			}
			one.bulk.ID, one.bulk.Spec.Kind, one.bulk.WorkflowID, one.bulk.UpdatedAt = dlq.NewID(), dlq.KindRetry, "retry-all", before
			got := w.call(http.MethodGet, jobsPath+"/"+one.bulk.ID.String())
			took := time.Since(before)
			require.InDelta(t, example.progress, got.field(t, "progress"), 0.0001)
			require.InDelta(t, example.perSecond, got.field(t, "per_second"), 0.01)
			require.InDelta(t, example.average, got.field(t, "average_per_second"), 0.001)
			if example.left < 0 {
				require.Nil(t, got.field(t, "estimated_end"))
				return
			}
			end, err := time.Parse(time.RFC3339, got.field(t, "estimated_end").(string))
			require.NoError(t, err)
			require.WithinRange(t, end, before.Add(example.left-time.Second), before.Add(example.left+took))
		})
	}
}

func TestBulkRetryShowsItsRequest(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	ended := started.Add(4 * time.Second)
	id := parseID(t, someID)
	bulk := dlq.Job{
		ID: id, WorkflowID: "retry-all-" + someID, State: dlq.JobCancelled, Reason: "cancelled by an operator", Lanes: 4, UpperBound: 99,
		Matched: 10, Counts: dlq.JobCounts{Retried: 2, Failed: 1, Dead: 1, Skipped: 6}, CameBack: 1,
		StartedAt: started, UpdatedAt: ended, EndedAt: &ended,
		Spec: dlq.JobSpec{
			Kind:      dlq.KindRetry,
			RateLimit: 500, Order: dlq.OrderNone, Reason: "the payment service is back",
			Ramp: &dlq.Ramp{Steps: []int{1, 10}, Wait: 5 * time.Minute, MaxCameBack: 0.25},
			Filter: dlq.Filter{
				Topic: "orders.dlq.v1", Statuses: []dlq.Status{dlq.StatusPending}, ErrorContains: "timeout", Key: []byte{}, CreatedFrom: started, IDs: []dlq.ID{id},
			},
		},
	}
	w := start(t, with(&oneBulk{bulk: bulk}), func(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" })
	require.Equal(t, `{"id":"`+someID+`","kind":"retry","topic":"orders.dlq.v1","state":"CANCELLED","reason":"cancelled by an operator",`+
		`"matched":10,"skipped":6,"progress":1,"per_second":1,`+
		`"estimated_end":null,"started_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:04.000+00:00",`+
		`"ended_at":"2026-02-20T10:30:04.000+00:00","filters":{`+
		`"created_from":"2026-02-20T10:30:00.000+00:00","error":"timeout","ids":["`+someID+`"],"key":"","status":["PENDING"]},`+
		`"request_reason":"the payment service is back",`+
		`"workflow":{"workflow_id":"retry-all-`+someID+`","job_id":"`+someID+`","url":"http://127.0.0.1:8233/namespaces/default/workflows/retry-all-`+someID+`"},`+
		`"retried":2,"failed":1,"dead":1,"waiting":0,"came_back":1,"average_per_second":1,"rate_limit":500,"order":"none",`+
		`"ramp":{"steps":[1,10],"wait":"5m","max_came_back":0.25}}`,
		w.call(http.MethodGet, jobsPath+"/"+someID).body)
}
