package kafka_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func TestEndOffsetsAreThoseOfEveryPartition(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders"), kfake.SeedTopics(1, "stock", "other"))
	produce(t, cluster.ListenAddrs(), "stock", "v", 3)
	ends := kafka.NewLookup(kafka.Options{Brokers: cluster.ListenAddrs()}, testLog(t))
	got, err := ends.EndOffsets(deadline(t), []string{"stock", "missing", "orders"})
	require.NoError(t, err)
	require.Equal(t, []dlq.EndOffset{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 1}, {Topic: "stock", Partition: 0, Offset: 3}}, got)
	got, err = ends.EndOffsets(deadline(t), []string{"missing"})
	require.NoError(t, err)
	require.Empty(t, got, "and the topic was not created")
	got, err = ends.EndOffsets(deadline(t), nil)
	require.NoError(t, err)
	require.Empty(t, got, "not those of all topics")
}

// If the end of a partition were left out, the partition's old records would count as new.
func TestEndOffsetsAreAllOrNone(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "orders", Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	_, err := kafka.NewLookup(kafka.Options{Brokers: cluster.ListenAddrs()}, testLog(t)).EndOffsets(deadline(t), []string{"orders"})
	require.ErrorIs(t, err, dlq.ErrUnavailable)
}

func TestEndOffsetsOfAnUnavailableBrokerAreUnavailable(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := kafka.NewLookup(kafka.Options{Brokers: []string{"127.0.0.1:1"}}, testLog(t)).EndOffsets(deadline(t), []string{"orders"})
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestRealEndOffsetsLeaveOutMissingTopics(t *testing.T) {
	t.Parallel()
	brokers, s := kafkatest.SharedCluster(t).Brokers(), newScope(t)
	topic := s.topic("orders")
	createTopic(t, admin(t, brokers), topic, 2)
	produce(t, brokers, topic, "v", 5)
	got, err := kafka.NewLookup(s.options(brokers), testLog(t)).EndOffsets(deadline(t), []string{s.topic("missing"), topic})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.EqualValues(t, 5, got[0].Offset+got[1].Offset)
}
