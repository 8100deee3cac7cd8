package kafka_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// tooLarge is the size of a record that is sent in a batch. A topic with max.message.bytes=20000 refuses
// it.
const tooLarge = 30_000

// tooLargeForABatch is the size of a record that is sent unbatched. The same topic refuses it, unless it
// compresses.
const tooLargeForABatch = 1_100_000

func badEnvelope(t testing.TB, topic, key string, size int) dlq.Envelope {
	t.Helper()
	e := envelope(topic, key, "")
	e.Record.Value = noise(t, size)
	return e
}

// requireBlocked requires a BlockedError, which is no error of the message itself.
func requireBlocked(t testing.TB, err error) {
	t.Helper()
	var blocked *dlq.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.ErrorContains(t, err, "earlier message with the same key")
	require.NotErrorAs(t, err, new(*dlq.DeliveryError))
	require.Error(t, deliveryError(t, blocked.Cause))
}

func TestPublishBlocksTheKeyOfABadMessage(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"batched": tooLarge, "unbatched": tooLargeForABatch} {
		for _, order := range []dlq.Order{dlq.OrderKey, ""} {
			t.Run(fmt.Sprintf("%s, order %q", name, order), func(t *testing.T) {
				t.Parallel()
				brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "pay")).ListenAddrs()
				createTopic(t, admin(t, brokers), "orders", 1, "max.message.bytes", "20000")
				errs := errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{
					envelope("orders", "k", "before"),
					badEnvelope(t, "orders", "k", size),
					envelope("orders", "k", "after"),
					badEnvelope(t, "orders", "k", tooLarge), // this message is not sent
					envelope("orders", "k", strings.Repeat("x", tooLargeForABatch)),
					envelope("orders", "other", "x"),
					envelope("pay", "k", "x"),
				}, order, nil))
				require.NoError(t, errs[0])
				require.ErrorIs(t, errs[1], kerr.MessageTooLarge)
				require.Equal(t, dlq.CategoryBadData, deliveryError(t, errs[1]).Category)
				for _, err := range errs[2:5] {
					requireBlocked(t, err)
				}
				require.NoError(t, errs[5], "another key")
				require.NoError(t, errs[6], "another topic")
				require.Len(t, read(t, brokers, "orders", 2), 2)
			})
		}
	}
}

func TestPublishWithoutOrderBlocksNothing(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "small", 1, "max.message.bytes", "20000")
	createTopic(t, admin(t, brokers), "unavailable", 1, "max.message.bytes", "10000000")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "unavailable", Err: kerr.UnknownServerError, Count: -1,
		When: func(r kmsg.Request) bool {
			return len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records) > 1_000_000
		}})
	errs := errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{
		badEnvelope(t, "small", "k", tooLarge), envelope("small", "k", "after"),
		badEnvelope(t, "small", "k", tooLargeForABatch), envelope("small", "k", "after"),
		badEnvelope(t, "unavailable", "k", tooLargeForABatch), envelope("unavailable", "k", "after"),
	}, dlq.OrderNone, nil))
	require.Equal(t, dlq.CategoryBadData, deliveryError(t, errs[0]).Category)
	require.NoError(t, errs[1])
	require.Equal(t, dlq.CategoryBadData, deliveryError(t, errs[2]).Category)
	require.NoError(t, errs[3])
	require.ErrorIs(t, errs[4], kerr.UnknownServerError)
	require.NoError(t, errs[5])
}

// The bad record fails the other records of its batch, which are sent again. Later records must wait for a
// record that is sent unbatched.
func TestPublishKeepsTheOrderOfTheOtherRecordsOfABadBatch(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t).ListenAddrs()
	createTopic(t, admin(t, brokers), "orders", 1, "max.message.bytes", "20000")
	errs := errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{
		badEnvelope(t, "orders", "bad", tooLarge),
		envelope("orders", "k", "1"),
		envelope("orders", "other", strings.Repeat("x", tooLargeForABatch)), // fits when compressed
		envelope("orders", "k", "2"),
	}, dlq.OrderKey, nil))
	require.Equal(t, dlq.CategoryBadData, deliveryError(t, errs[0]).Category)
	for _, err := range errs[1:] {
		require.NoError(t, err)
	}
	var values []string
	for _, r := range read(t, brokers, "orders", 3) {
		if string(r.Key) == "k" {
			values = append(values, string(r.Value))
		}
	}
	require.Equal(t, []string{"1", "2"}, values)
}

