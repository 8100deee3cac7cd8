package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func job(topic string, state dlq.JobState) dlq.Job {
	return dlq.Job{Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic}}, State: state, Matched: 100, CameBack: 3, RecentPerSecond: 12.5,
		Counts: dlq.JobCounts{Retried: 40, Failed: 5, Dead: 4, Skipped: 1}}
}

func TestUnfinishedBulkRetriesAreShownByTopicAndReadSeldom(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(telemetry.NewBulkCollector(func(context.Context) ([]dlq.Job, error) {
		reads.Add(1)
		return []dlq.Job{
			job("orders.dlq", dlq.JobRunning), job("pay.dlq", dlq.JobPaused), job("done.dlq", dlq.JobCompleted),
			job("twice.dlq", dlq.JobRunning), job("twice.dlq", dlq.JobPaused),
		}, nil
	}, zap.NewNop())))
	for range 10 {
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP dlq_bulk_retry_came_back Messages that the topic's unfinished bulk retry sent and that failed again. Every replica has the same value.
# TYPE dlq_bulk_retry_came_back gauge
dlq_bulk_retry_came_back{topic="orders.dlq"} 3
dlq_bulk_retry_came_back{topic="pay.dlq"} 3
dlq_bulk_retry_came_back{topic="twice.dlq"} 6
# HELP dlq_bulk_retry_done Messages that the topic's unfinished bulk retry has finished: sent back, failed, dead or skipped. Every replica has the same value.
# TYPE dlq_bulk_retry_done gauge
dlq_bulk_retry_done{topic="orders.dlq"} 50
dlq_bulk_retry_done{topic="pay.dlq"} 50
dlq_bulk_retry_done{topic="twice.dlq"} 100
# HELP dlq_bulk_retry_matched Messages that the topic's unfinished bulk retry found retryable when it started. Every replica has the same value.
# TYPE dlq_bulk_retry_matched gauge
dlq_bulk_retry_matched{topic="orders.dlq"} 100
dlq_bulk_retry_matched{topic="pay.dlq"} 100
dlq_bulk_retry_matched{topic="twice.dlq"} 200
# HELP dlq_bulk_retry_paused 1 while the topic's unfinished bulk retry is paused, else 0. Every replica has the same value.
# TYPE dlq_bulk_retry_paused gauge
dlq_bulk_retry_paused{topic="orders.dlq"} 0
dlq_bulk_retry_paused{topic="pay.dlq"} 1
dlq_bulk_retry_paused{topic="twice.dlq"} 1
# HELP dlq_bulk_retry_per_second Messages per second that the topic's unfinished bulk retry has finished recently. Every replica has the same value.
# TYPE dlq_bulk_retry_per_second gauge
dlq_bulk_retry_per_second{topic="orders.dlq"} 12.5
dlq_bulk_retry_per_second{topic="pay.dlq"} 12.5
dlq_bulk_retry_per_second{topic="twice.dlq"} 25
`)))
	}
	require.LessOrEqual(t, reads.Load(), int32(2), "10 scrapes in a moment")
}

func TestBulkRetriesOfTopicsBeyondAThousandShareALabel(t *testing.T) {
	t.Parallel()
	collector := telemetry.NewBulkCollector(func(context.Context) ([]dlq.Job, error) {
		var jobs []dlq.Job
		for i := range 1200 {
			jobs = append(jobs, job(fmt.Sprintf("t%d.dlq", i), dlq.JobRunning))
		}
		return append(jobs, job("t7.dlq", dlq.JobPaused)), nil
	}, zap.NewNop())
	require.Equal(t, 1001, testutil.CollectAndCount(collector, "dlq_bulk_retry_matched"))
	require.Equal(t, 5005, testutil.CollectAndCount(collector))
}

func TestBulkRetriesAreAbsentWhileNothingIsKnown(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for name, read := range map[string]func(context.Context) ([]dlq.Job, error){
		"refused": func(context.Context) ([]dlq.Job, error) { return nil, errors.New("connection refused") },
		"silent":  func(context.Context) ([]dlq.Job, error) { <-never; return nil, nil },
	} {
		t.Log(name)
		requireNothing(t, telemetry.NewBulkCollector(read, zap.NewNop()))
	}
}
