package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func newPublisher(t testing.TB, o kafka.Options) *kafka.Publisher {
	t.Helper()
	p, err := kafka.NewPublisher(o, testLog(t), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func envelope(topic, key, value string) dlq.Envelope {
	e := dlq.Envelope{ID: dlq.NewID(), OriginalTopic: topic, RetryCount: 1, Record: dlq.Record{Value: []byte(value)}}
	if key != "" {
		e.Record.Key = []byte(key)
	}
	return e
}

func errorsOf(deliveries []dlq.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i := range deliveries {
		errs[i] = deliveries[i].Err
	}
	return errs
}

// read returns n records of a topic, in order within each partition.
func read(t testing.TB, brokers []string, topic string, n int) []*kgo.Record {
	t.Helper()
	c := client(t, brokers, kgo.ConsumeTopics(topic), kgo.FetchMaxPartitionBytes(64<<20), kgo.FetchMaxBytes(64<<20))
	var records []*kgo.Record
	for len(records) < n {
		fetches := c.PollFetches(deadline(t))
		require.NoError(t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestPublishSendsBytesKeysAndHeadersAsTheyWere(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders")).ListenAddrs()
	value := []byte{0, 0xff, 1, 2}
	h := func(key string, value []byte) dlq.Header { return dlq.Header{Key: key, Value: value} }
	e := dlq.Envelope{ID: dlq.NewID(), OriginalTopic: "orders", RetryCount: 2, Record: dlq.Record{
		Key: []byte{0xff, 0}, Value: value, Timestamp: time.Unix(1_000_000_000, 0),
		Headers: []dlq.Header{
			h("trace", []byte("1")), h("original_topic", []byte("orders")), h("null", nil), h("empty", []byte{}),
			h("dlq-message-id", []byte("an older one")), h("trace", []byte{0xff, 2}), h("error", []byte("boom")),
			h("dlq-retry-count", []byte("1")), h("", []byte("no name")), h("errors", []byte("another name")),
		},
	}}
	before := time.Now().Add(-time.Second)
	require.Equal(t, []error{nil}, errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{e}, dlq.OrderKey, nil)))

	r := read(t, brokers, "orders", 1)[0]
	require.Equal(t, e.Record.Key, r.Key)
	require.Equal(t, value, r.Value)
	require.Equal(t, []kgo.RecordHeader{
		{Key: "trace", Value: []byte("1")}, {Key: "null", Value: nil}, {Key: "empty", Value: []byte{}},
		{Key: "trace", Value: []byte{0xff, 2}}, {Key: "", Value: []byte("no name")}, {Key: "errors", Value: []byte("another name")},
		{Key: "dlq-message-id", Value: []byte(e.ID.String())}, {Key: "dlq-retry-count", Value: []byte("2")},
	}, r.Headers)
	require.True(t, r.Timestamp.After(before), "the timestamp is new")
}

func TestPublishKeepsKeysAsTheyWere(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders", "uuid")).ListenAddrs()
	send := func(o kafka.Options, topic string, key []byte) {
		e := envelope(topic, "", "v")
		e.Record.Key = key
		require.NoError(t, newPublisher(t, o).Publish(context.Background(), []dlq.Envelope{e}, dlq.OrderKey, nil)[0].Err)
	}
	for _, key := range [][]byte{nil, {}, []byte("k")} {
		send(quickOptions(brokers), "orders", key)
	}
	records := read(t, brokers, "orders", 3)
	require.Nil(t, records[0].Key)
	require.Equal(t, []byte{}, records[1].Key, "an empty key is a key")
	require.Equal(t, "k", string(records[2].Key))

	o := quickOptions(brokers)
	o.RepublishKey = kafka.RepublishUUIDKey
	for _, key := range [][]byte{nil, []byte("k")} {
		send(o, "uuid", key)
	}
	for _, r := range read(t, brokers, "uuid", 2) {
		id, err := uuid.ParseBytes(r.Key)
		require.NoError(t, err)
		require.EqualValues(t, 4, id.Version())
	}
}

func TestPublishSendsTombstones(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders")).ListenAddrs()
	e := envelope("orders", "k", "")
	e.Record.Value = nil
	require.NoError(t, newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{e}, dlq.OrderKey, nil)[0].Err)
	require.Nil(t, read(t, brokers, "orders", 1)[0].Value)
}

func TestPublishKeepsTheOrderOfEachKey(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(4, "orders")).ListenAddrs()
	p := newPublisher(t, quickOptions(brokers))
	for page := range 10 {
		var envelopes []dlq.Envelope
		for i := range 100 {
			value := fmt.Sprintf("%04d", page*100+i)
			if i == 50 { // this message does not fit into a shared batch
				value += string(make([]byte, 1_100_000))
			}
			envelopes = append(envelopes, envelope("orders", fmt.Sprint("key-", i%7), value))
		}
		for _, err := range errorsOf(p.Publish(context.Background(), envelopes, dlq.OrderKey, nil)) {
			require.NoError(t, err)
		}
	}
	last := map[string]string{}
	for _, r := range read(t, brokers, "orders", 1000) {
		value := string(r.Value[:4])
		require.Less(t, last[string(r.Key)], value)
		last[string(r.Key)] = value
	}
	require.Len(t, last, 7)
}

func TestPublishBlocksTheKeyOfAnUndeliveredMessage(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "large", 1, "max.message.bytes", "10000000")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "large", Err: kerr.UnknownServerError, Count: -1,
		When: func(r kmsg.Request) bool {
			return len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records) > 1_000_000
		}})
	first := envelope("large", "k", "")
	first.Record.Value = noise(t, 2_000_000)
	errs := errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{
		envelope("large", "k", "before"), first, envelope("large", "k", "after"), envelope("large", "other", "x"), envelope("orders", "k", "x"),
	}, dlq.OrderKey, nil))
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], kerr.UnknownServerError)
	requireBlocked(t, errs[2])
	require.NoError(t, errs[3])
	require.NoError(t, errs[4])
	require.Len(t, read(t, brokers, "large", 2), 2)
}

func TestPublishClassifiesRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  *kerr.Error
		want dlq.Category
	}{
		{kerr.TopicAuthorizationFailed, dlq.CategoryAuth},
		{kerr.ClusterAuthorizationFailed, dlq.CategoryAuth},
		{kerr.MessageTooLarge, dlq.CategoryBadData},
		{kerr.RecordListTooLarge, dlq.CategoryBadData},
		{kerr.InvalidRecord, dlq.CategoryBadData},
		{kerr.CorruptMessage, dlq.CategoryBadData},
		{kerr.UnsupportedForMessageFormat, dlq.CategoryBadData},
		{kerr.InvalidTimestamp, dlq.CategoryBadData},
		{kerr.PolicyViolation, dlq.CategoryBadData},
		{kerr.ThrottlingQuotaExceeded, dlq.CategoryRateLimit},
		{kerr.UnknownServerError, dlq.CategoryTransient},
		{kerr.KafkaStorageError, dlq.CategoryTransient},
		{kerr.NotEnoughReplicas, dlq.CategoryTransient},
	} {
		t.Run(test.err.Message, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: test.err, Count: -1})
			o := quickOptions(cluster.ListenAddrs())
			o.DeliveryTimeout = time.Second
			p := newPublisher(t, o)
			start := time.Now()
			errs := errorsOf(p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "a", "1"), envelope("orders", "b", "2")}, dlq.OrderKey, nil))
			require.LessOrEqual(t, time.Since(start), p.MaxDuration())
			for _, err := range errs {
				require.Equal(t, test.want, deliveryError(t, err).Category, err.Error())
				require.ErrorIs(t, err, test.err)
				require.ErrorContains(t, err, "orders")
			}
		})
	}
}

func TestPublishNamesTheMissingAuthorisation(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Err: kerr.TopicAuthorizationFailed, Count: -1})
	start := time.Now()
	err := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), []dlq.Envelope{envelope("orders", "a", "1")}, dlq.OrderKey, nil)[0].Err
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	require.True(t, deliveryError(t, err).TargetOnly)
	require.Less(t, time.Since(start), kafka.DefaultDeliveryTimeout, "no attempts are wasted on it")
}

func TestPublishBlocksBehindAClosedTargetForThatTargetOnly(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders", "pay"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Err: kerr.TopicAuthorizationFailed, Count: -1})
	large := envelope("orders", "k", strings.Repeat("x", 1_100_000)) // sent unbatched, after the earlier messages
	errs := errorsOf(newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(),
		[]dlq.Envelope{envelope("orders", "k", "1"), large, envelope("orders", "k", "3"), envelope("pay", "k", "4")}, dlq.OrderKey, nil))
	require.ErrorIs(t, errs[0], kerr.TopicAuthorizationFailed)
	for _, err := range errs[1:3] {
		requireBlocked(t, err)
	}
	require.NoError(t, errs[3])
}

func TestPublishRecoversFromAMovedLeader(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders"))
	fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 2})
	p := newPublisher(t, quickOptions(cluster.ListenAddrs()))
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "a", "1")}, dlq.OrderKey, nil)[0].Err)
	require.Equal(t, 2, fault.Hits())
	require.NoError(t, cluster.MoveTopicPartition("orders", 0, (cluster.LeaderFor("orders", 0)+1)%3))
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "a", "2")}, dlq.OrderKey, nil)[0].Err)
	require.Len(t, read(t, cluster.ListenAddrs(), "orders", 2), 2)
}

