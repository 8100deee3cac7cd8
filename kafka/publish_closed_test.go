package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// partitionOf returns the partition to which Kafka's own client writes a record with this key.
func partitionOf(key string, partitions int) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(key)}, partitions))
}

// keysOf returns n keys of one partition.
func keysOf(partition int32, partitions, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key-", i); partitionOf(key, partitions) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

// pageOf has n messages for each partition of the topic, round robin.
func pageOf(topic string, partitions, n int) []dlq.Envelope {
	var page []dlq.Envelope
	keys := make([][]string, partitions)
	for partition := range keys {
		keys[partition] = keysOf(int32(partition), partitions, n)
	}
	for i := range n {
		for partition := range keys {
			page = append(page, envelope(topic, keys[partition][i], "v"))
		}
	}
	return page
}

func requireClosed(t testing.TB, delivery dlq.Delivery, target dlq.Target) {
	t.Helper()
	require.ErrorIs(t, delivery.Err, dlq.ErrTargetClosed)
	require.ErrorContains(t, delivery.Err, target.String())
	require.Equal(t, target, delivery.Target)
}

// produced counts the produce requests with records for a partition.
func produced(cluster *kfake.Cluster, topic string, partitions ...int32) *kfake.FaultHandle {
	return cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: partitions, Count: -1, Observe: true})
}

// largeTopic takes records that do not fit into a batch.
func largeTopic(t testing.TB, cluster *kfake.Cluster, topic string, partitions int32) {
	t.Helper()
	createTopic(t, admin(t, cluster.ListenAddrs()), topic, partitions, "max.message.bytes", "10000000")
}

func TestPublishSendsNothingToAClosedPartition(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	largeTopic(t, cluster, "orders", 3)
	toOne := produced(cluster, "orders", 1)
	p := newPublisher(t, quickOptions(cluster.ListenAddrs()))
	page := pageOf("orders", 3, 20)
	page[3].Record.Value, page[4].Record.Value = noise(t, tooLargeForABatch), noise(t, tooLargeForABatch) // they are sent unbatched
	closed := dlq.Target{Topic: "orders", Partition: 1}
	for _, order := range []dlq.Order{dlq.OrderKey, dlq.OrderNone} {
		for i, delivery := range p.Publish(context.Background(), page, order, []dlq.Target{closed, {Topic: "pay", Partition: 0}}) {
			require.Equal(t, 3, delivery.Partitions)
			if i%3 == 1 {
				requireClosed(t, delivery, closed)
				continue
			}
			require.NoError(t, delivery.Err)
			require.Equal(t, dlq.Target{Topic: "orders", Partition: int32(i % 3)}, delivery.Target)
		}
	}
	require.Zero(t, toOne.Hits())
	for _, delivery := range p.Publish(context.Background(), page, dlq.OrderKey, nil) {
		require.NoError(t, delivery.Err, "closed targets apply to one call only")
	}
	require.Len(t, read(t, cluster.ListenAddrs(), "orders", 2*40+60), 2*40+60)
}

func TestPublishSendsRecordsWithoutAKeyToAnOpenPartition(t *testing.T) {
	t.Parallel()
	closed := []dlq.Target{
		{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 2}, {Topic: "orders", Partition: 3},
		{Topic: "orders", Partition: 17}, {Topic: "pay", Partition: 1},
	}
	for name, test := range map[string]struct{ republishKey, key string }{
		"no key": {"", ""}, "a new key for every record": {kafka.RepublishUUIDKey, "k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.FakeCluster(t)
			largeTopic(t, cluster, "orders", 4)
			o := quickOptions(cluster.ListenAddrs())
			o.RepublishKey = test.republishKey
			p := newPublisher(t, o)
			var page []dlq.Envelope
			for i := range 40 {
				page = append(page, envelope("orders", test.key, fmt.Sprint(i)))
			}
			page[20].Record.Value = noise(t, tooLargeForABatch)
			for _, delivery := range p.Publish(context.Background(), page, dlq.OrderKey, closed) {
				require.NoError(t, delivery.Err)
				require.NotNil(t, delivery.Acknowledgement)
				delivery.Acknowledgement = nil
				require.Equal(t, dlq.Delivery{Target: dlq.Target{Topic: "orders", Partition: 1}, Partitions: 4}, delivery)
			}
			for _, r := range read(t, cluster.ListenAddrs(), "orders", 40) {
				require.EqualValues(t, 1, r.Partition)
				if test.republishKey == "" {
					require.Nil(t, r.Key)
					continue
				}
				_, err := uuid.ParseBytes(r.Key)
				require.NoError(t, err)
				require.EqualValues(t, 1, partitionOf(string(r.Key), 4), "whoever computes the partition from the key finds it there")
			}

			all := append([]dlq.Target{{Topic: "orders", Partition: 1}}, closed...)
			for _, delivery := range p.Publish(context.Background(), page, dlq.OrderKey, all) {
				requireClosed(t, delivery, delivery.Target)
				require.Contains(t, all, delivery.Target)
				require.Equal(t, 4, delivery.Partitions)
			}
		})
	}
}

