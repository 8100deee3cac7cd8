package kafka_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

// transaction produces the records in a transaction of the client and ends it.
func transaction(t testing.TB, producer *kgo.Client, end kgo.TransactionEndTry, records ...*kgo.Record) {
	t.Helper()
	require.NoError(t, producer.BeginTransaction())
	require.NoError(t, producer.ProduceSync(deadline(t), records...).FirstErr())
	require.NoError(t, producer.EndTransaction(deadline(t), end))
}

func TestIngestMovesItsPositionPastTransactions(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	passesTransactions(t, brokers, "orders.dlq", group, func(store *memory) *running { return startIngest(t, quickOptions(brokers), store) })
}

func TestRealIngestMovesItsPositionPastTransactions(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	createTopic(t, admin(t, brokers), s.topic("orders.dlq"), 1)
	passesTransactions(t, brokers, s.topic("orders.dlq"), s.name, func(store *memory) *running {
		return startIngestOf(t, s.options(brokers), store, s.topics)
	})
}

// Kafka's retention deletes markers of transactions and aborted records like other records. No deleted
// marker or aborted record counts as a lost dead letter.
func passesTransactions(t *testing.T, brokers []string, topic, group string, start func(*memory) *running) {
	t.Helper()
	a := admin(t, brokers)
	producer := client(t, brokers, kgo.TransactionalID(topic))
	write := func(end kgo.TransactionEndTry, values ...string) {
		records := make([]*kgo.Record, len(values))
		for i, value := range values {
			records[i] = &kgo.Record{Topic: topic, Value: []byte(value)}
		}
		transaction(t, producer, end, records...)
	}
	store := newMemory()
	first := start(store)
	write(kgo.TryCommit, "committed")
	write(kgo.TryAbort, "aborted", "aborted", "aborted")
	awaitCommitted(t, a, group, topic, 6)
	require.EqualValues(t, 6, store.next(), "after the marker of the aborted transaction")
	deleteRecords(t, a, topic, 6)
	write(kgo.TryCommit, "next")
	awaitCommitted(t, a, group, topic, 8)
	first.stop(t)

	write(kgo.TryAbort, "aborted")
	write(kgo.TryCommit, "while it does not run")
	start(store)
	awaitCommitted(t, a, group, topic, 12)
	deleteRecords(t, a, topic, 12)
	want := append([]string{"committed", "next", "while it does not run"}, produce(t, brokers, topic, "last", 1)...)
	awaitValues(t, store, want)
	require.Zero(t, store.lostOffsets())
}
