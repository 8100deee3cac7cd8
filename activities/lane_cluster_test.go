package activities_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// Only the last of the three partitions has a replica on broker 3. Without that replica it accepts no messages.
func TestAPartitionBelowItsInSyncMinimumDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	const messages = 5_000
	cluster := kafkatest.RealClusterOf(t, 3)
	cluster.CreateTopic(t, "orders", [][]int32{{1, 2}, {2, 1}, {1, 3}}, map[string]string{"min.insync.replicas": "2"})
	publisher, err := kafka.NewPublisher(kafka.Options{Brokers: cluster.Brokers(), DeliveryTimeout: 2 * time.Second}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(publisher.Close)
	arrivals := make([]dlq.Arrival, messages)
	for i := range arrivals {
		arrivals[i] = message("orders", fmt.Sprint("key-", i%500), fmt.Sprint(i))
	}
	l := newLaneTest(t, dlq.OrderKey, nil, arrivals...)
	first := []dlq.Envelope{{ID: dlq.NewID(), OriginalTopic: "orders", Record: dlq.Record{Key: []byte("first")}}}
	require.Eventually(t, func() bool { return publisher.Publish(t.Context(), first, dlq.OrderKey, nil)[0].Err == nil },
		time.Minute, 50*time.Millisecond, "brokers that have just started are slow")
	cluster.Broker(3).Kill()
	cluster.AwaitInSync(t, "orders", 2, 1)

	// runUntil runs the lane like its workflow.
	runUntil := func(end activities.LaneEnd) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			result := l.runTo(t, publisher)
			if result.End == end {
				return
			}
			require.True(t, time.Now().Before(deadline), result)
			if result.End == activities.LaneWaiting {
				<-time.After(result.For)
			}
		}
	}
	runUntil(activities.LaneWaiting)
	bulk, err := l.store.Job(t.Context(), l.lane.Job)
	require.NoError(t, err)
	require.Greater(t, bulk.Counts.Retried, int64(messages/2), "the other two partitions flow")
	require.Equal(t, dlq.JobCounts{Retried: messages - bulk.Waiting}, bulk.Counts, "waiting messages are uncounted")
	require.Contains(t, bulk.Reason, "NOT_ENOUGH_REPLICAS")

	cluster.Broker(3).Start(t)
	runUntil(activities.LaneDone)
	require.Equal(t, dlq.JobCounts{Retried: messages}, l.counts(t))
}