func TestPublishDeliversTheOtherRecordsOfABadBatch(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "orders", 1, "max.message.bytes", "20000")
	var envelopes []dlq.Envelope
	for i := range 100 {
		envelopes = append(envelopes, envelope("orders", "k", fmt.Sprintf("%03d", i)+strings.Repeat(".", 1000)))
	}
	envelopes[40] = badEnvelope(t, "orders", "bad", tooLarge)
	p := newPublisher(t, quickOptions(brokers))
	// The records of a concurrent call are in the same batch, so they are refused too.
	var both sync.WaitGroup
	both.Go(func() {
		for range 5 {
			require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "bystander", "x")}, dlq.OrderKey, nil)[0].Err)
		}
	})
	errs := errorsOf(p.Publish(context.Background(), envelopes, dlq.OrderKey, nil))
	both.Wait()
	for i, err := range errs {
		if i == 40 {
			require.Equal(t, dlq.CategoryBadData, deliveryError(t, err).Category)
			require.ErrorIs(t, err, kerr.MessageTooLarge)
			continue
		}
		require.NoError(t, err, "message %d", i)
	}
	last := ""
	for _, r := range read(t, brokers, "orders", 104) {
		if string(r.Key) == "k" {
			require.Less(t, last, string(r.Value[:3]), "in order, once")
			last = string(r.Value[:3])
		}
	}
}

func TestPublishSendsEveryConsumedRecordHoweverLarge(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	brokers := cluster.ListenAddrs()
	createTopic(t, admin(t, brokers), "large", 1, "max.message.bytes", "30000000")
	createTopic(t, admin(t, brokers), "small", 1)
	noise := noise(t, 20<<20)
	large := envelope("large", "k", "")
	large.Record.Value = noise
	refused := envelope("small", "bad", "")
	refused.Record.Value = noise[:2<<20]
	compressible := envelope("small", "k", strings.Repeat("spam ", 1<<20))
	errs := errorsOf(newPublisher(t, quickOptions(brokers)).Publish(context.Background(), []dlq.Envelope{large, refused, compressible}, dlq.OrderKey, nil))
	require.NoError(t, errs[0])
	require.Equal(t, dlq.CategoryBadData, deliveryError(t, errs[1]).Category)
	require.NoError(t, errs[2], "it fits when compressed, as it did when it was first sent")
	require.True(t, bytes.Equal(noise, read(t, brokers, "large", 1)[0].Value))
	require.Len(t, read(t, brokers, "small", 1)[0].Value, 5<<20)
}

func TestPublishToATopicThatDoesNotExistFailsSoonAndCreatesNothing(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.AllowAutoTopicCreation(), kfake.SeedTopics(1, "orders")).ListenAddrs()
	missingTarget(t, brokers, "nowhere", quickOptions(brokers))
}

func missingTarget(t *testing.T, brokers []string, topic string, o kafka.Options) {
	t.Helper()
	p := newPublisher(t, o)
	start := time.Now()
	err := p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "v")}, dlq.OrderKey, nil)[0].Err
	require.Equal(t, dlq.CategoryTransient, deliveryError(t, err).Category, "an operator can create the topic")
	require.True(t, deliveryError(t, err).TargetOnly)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	require.ErrorContains(t, err, topic)
	require.Less(t, time.Since(start), kafka.DefaultDeliveryTimeout)
	a := admin(t, brokers)
	existing, err := a.ListTopics(deadline(t))
	require.NoError(t, err)
	require.False(t, existing.Has(topic))
	createTopic(t, a, topic, 1)
	require.Eventually(t, func() bool {
		return p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "v")}, dlq.OrderKey, nil)[0].Err == nil
	}, timeout, tick)
}

func TestPublishContinuesToARecreatedTopic(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders")).ListenAddrs()
	recreatedTarget(t, brokers, "orders")
}

func recreatedTarget(t *testing.T, brokers []string, topic string) {
	t.Helper()
	p := newPublisher(t, quickOptions(brokers))
	a := admin(t, brokers)
	for range 3 {
		require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "old")}, dlq.OrderKey, nil)[0].Err)
	}
	deleteTopic(t, brokers, topic)
	createTopic(t, a, topic, 1)
	require.Eventually(t, func() bool {
		err := p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "new")}, dlq.OrderKey, nil)[0].Err
		require.Equal(t, dlq.CategoryTransient, dlq.CategoryOf(err))
		return err == nil
	}, timeout, tick)
	require.Equal(t, "new", string(read(t, brokers, topic, 1)[0].Value))
}

