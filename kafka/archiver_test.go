package kafka_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// outbox is a store of exhausted messages, in pages of two.
type outbox struct {
	mu     sync.Mutex
	topics map[string][]dlq.Exhausted
	reads  int // how often PublishExhausted was called
}

func (o *outbox) add(topic string, messages ...dlq.Exhausted) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.topics == nil {
		o.topics = map[string][]dlq.Exhausted{}
	}
	for _, e := range messages {
		e.Seq = int64(len(o.topics[topic]))
		o.topics[topic] = append(o.topics[topic], e)
	}
}

func (o *outbox) left(topic string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.topics[topic])
}

func (o *outbox) ExhaustedTopics(context.Context) (topics []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for topic, messages := range o.topics {
		if len(messages) > 0 {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics, nil
}

func (o *outbox) PublishExhausted(_ context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) (page []dlq.Exhausted, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	for _, e := range o.topics[topic] {
		if e.Seq > after.Seq && len(page) < 2 {
			page = append(page, e)
		}
	}
	if len(page) == 0 {
		return nil, nil
	}
	for i, done := range publish(page) {
		if done {
			o.topics[topic] = slices.DeleteFunc(o.topics[topic], func(e dlq.Exhausted) bool { return e.ID == page[i].ID })
		}
	}
	return page, nil
}

func exhausted(value string, headers ...dlq.Header) dlq.Exhausted {
	return dlq.Exhausted{ID: dlq.NewID(), RetryCount: 3, MaxRetries: 3, Error: "no leader",
		Record: dlq.Record{Key: []byte("k"), Value: []byte(value), Headers: headers}}
}

func newArchiver(t *testing.T, o kafka.Options, store kafka.ExhaustedStore) (*kafka.Archiver, *prometheus.Registry, *observer.ObservedLogs) {
	t.Helper()
	topics, err := dlq.NewTopics([]string{"*.dlq.v1", "*.dlq", "dlq-*"}, nil)
	require.NoError(t, err)
	core, logs := observer.New(zap.WarnLevel)
	registry := prometheus.NewRegistry()
	return kafka.NewArchiver(newPublisher(t, o), store, dlq.NewArchiveTopics(dlq.DefaultArchiveTopic, topics), zap.New(core), registry), registry, logs
}

// runArchiver runs an archiver until the end of the test.
func runArchiver(t *testing.T, o kafka.Options, store kafka.ExhaustedStore) (*prometheus.Registry, *observer.ObservedLogs) {
	t.Helper()
	archiver, registry, logs := newArchiver(t, o, store)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); archiver.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-stopped })
	return registry, logs
}

func startArchiver(t *testing.T, brokers []string, store kafka.ExhaustedStore) (*prometheus.Registry, *observer.ObservedLogs) {
	t.Helper()
	return runArchiver(t, quickOptions(brokers), store)
}

