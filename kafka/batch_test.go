package kafka

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

func idleIngest(t *testing.T) *Ingest {
	t.Helper()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	ingest, err := NewIngest(Options{Brokers: []string{"127.0.0.1:1"}, ConsumerGroup: "group"}, nil, topics, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return ingest
}

func TestBatchIsBoundedByItsHeadersToo(t *testing.T) {
	t.Parallel()
	in := idleIngest(t)
	in.assignments.set([]*assignment{{topicPartition: topicPartition{"orders.dlq", 0}, topicID: [16]byte{1}}})
	records := make([]*kgo.Record, 10)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders.dlq", Offset: int64(i), Value: []byte("small"),
			Headers: []kgo.RecordHeader{{Key: "stack", Value: make([]byte, 1<<20)}}}
	}
	fetches := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "orders.dlq", TopicID: [16]byte{1},
		Partitions: []kgo.FetchPartition{{Partition: 0, Records: records}}}}}}
	var sizes []int
	for _, batch := range in.batches(t.Context(), fetches) {
		sizes = append(sizes, len(batch))
	}
	require.Equal(t, []int{3, 3, 3, 1}, sizes)
}

func TestStatusIsEmptyUnlessTheIngestRuns(t *testing.T) {
	t.Parallel()
	in := idleIngest(t)
	late := func() {
		in.status.setError(brokersFail, errors.New("unavailable"))
		groupErrors{in.status, "dlq-manager"}.OnGroupManageError(errors.New("left"))
		in.status.setError(storeFails, errors.New("unavailable"))
		in.status.setPartitions(3)
	}
	require.Zero(t, in.Status())
	late()
	require.Zero(t, in.Status(), "before the start")
	in.status.start()
	require.Equal(t, IngestStatus{Running: true}, in.Status())
	late()
	require.Equal(t, "store", in.Status().Waiting)
	in.status.stop()
	require.Zero(t, in.Status())
	late()
	require.Zero(t, in.Status(), "after the end")
}
