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

// oneAction is a store with one bulk change.
type oneAction struct {
	Store
	job dlq.Job
}

func (o *oneAction) Job(context.Context, dlq.ID) (dlq.Job, error) { return o.job, nil }

func noWait(o *api.Options) { o.RetryWait = -1 }

func withUI(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" }

func TestBulkChangeTellsProgressRateAndEstimatedEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	started, ended := now.Add(-100*time.Second), now.Add(-60*time.Second)
	for name, example := range map[string]struct {
		job       dlq.Job
		progress  float64
		perSecond float64
		left      time.Duration // time until the estimated end; negative if there is no estimate
	}{
		"running":           {dlq.Job{State: dlq.JobRunning, Matched: 4000, Counts: dlq.JobCounts{Changed: 1000}, RecentPerSecond: 30}, 0.25, 30, 100 * time.Second},
		"almost done":       {dlq.Job{State: dlq.JobRunning, Matched: 1_000_000, Counts: dlq.JobCounts{Changed: 999_999}, RecentPerSecond: 0.01}, 0.9999, 0.01, 100 * time.Second},
		"nothing changed":   {dlq.Job{State: dlq.JobRunning, Matched: 4000}, 0, 0, -1},
		"counting":          {dlq.Job{State: dlq.JobRunning, Counting: true, RecentPerSecond: 5}, 0, 5, -1},
		"being cancelled":   {dlq.Job{State: dlq.JobCancelling, Matched: 4, Counts: dlq.JobCounts{Changed: 1}, RecentPerSecond: 5}, 0.25, 5, -1},
		"takes centuries":   {dlq.Job{State: dlq.JobRunning, Matched: 1 << 40, RecentPerSecond: 0.1}, 0, 0.1, -1},
		"nothing to change": {dlq.Job{State: dlq.JobCompleted, EndedAt: &ended, RecentPerSecond: 7}, 1, 0, -1},
		"cancelled after 40 s": {dlq.Job{State: dlq.JobCancelled, Matched: 4000, Counts: dlq.JobCounts{Changed: 400, Skipped: 3600}, EndedAt: &ended,
			RecentPerSecond: 3}, 1, 10, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			example.job.ID, example.job.WorkflowID, example.job.Spec.Kind = dlq.NewID(), "w", dlq.KindDead
			example.job.StartedAt, example.job.UpdatedAt = started, now
			w := start(t, with(&oneAction{job: example.job}))
			before := time.Now()
			got := w.call(http.MethodGet, jobsPath+"/"+example.job.ID.String())
			took := time.Since(before)
			require.InDelta(t, example.progress, got.field(t, "progress"), 0.00001)
			require.InDelta(t, example.perSecond, got.field(t, "per_second"), 0.01)
			if example.left < 0 {
				require.Nil(t, got.field(t, "estimated_end"))
				return
			}
			end, err := time.Parse(time.RFC3339, got.field(t, "estimated_end").(string))
			require.NoError(t, err)
			require.WithinRange(t, end, before.Add(example.left-time.Second), before.Add(example.left+took+time.Second))
		})
	}
}

func TestBulkChangeShowsItsRequest(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	ended := started.Add(4 * time.Second)
	job := dlq.Job{
		ID: parseID(t, someID), WorkflowID: "change-all-" + someID, State: dlq.JobCancelled, Reason: "cancelled by an operator", UpperBound: 99,
		Matched: 10, Counts: dlq.JobCounts{Changed: 4, Skipped: 6}, StartedAt: started, UpdatedAt: ended, EndedAt: &ended,
		Spec: dlq.JobSpec{Kind: dlq.KindDelete, Reason: "it was a test", Filter: dlq.Filter{
			Topic: "orders.dlq.v1", Statuses: []dlq.Status{dlq.StatusDead}, ErrorContains: "timeout", Key: []byte{}, CreatedTo: started}},
	}
	w := start(t, with(&oneAction{job: job}), withUI)
	require.Equal(t, `{"id":"`+someID+`","kind":"delete","topic":"orders.dlq.v1","state":"CANCELLED","reason":"cancelled by an operator",`+
		`"matched":10,"skipped":6,"progress":1,"per_second":1,"estimated_end":null,"started_at":"2026-02-20T10:30:00.000+00:00",`+
		`"updated_at":"2026-02-20T10:30:04.000+00:00","ended_at":"2026-02-20T10:30:04.000+00:00","filters":{`+
		`"created_to":"2026-02-20T10:30:00.000+00:00","error":"timeout","key":"","status":["DEAD"]},"request_reason":"it was a test",`+
		`"workflow":{"workflow_id":"change-all-`+someID+`","job_id":"`+someID+`","url":"http://127.0.0.1:8233/namespaces/default/workflows/change-all-`+someID+`"},"changed":4}`,
		w.call(http.MethodGet, jobsPath+"/"+someID).body)
}
