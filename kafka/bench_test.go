package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

// BenchmarkPublish sends pages of 100 messages of 1 KiB, one page after
// another, as one lane of a bulk retry does.
func BenchmarkPublish(b *testing.B) {
	b.Run("fake", func(b *testing.B) {
		benchmarkPublish(b, kafkatest.FakeCluster(b, kfake.SeedTopics(4, "orders")).ListenAddrs(), "orders")
	})
	b.Run("real", func(b *testing.B) {
		brokers := kafkatest.SharedCluster(b).Brokers()
		topic := fmt.Sprint("orders-", dlq.NewID())
		createTopic(b, admin(b, brokers), topic, 4)
		benchmarkPublish(b, brokers, topic)
	})
}

func benchmarkPublish(b *testing.B, brokers []string, topic string) {
	p := newPublisher(b, quickOptions(brokers))
	page := make([]dlq.Envelope, dlq.PageSize)
	for i := range page {
		page[i] = envelope(topic, fmt.Sprint("key-", i), string(make([]byte, 1024)))
		page[i].Record.Headers = []dlq.Header{{Key: "error", Value: []byte("boom")}, {Key: "trace", Value: []byte("x")}}
	}
	for b.Loop() {
		for _, err := range errorsOf(p.Publish(context.Background(), page, dlq.OrderKey, nil)) {
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.N*len(page))/b.Elapsed().Seconds(), "messages/s")
}

// counting is a store that does nothing.
type counting struct{ n atomic.Int64 }

func (c *counting) Ingest(_ context.Context, arrivals []dlq.Arrival, _ []dlq.Advance) ([]dlq.ID, error) {
	c.n.Add(int64(len(arrivals)))
	return nil, nil
}

func (*counting) Positions(_ context.Context, partitions []dlq.Partition) ([]dlq.Position, error) {
	return slices.Repeat([]dlq.Position{dlq.Start}, len(partitions)), nil
}

func (*counting) Pending(context.Context, []string) ([]int64, int64, error) {
	return nil, 0, nil
}

// BenchmarkIngest ingests a backlog of b.N messages of 1 KiB of JSON.
func BenchmarkIngest(b *testing.B) {
	b.Run("fake", func(b *testing.B) {
		benchmarkIngest(b, kafkatest.FakeCluster(b).ListenAddrs())
	})
	b.Run("real", func(b *testing.B) {
		benchmarkIngest(b, kafkatest.SharedCluster(b).Brokers())
	})
}

func benchmarkIngest(b *testing.B, brokers []string) {
	name := "bench-" + dlq.NewID().String()
	own, err := dlq.NewTopics([]string{name + ".dlq"}, nil)
	require.NoError(b, err)
	createTopic(b, admin(b, brokers), name+".dlq", 4)
	producer := client(b, brokers)
	value := fmt.Appendf(nil, `{"text":%q,"n":[1,2,3]}`, strings.Repeat("x", 1000))
	for range b.N {
		producer.Produce(context.Background(), &kgo.Record{Topic: name + ".dlq", Value: value,
			Headers: []kgo.RecordHeader{{Key: "original_topic", Value: []byte("orders")}, {Key: "error", Value: []byte("boom")}}}, nil)
	}
	require.NoError(b, producer.Flush(context.Background()))
	store := &counting{}
	o := quickOptions(brokers)
	o.ConsumerGroup = name
	b.ResetTimer()
	startIngestOf(b, o, store, own)
	require.Eventually(b, func() bool { return store.n.Load() >= int64(b.N) }, timeout, tick/10)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
