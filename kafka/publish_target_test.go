package kafka_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

func redirected(from, to, key, value string) dlq.Envelope {
	e := envelope(from, key, value)
	e.TargetTopic = to
	return e
}

func TestPublishSendsToTheTargetInOrderAndNotToTheOriginalTopic(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(3, "orders", "stock", "retry")).ListenAddrs()
	deliveries := newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{
		redirected("orders", "retry", "k", "1"), redirected("stock", "retry", "k", "2"), redirected("orders", "retry", "k", "3"),
	}, dlq.OrderKey, nil)
	for _, d := range deliveries {
		require.NoError(t, d.Err)
	}
	var values []string
	for _, r := range read(t, brokers, "retry", 3) {
		values = append(values, string(r.Value))
	}
	require.Equal(t, []string{"1", "2", "3"}, values)
	ends, err := admin(t, brokers).ListEndOffsets(deadline(t), "orders", "stock")
	require.NoError(t, err)
	for _, end := range ends.Offsets().Sorted() {
		require.Zero(t, end.At, end.Topic)
	}
}

func TestPublishBlocksAKeyOfAClosedTargetWhateverItsOriginalTopic(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders", "retry"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "retry", Err: kerr.TopicAuthorizationFailed, Count: -1})
	deliveries := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), []dlq.Envelope{
		redirected("orders", "retry", "k", "1"), redirected("stock", "retry", "k", "2"), envelope("orders", "k", "3"),
	}, dlq.OrderKey, nil)
	require.ErrorIs(t, deliveries[0].Err, kerr.TopicAuthorizationFailed)
	require.Error(t, deliveries[1].Err)
	require.NoError(t, deliveries[2].Err, "the original topic is open")
}

func TestARedirectedMessageComesBackWithItsTargetAsOriginalTopic(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "retry", "orders.dlq")).ListenAddrs()
	require.NoError(t, client(t, brokers).ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: []byte("v"),
		Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte("orders")}}}).FirstErr())
	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, []string{"v"})
	first := store.all()[0]
	require.Equal(t, "orders", first.Origin.Topic)
	e := dlq.Envelope{ID: first.ID, OriginalTopic: "orders", TargetTopic: "retry", RetryCount: 1, Record: first.Record}
	require.NoError(t, newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{e}, dlq.OrderKey, nil)[0].Err)
	r := read(t, brokers, "retry", 1)[0]
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte("retry")})
	require.NoError(t, client(t, brokers).ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: r.Value, Headers: r.Headers}).FirstErr())
	require.Eventually(t, func() bool { return len(store.all()) == 2 }, timeout, tick)
	require.Equal(t, first.ID, store.all()[1].PreviousID)
	require.Equal(t, "retry", store.all()[1].Origin.Topic)
}
