package kafka_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/internal/kafkatest"
)

// failsOn makes the broker fail on every batch with these bytes.
func failsOn(cluster *kfake.Cluster, poison []byte) {
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError, Count: -1, When: func(request kmsg.Request) bool {
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			for _, partition := range topic.Partitions {
				if bytes.Contains(partition.Records, poison) {
					return true
				}
			}
		}
		return false
	}})
}

func TestARecordThatAlwaysFailsBlocksNoOther(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq.archive"))
	store, poison := &outbox{}, string(noise(t, 200))
	failsOn(cluster, []byte(poison))
	store.add("orders.dlq", exhausted(poison))
	for range 9 {
		store.add("orders.dlq", exhausted("sound"))
	}
	_, logs := startArchiver(t, cluster.ListenAddrs(), store)
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 1 && logs.Len() == 1 }, timeout, tick)
	require.Contains(t, logs.All()[0].ContextMap()["error"], "UNKNOWN_SERVER_ERROR")
}

func TestAClosedPartitionBlocksNoOther(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq.archive"))
	closed := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.dlq.archive", Partitions: []int32{0},
		Err: kerr.NotEnoughReplicas, Count: -1})
	store := &outbox{}
	for partition, n := range []int{3, 5} { // the first page has only messages for the closed partition
		for _, key := range keysOf(int32(partition), 2, n) {
			e := exhausted("v")
			e.Record.Key = []byte(key)
			store.add("orders.dlq", e)
		}
	}
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	runArchiver(t, o, store)
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 3 }, timeout, tick)
	closed.Remove()
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 0 }, timeout, tick)
	require.Len(t, read(t, cluster.ListenAddrs(), "orders.dlq.archive", 8), 8)
}

func TestARefusedRecordIsSentLessAndLessOften(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	require.NoError(t, cluster.CreateTopic("orders.dlq.archive", 1, map[string]string{"max.message.bytes": "1000"}))
	sent := produced(cluster, "orders.dlq.archive")
	store := &outbox{}
	store.add("orders.dlq", exhausted(string(noise(t, 2000))))
	archiver, registry, logs := newArchiver(t, quickOptions(cluster.ListenAddrs()), store)
	archiver.PublishAll(t.Context())
	archiver.PublishAll(t.Context())
	require.Equal(t, 1, logs.Len())
	require.Contains(t, logs.All()[0].ContextMap()["error"], "MESSAGE_TOO_LARGE")
	before := sent.Hits()
	for range 3 {
		archiver.PublishAll(t.Context())
	}
	require.Equal(t, before, sent.Hits(), "the topic waits")
	require.NoError(t, testutil.CollectAndCompare(registry, strings.NewReader(`
# HELP dlq_exhausted_failed_total Attempts to publish an exhausted message that failed, by dead-letter topic and category of the error. Topics beyond the first 1000 are counted as "other".
# TYPE dlq_exhausted_failed_total counter
dlq_exhausted_failed_total{category="bad_data",topic="orders.dlq"} 2
`), "dlq_exhausted_failed_total"))
}

func TestAnUnreadableRecordBlocksNoOther(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq.archive")).ListenAddrs()
	damaged, store := exhausted("v"), &outbox{}
	damaged.Unreadable = errors.New("its headers are damaged")
	store.add("orders.dlq", damaged, exhausted("sound"), exhausted("sound"))
	archiver, _, logs := newArchiver(t, quickOptions(brokers), store)
	archiver.PublishAll(t.Context())
	require.Contains(t, logs.All()[0].ContextMap()["error"], "message "+damaged.ID.String()+": its headers are damaged")
	require.Equal(t, 1, store.left("orders.dlq"))
	read(t, brokers, "orders.dlq.archive", 2)
}

func TestAMissingArchiveTopicCostsOneLook(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	sent, looked := produced(cluster, ""), cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Count: -1, Observe: true})
	store := &outbox{}
	for range 5 {
		store.add("orders.dlq", exhausted("v"))
		store.add("pay.dlq", exhausted("v"))
	}
	archiver, _, logs := newArchiver(t, quickOptions(cluster.ListenAddrs()), store)
	archiver.PublishAll(t.Context())
	archiver.PublishAll(t.Context())
	require.Equal(t, 2, logs.Len(), "once for each topic")
	require.Contains(t, logs.All()[0].ContextMap()["error"], "UNKNOWN_TOPIC_OR_PARTITION")
	require.LessOrEqual(t, looked.Hits(), 2)
	require.Zero(t, sent.Hits())
	require.Zero(t, store.reads)

	require.NoError(t, cluster.CreateTopic("pay.dlq.archive", 1, nil))
	require.Eventually(t, func() bool { archiver.PublishAll(t.Context()); return store.left("pay.dlq") == 0 }, timeout, tick)
	require.Equal(t, 5, store.left("orders.dlq"))
}
