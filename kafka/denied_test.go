package kafka_test

import (
	"fmt"
	"strings"
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

// deny makes the cluster refuse requests for a topic, as for a user who lacks the right.
func deny(cluster *kfake.Cluster, topic string, keys ...kmsg.Key) *kfake.FaultHandle {
	return cluster.Fault(kfake.Fault{Keys: keys, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

func TestADeniedArchiveTopicHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "denied.dlq.archive", "orders.dlq.archive"))
	denied := deny(cluster, "denied.dlq.archive", kmsg.Metadata)
	store := &outbox{}
	store.add("denied.dlq", exhausted("v"))
	store.add("orders.dlq", exhausted("v"))
	_, logs := startArchiver(t, cluster.ListenAddrs(), store)
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 0 }, timeout, tick)
	require.Eventually(t, func() bool { return logs.Len() == 1 }, timeout, tick)
	require.Contains(t, logs.All()[0].ContextMap()["error"], "grant WRITE on the topic denied.dlq.archive")
	denied.Remove()
	require.Eventually(t, func() bool { return store.left("denied.dlq") == 0 }, timeout, tick)
}

func TestEndOffsetsLeaveOutDeniedTopics(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "denied", "orders"))
	deny(cluster, "denied", kmsg.Metadata)
	ends := kafka.NewLookup(kafka.Options{Brokers: cluster.ListenAddrs()}, testLog(t))
	got, err := ends.EndOffsets(deadline(t), []string{"denied", "orders"})
	require.NoError(t, err)
	require.Equal(t, []dlq.EndOffset{{Topic: "orders", Partition: 0}}, got)
	got, err = ends.EndOffsets(deadline(t), []string{"denied"})
	require.NoError(t, err)
	require.Empty(t, got, "not those of all topics")
}

func TestADeniedTopicHidesTheLagOfNoOther(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "denied.dlq", "orders.dlq", "secret.dlq"))
	for topic, n := range map[string]int{"denied.dlq": 1, "orders.dlq": 2, "secret.dlq": 4} {
		produce(t, cluster.ListenAddrs(), topic, "v", n)
	}
	store := newMemory()
	store.refuseWith(func([]dlq.Arrival) error { return errStoreAway })
	o := quickOptions(cluster.ListenAddrs())
	o.StopGrace = 50 * time.Millisecond
	ingest := startIngest(t, o, store)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_lag") == 7 }, timeout, tick)
	deny(cluster, "denied.dlq", kmsg.Metadata)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "secret.dlq", Err: kerr.TopicAuthorizationFailed, Count: -1})
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_lag") == 6 }, timeout, tick)
	require.Eventually(t, func() bool {
		said := fmt.Sprint(ingest.logs.All())
		return strings.Contains(said, "grant READ on the topic denied.dlq") && strings.Contains(said, "grant DESCRIBE_CONFIGS on the topic secret.dlq")
	}, timeout, tick)
}

func TestADeniedGroupIsExplainedByItsName(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: group, Err: kerr.GroupAuthorizationFailed, Count: -1})
	ingest := startIngest(t, quickOptions(cluster.ListenAddrs()), newMemory())
	const explanation = "grant READ on the group " + group + " to the manager's user"
	require.Eventually(t, func() bool { return strings.Contains(ingest.Status().LastError, explanation) }, timeout, tick)
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(ingest.logs.All()), explanation) }, timeout, tick)
	require.NotContains(t, fmt.Sprint(ingest.logs.All()), "on the topic  ")
}
