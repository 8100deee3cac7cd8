package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func (o *oneBulk) JobSamples(context.Context, dlq.ID) ([]dlq.JobSample, error) {
	return []dlq.JobSample{{At: o.bulk.StartedAt.Add(4 * time.Second), Counts: dlq.JobCounts{Retried: 98, Failed: 2}}}, nil
}

func TestTheSeriesOfAJobHasItsCountsAndTheRateBetween(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	w := start(t, with(&oneBulk{bulk: dlq.Job{ID: dlq.NewID(), State: dlq.JobCancelled, StartedAt: started, EndedAt: new(started.Add(10 * time.Second)),
		Counts: dlq.JobCounts{Retried: 99, Failed: 2, Dead: 1, Skipped: 7}}}))
	got := w.call(http.MethodGet, jobsPath+"/"+dlq.NewID().String()+"/series")
	require.JSONEq(t, `{"points":[
		{"at":"2026-02-20T10:30:00.000+00:00","per_second":0,"retried":0,"failed":0,"dead":0,"changed":0,"skipped":0},
		{"at":"2026-02-20T10:30:04.000+00:00","per_second":25,"retried":98,"failed":2,"dead":0,"changed":0,"skipped":0},
		{"at":"2026-02-20T10:30:10.000+00:00","per_second":0.333,"retried":99,"failed":2,"dead":1,"changed":0,"skipped":7}]}`, got.body)
}

func TestTheSeriesOfAJobComesFromItsSamples(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	path := w.json(http.MethodPost, jobsPath, wholeTopic).header.Get("Location") + "/series"
	require.NoError(t, w.store.SampleJobs(t.Context()))
	require.NotEmpty(t, w.call(http.MethodGet, path).field(t, "points"))
	requireError(t, w.call(http.MethodGet, path+"?step=hour"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	requireError(t, w.call(http.MethodGet, jobsPath+"/"+dlq.NewID().String()+"/series"), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	requireError(t, w.call(http.MethodGet, jobsPath+"/7/series"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
}