// The client buffers 10,000 records, and the next record waits. This record may be sent when the refusal
// frees the buffer, but no record after it.
func TestPublishProducesNothingOfTheKeyOnceTheRefusalIsKnown(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "orders", 1, "max.message.bytes", batchesLimit)
	registry := prometheus.NewRegistry()
	p, err := kafka.NewPublisher(quickOptions(brokers), testLog(t), registry)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	// Records for a topic that the client does not know yet count as buffered, but have
	// no sequence number.
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "first", "v")}, dlq.OrderKey, nil)[0].Err)
	full := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { <-full })
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	page := []dlq.Envelope{badEnvelope(t, "orders", "k", batchesBadSize)}
	for len(page) < 12_000 {
		page = append(page, envelope("orders", "k", "after"))
	}
	published := make(chan []error, 1)
	go func() { published <- errorsOf(p.Publish(context.Background(), page, dlq.OrderKey, nil)) }()
	require.Eventually(t, func() bool { return sumOf(t, registry, "dlq_kafka_buffered_produce_records_total") >= 10_000 }, timeout, tick)
	close(full)
	delivered := 0
	for _, err := range <-published {
		if err == nil {
			delivered++
		}
	}
	require.LessOrEqual(t, delivered, 1)
}

func TestPublishWritesNoLaterBatchOfTheKeyOfABadRecord(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	cluster := kafkatest.FakeCluster(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		listener, err := net.Listen(network, address)
		return countingListener{listener, &received}, err
	}))
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "orders", 1, "max.message.bytes", batchesLimit)
	// The broker checks the bad record only after a later batch has arrived.
	arrived := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records) > batchesBadSize {
			cluster.SleepControl(func() { <-arrived })
		}
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	p := newPublisher(t, quickOptions(brokers))
	page := batches(t, p, "orders")
	published := make(chan []error, 1)
	go func() { published <- errorsOf(p.Publish(context.Background(), page, dlq.OrderKey, nil)) }()
	require.Eventually(t, func() bool { return received.Load() > 2_700_000 }, timeout, tick)
	close(arrived)
	requireNoLaterBatch(t, brokers, "orders", p, <-published)
}

// countingListener counts the bytes that its connections have received.
type countingListener struct {
	net.Listener
	received *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.received}, err
}

type countingConn struct {
	net.Conn
	received *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// A topic with max.message.bytes=batchesLimit accepts every batch except the bad one.
const (
	batchesLimit   = "950000"
	batchesBadSize = 970_000
)

// batches returns ten batches of messages with one key. The second batch is bad. The client pipelines
// batches to a partition only after one has succeeded.
func batches(t testing.TB, p *kafka.Publisher, topic string) []dlq.Envelope {
	t.Helper()
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "first")}, dlq.OrderKey, nil)[0].Err)
	var envelopes []dlq.Envelope
	for i := range 30 { // three records fill a batch
		envelopes = append(envelopes, envelope(topic, "k", fmt.Sprintf("%02d", i)+strings.Repeat(".", 300_000)))
	}
	envelopes[3] = badEnvelope(t, topic, "k", batchesBadSize)
	return envelopes
}

func requireNoLaterBatch(t testing.TB, brokers []string, topic string, p *kafka.Publisher, errs []error) {
	t.Helper()
	for _, err := range errs[:3] {
		require.NoError(t, err)
	}
	require.ErrorIs(t, errs[3], kerr.MessageTooLarge)
	for _, err := range errs[4:] {
		requireBlocked(t, err)
	}
	// A record that is sent now comes after all earlier records.
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "last")}, dlq.OrderKey, nil)[0].Err)
	var values []string
	for _, r := range read(t, brokers, topic, 5) {
		values = append(values, string(r.Value[:min(4, len(r.Value))]))
	}
	require.Equal(t, []string{"firs", "00..", "01..", "02..", "last"}, values)
}