func TestPublishedMessageComesBackAsItself(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders", "orders.dlq")).ListenAddrs()
	for range 2 {
		require.NoError(t, client(t, brokers).ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: []byte("v")}).FirstErr())
	}
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, []string{"v", "v"})
	p := newPublisher(t, quickOptions(brokers))
	for i, count := range []int{2, 7} {
		first := store.all()[i]
		e := dlq.Envelope{ID: first.ID, OriginalTopic: first.Origin.Topic, RetryCount: count, Record: first.Record}
		require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{e}, dlq.OrderKey, nil)[0].Err)
	}
	// The consumer fails on the messages again.
	for i, r := range read(t, brokers, "orders", 2) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "error", Value: []byte("again")})
		require.NoError(t, client(t, brokers).ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: r.Value, Headers: r.Headers}).FirstErr())
		require.Eventually(t, func() bool { return len(store.all()) == 3+i }, timeout, tick)
		require.Equal(t, store.all()[i].ID, store.all()[2+i].PreviousID)
	}
	require.Equal(t, 2, store.all()[2].RetryCount)
	require.Equal(t, dlq.StatusPending, store.all()[2].Status())
	require.Equal(t, 3, store.all()[3].RetryCount, "not more than max_retries")
	require.Equal(t, dlq.StatusDead, store.all()[3].Status())
	require.Equal(t, "again", store.all()[3].ErrorMessage)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_came_back_total") == 2 }, timeout, tick)

	// The whole topic is read once more.
	forgetful := store.backup()
	clear(forgetful.positions)
	store.restore(forgetful)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_duplicates_total") == 4 }, timeout, tick)
	require.Equal(t, 2.0, ingest.metric(t, "dlq_came_back_total"))
}

func TestPublishMetricsNameTopicsOnlyWhereTheirNumberIsBounded(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders")).ListenAddrs()
	registry := prometheus.NewRegistry()
	p, err := kafka.NewPublisher(quickOptions(brokers), testLog(t), registry)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err)
	gather := func() []*dto.MetricFamily {
		families, err := registry.Gather()
		require.NoError(t, err)
		return families
	}
	var byTopic []string
	for _, family := range gather() {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == "orders" {
					byTopic = append(byTopic, family.GetName())
				}
			}
		}
	}
	require.Equal(t, []string{"dlq_republished_total"}, byTopic)
	// The client library counts a batch after it has acknowledged the records of the batch.
	require.Eventually(t, func() bool {
		produced := 0.0
		for _, family := range gather() {
			if family.GetName() == "dlq_kafka_produce_bytes_total" {
				for _, metric := range family.GetMetric() {
					produced += metric.GetCounter().GetValue()
				}
			}
		}
		return produced > 0
	}, 10*time.Second, 5*time.Millisecond, "the client library's own metrics are there")
}

func TestPublishSaysWhereTheTargetHasEachMessage(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	largeTopic(t, cluster, "orders", 3)
	var page []dlq.Envelope
	for i := range 30 {
		page = append(page, envelope("orders", fmt.Sprint(i%7), fmt.Sprint(i)))
	}
	page[10].Record.Value = noise(t, tooLargeForABatch)
	page = append(page, envelope("missing", "k", "v"))
	deliveries := newPublisher(t, quickOptions(cluster.ListenAddrs())).Publish(context.Background(), page, dlq.OrderKey, nil)
	id := dlq.ID(cluster.TopicInfo("orders").TopicID)
	require.False(t, id.IsZero())
	written := map[dlq.Acknowledgement][]byte{}
	for _, r := range read(t, cluster.ListenAddrs(), "orders", 30) {
		written[dlq.Acknowledgement{Topic: "orders", TopicID: id, Partition: r.Partition, Offset: r.Offset}] = r.Value
	}
	for i, delivery := range deliveries[:30] {
		require.NoError(t, delivery.Err)
		require.Equal(t, delivery.Target.Partition, delivery.Acknowledgement.Partition)
		require.Equal(t, page[i].Record.Value, written[*delivery.Acknowledgement])
	}
	require.Error(t, deliveries[30].Err)
	require.Nil(t, deliveries[30].Acknowledgement)
}

// If the error concerned the target, no message would go to the target while the record's topic is missing.
func TestARedirectedPointerWithoutItsTopicFailsAlone(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.retry")).ListenAddrs()
	message := pointer("orders", 0, 0)
	message.TargetTopic = "orders.retry"
	err := newPublisher(t, quickOptions(brokers)).Publish(deadline(t), []dlq.Envelope{message}, dlq.OrderKey, nil)[0].Err
	var failed *dlq.DeliveryError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.MessageOnly, err)
}

func TestTheMetricOfWhatCameBackSaysThatItCountsAClaim(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	r := &kgo.Record{Topic: "orders.dlq", Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "dlq-message-id", Value: []byte(dlq.NewID().String())}}}
	require.NoError(t, client(t, brokers).ProduceSync(deadline(t), r).FirstErr())
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_came_back_total") == 1 }, timeout, tick, "nothing was sent back")
	families, err := ingest.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "dlq_came_back_total" {
			require.Contains(t, family.GetHelp(), "Whoever writes a record can claim that")
		}
	}
}