func TestPublishDoesNotAskAboutAClosedTopic(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders", "pay"))
	toOrders := produced(cluster, "orders")
	closed := dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}
	deliveries := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), []dlq.Envelope{
		envelope("orders", "k", "1"), envelope("orders", "", "2"), envelope("orders", "k", strings.Repeat("x", tooLargeForABatch)),
		envelope("pay", "k", "3"),
	}, dlq.OrderKey, []dlq.Target{closed, {Topic: "orders", Partition: 0}})
	for _, delivery := range deliveries[:3] {
		requireClosed(t, delivery, closed)
	}
	require.NoError(t, deliveries[3].Err)
	require.Zero(t, toOrders.Hits())
}

func TestPublishNamesThePartitionThatRefused(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	largeTopic(t, cluster, "orders", 3)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Partitions: []int32{2}, Err: kerr.UnknownServerError, Count: -1})
	p := newPublisher(t, quickOptions(cluster.ListenAddrs()))
	page := pageOf("orders", 3, 2)
	page[2].Record.Value = noise(t, tooLargeForABatch)
	for i, delivery := range p.Publish(context.Background(), page, dlq.OrderKey, nil) {
		require.Equal(t, dlq.Target{Topic: "orders", Partition: int32(i % 3)}, delivery.Target)
		require.Equal(t, 3, delivery.Partitions)
		if i%3 == 2 {
			require.Equal(t, dlq.CategoryTransient, deliveryError(t, delivery.Err).Category)
			require.ErrorIs(t, delivery.Err, kerr.UnknownServerError)
			continue
		}
		require.NoError(t, delivery.Err)
	}
}

func TestPublishNamesNoPartitionOfATopicThatItKnowsNothingOf(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(3, "secret"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "secret", Err: kerr.TopicAuthorizationFailed, Count: -1})
	deliveries := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), []dlq.Envelope{
		envelope("nowhere", "k", "1"), envelope("nowhere", "", "2"), envelope("secret", "k", "3"),
		envelope("nowhere", "large", strings.Repeat("x", tooLargeForABatch)),
	}, dlq.OrderKey, []dlq.Target{{Topic: "nowhere", Partition: 0}})
	for i, topic := range []string{"nowhere", "nowhere", "secret", "nowhere"} {
		require.True(t, deliveryError(t, deliveries[i].Err).TargetOnly)
		require.Equal(t, dlq.Target{Topic: topic, Partition: dlq.AnyPartition}, deliveries[i].Target)
		require.Zero(t, deliveries[i].Partitions)
	}
}

// A large record divides the page: the later messages are sent once the large record is acknowledged.
func TestPublishBlocksTheKeysOfARefusedPartitionAndRefusesThoseOfAClosedOne(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	largeTopic(t, cluster, "orders", 3)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	open, refused, closed := keysOf(0, 3, 1)[0], keysOf(1, 3, 1)[0], keysOf(2, 3, 1)[0]
	deliveries := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), []dlq.Envelope{
		envelope("orders", refused, "1"), envelope("orders", closed, "2"),
		envelope("orders", open, strings.Repeat("x", tooLargeForABatch)),
		envelope("orders", refused, "3"), envelope("orders", closed, "4"), envelope("orders", open, "5"),
	}, dlq.OrderKey, []dlq.Target{{Topic: "orders", Partition: 2}})
	require.ErrorIs(t, deliveryError(t, deliveries[0].Err), kerr.UnknownServerError)
	requireBlocked(t, deliveries[3].Err)
	require.Equal(t, dlq.Target{Topic: "orders", Partition: 1}, deliveries[3].Target)
	for _, i := range []int{1, 4} {
		requireClosed(t, deliveries[i], dlq.Target{Topic: "orders", Partition: 2})
	}
	for _, i := range []int{2, 5} {
		require.NoError(t, deliveries[i].Err)
	}
	for _, delivery := range deliveries {
		require.Equal(t, 3, delivery.Partitions)
	}
}

func TestPublishForgetsClosedTargetsAfterTheCall(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(4, "orders")).ListenAddrs()
	p := newPublisher(t, quickOptions(brokers))
	const pages = 20
	var calls sync.WaitGroup
	for partition := range int32(4) {
		calls.Go(func() {
			closed := dlq.Target{Topic: "orders", Partition: partition}
			for range pages {
				for i, delivery := range p.Publish(context.Background(), pageOf("orders", 4, 25), dlq.OrderKey, []dlq.Target{closed}) {
					if int32(i%4) == partition {
						require.ErrorIs(t, delivery.Err, dlq.ErrTargetClosed)
					} else {
						require.NoError(t, delivery.Err)
					}
				}
			}
		})
	}
	calls.Wait()
	require.Len(t, read(t, brokers, "orders", 4*pages*75), 4*pages*75, "each once")
}
