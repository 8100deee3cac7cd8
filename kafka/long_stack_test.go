package kafka_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

func TestAStackTraceOfTenMegabytesIsStoredWholeAndGrouped(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t).ListenAddrs()
	createTopic(t, admin(t, brokers), "orders.dlq", 1, "max.message.bytes", "30000000")
	first := "shop.LateException: order 17 is late\n\tat shop.Orders.send(Orders.java:17)\n"
	stack := first + strings.Repeat("\tat org.springframework.Listener.call(Listener.java:1)\n", 10<<20/55)
	failed := func(value, stack string) *kgo.Record {
		return &kgo.Record{Topic: "orders.dlq", Value: []byte(value), Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("shop.LateException")},
			{Key: "kafka_dlt-exception-message", Value: []byte("order 17 is late")},
			{Key: "kafka_dlt-exception-stacktrace", Value: []byte(stack)},
		}}
	}
	c := client(t, brokers, kgo.ProducerBatchMaxBytes(30_000_000))
	require.NoError(t, c.ProduceSync(t.Context(), failed("long", stack), failed("short", first)).FirstErr())

	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, []string{"long", "short"})
	stored := store.all()
	require.Len(t, stored[0].StackTrace, len(stack))
	require.Equal(t, "shop.Orders.send", stored[0].Fingerprint.Frame)
	require.Equal(t, stored[1].Fingerprint.Key, stored[0].Fingerprint.Key)
}