func TestAnExhaustedMessageIsArchivedAsItIs(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq.archive")).ListenAddrs()
	h := func(key string, value []byte) dlq.Header { return dlq.Header{Key: key, Value: value} }
	stored := []dlq.Header{h("original_topic", []byte("orders")), h("dlq-message-id", []byte("the one before")), h("null", nil),
		h("empty", []byte{}), h("dlq-retry-count", []byte("3")), h("original_topic", []byte{0xff})}
	e, tombstone, gone := exhausted("", stored...), exhausted("v"), exhausted("deleted")
	e.Record.Key, e.Record.Value = []byte{}, []byte{0, 0xff}
	tombstone.Record.Key, tombstone.Record.Value = nil, nil
	gone.Deleted, gone.Record = true, dlq.Record{}
	store := &outbox{}
	store.add("orders.dlq.v1", e, gone, tombstone)
	registry, _ := startArchiver(t, brokers, store)
	require.Eventually(t, func() bool { return store.left("orders.dlq.v1") == 0 }, timeout, tick)

	records := read(t, brokers, "orders.dlq.archive", 2)
	require.Equal(t, []any{e.Record.Key, e.Record.Value}, []any{records[0].Key, records[0].Value})
	headers := make([]kgo.RecordHeader, 0, len(stored)+2)
	for _, header := range stored {
		headers = append(headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
	}
	headers = append(headers, kgo.RecordHeader{Key: "dlq-message-id", Value: []byte(e.ID.String())},
		kgo.RecordHeader{Key: "dlq-reason", Value: []byte("exhausted after 3 of 3 retries: no leader")})
	require.Equal(t, headers, records[0].Headers)
	require.Nil(t, records[1].Key)
	require.Nil(t, records[1].Value)
	require.NoError(t, testutil.CollectAndCompare(registry, strings.NewReader(`
# HELP dlq_exhausted_published_total Exhausted messages published to their archive topic, by dead-letter topic. Topics beyond the first 1000 are counted as "other".
# TYPE dlq_exhausted_published_total counter
dlq_exhausted_published_total{topic="orders.dlq.v1"} 2
`), "dlq_exhausted_published_total"))
}

func archivesLater(t *testing.T, brokers []string, create func(topic string)) {
	t.Helper()
	store := &outbox{}
	name := dlq.NewID().String() // a new name, since the cluster may be shared
	missing, zebra, loop := name+".missing.dlq", name+".zebra.dlq", "dlq-"+name
	for range 5 {
		store.add(missing, exhausted("v"))
		store.add(zebra, exhausted("v"))
		store.add(loop, exhausted("v")) // its archive topic would be ingested
	}
	create(zebra + ".archive")
	_, logs := startArchiver(t, brokers, store)
	require.Eventually(t, func() bool { return store.left(zebra) == 0 }, timeout, tick, "a missing topic blocks no other")
	require.Eventually(t, func() bool { return logs.Len() > 1 }, timeout, tick)
	require.Equal(t, 5, store.left(missing))
	create(missing + ".archive")
	require.Eventually(t, func() bool { return store.left(missing) == 0 }, timeout, tick)
	require.Len(t, read(t, brokers, missing+".archive", 5), 5)
	require.Equal(t, 5, store.left(loop))
	require.Equal(t, 2, logs.Len(), "it warns once of each")
	require.Contains(t, logs.All()[0].ContextMap()["error"], `, the archive topic of "`+loop+`", is itself a dead-letter topic`)
	require.Contains(t, logs.All()[1].ContextMap()["error"], `.missing.dlq": UNKNOWN_TOPIC_OR_PARTITION`)
}

func TestAMissingArchiveTopicIsCaughtUpWhenItExists(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	archivesLater(t, cluster.ListenAddrs(), func(topic string) { require.NoError(t, cluster.CreateTopic(topic, 1, nil)) })
}

func TestRealMissingArchiveTopicIsCaughtUpWhenItExists(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	archivesLater(t, brokers, func(topic string) { createTopic(t, admin(t, brokers), topic, 1) })
}

func TestAnArchivePublishThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq.archive"))
	store := &outbox{}
	store.add("orders.dlq", exhausted("v"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	_, logs := startArchiver(t, cluster.ListenAddrs(), store)
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 0 }, timeout, tick)
	require.Contains(t, logs.All()[0].ContextMap()["error"], "TOPIC_AUTHORIZATION_FAILED")
	require.Len(t, read(t, cluster.ListenAddrs(), "orders.dlq.archive", 1), 1)
}

func TestARefusedArchiveRecordBlocksNoOther(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	require.NoError(t, cluster.CreateTopic("orders.dlq.archive", 1, map[string]string{"max.message.bytes": "1000"}))
	largeTopic(t, cluster, "large.dlq.archive", 1)
	store := &outbox{}
	store.add("orders.dlq", exhausted(string(noise(t, 2000))), exhausted("small"), exhausted("small"), exhausted("small"))
	store.add("large.dlq", exhausted("small"), exhausted(string(noise(t, tooLargeForABatch))))
	_, logs := startArchiver(t, cluster.ListenAddrs(), store)
	require.Eventually(t, func() bool { return store.left("orders.dlq") == 1 && store.left("large.dlq") == 0 }, timeout, tick)
	require.Eventually(t, func() bool { return logs.Len() == 1 }, timeout, tick)
	require.Contains(t, logs.All()[0].ContextMap()["error"], "MESSAGE_TOO_LARGE")
}
