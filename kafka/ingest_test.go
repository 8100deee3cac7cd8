package kafka_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func TestIngestStoresEverythingFromTheStartAndCommitsIt(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(3, "orders.dlq", "pay.dlq.v1", "orders", "orders.dlq.archive"))
	brokers := cluster.ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "a", 1200)
	want = append(want, produce(t, brokers, "pay.dlq.v1", "b", 10)...)
	produce(t, brokers, "orders", "not a dead letter", 10)
	produce(t, brokers, "orders.dlq.archive", "not a dead letter", 10)

	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
	a := admin(t, brokers)
	awaitCommitted(t, a, group, "orders.dlq", 1200)
	awaitCommitted(t, a, group, "pay.dlq.v1", 10)
	require.Equal(t, 1210.0, ingest.metric(t, "dlq_ingested_total"))
	require.Equal(t, 0.0, ingest.metric(t, "dlq_ingest_duplicates_total"))
	require.Equal(t, 6, ingest.Status().Partitions)

	ingest.stop(t)
	require.Empty(t, cluster.GroupInfo(group).Members, "the member left the group")
	require.False(t, ingest.Status().Running)
}

func TestIngestKeepsTheOrderOfAPartition(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 1500)
	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
	require.Equal(t, want, store.values())
	ids := map[dlq.ID]bool{}
	for _, a := range store.all() {
		ids[a.ID] = true
	}
	require.Len(t, ids, 1500)
}

func TestIngestAfterACrashBetweenStoreAndCommitStoresNothingTwice(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq"))
	brokers := cluster.ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 700)
	// To the group, a process that dies after storing looks like a process whose commits never arrive.
	lost := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: -1})
	store := newMemory()
	first := startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
	first.stop(t)
	lost.Remove()
	a := admin(t, brokers)
	require.Zero(t, committed(t, a, group, "orders.dlq"))

	second := startIngest(t, quickOptions(brokers), store)
	awaitCommitted(t, a, group, "orders.dlq", 700)
	awaitValues(t, store, want)
	require.Zero(t, store.duplicates())
	require.Equal(t, 0.0, second.metric(t, "dlq_ingested_total"))
}

func TestIngestCommitsNothingThatIsNotStored(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 20)
	store := newMemory()
	var asked atomic.Int32
	store.refuseWith(func([]dlq.Arrival) error { asked.Add(1); return errStoreAway })
	o := quickOptions(brokers)
	o.StopGrace = 50 * time.Millisecond
	first := startIngest(t, o, store)
	require.Eventually(t, func() bool { return asked.Load() > 2 }, timeout, tick)
	first.stop(t)
	require.Zero(t, committed(t, admin(t, brokers), group, "orders.dlq"))

	store.refuseWith(nil)
	startIngest(t, o, store)
	awaitValues(t, store, want)
}

func TestIngestWaitsForAnUnavailableStoreAndSkipsNothing(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq"), kfake.GroupMinSessionTimeout(time.Second))
	brokers := cluster.ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "before", 10)
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)

	var asked atomic.Int32
	store.refuseWith(func([]dlq.Arrival) error { asked.Add(1); return errStoreAway })
	want = append(want, produce(t, brokers, "orders.dlq", "during", 1000)...)
	heartbeats := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	require.Eventually(t, func() bool { return asked.Load() > 3 }, timeout, tick)
	require.NoError(t, heartbeats.Wait(deadline(t), 2), "the member stays in the group while it waits")
	status := ingest.Status()
	require.Equal(t, "store", status.Waiting)
	require.Contains(t, status.LastError, "connection refused")
	require.Equal(t, 1.0, ingest.metric(t, "dlq_ingest_stalled"))

	store.refuseWith(nil)
	awaitValues(t, store, want)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "" }, timeout, tick)
	require.Equal(t, 0.0, ingest.metric(t, "dlq_ingest_stalled"))
	require.Zero(t, store.duplicates(), "the partitions were not assigned to another member meanwhile")
	awaitCommitted(t, admin(t, brokers), group, "orders.dlq", 1010)
}

func TestIngestRebalancesWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(8, "orders.dlq")).ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 400)
	stuck := newMemory()
	var asked atomic.Int32
	stuck.refuseWith(func([]dlq.Arrival) error { asked.Add(1); return errStoreAway })
	o := quickOptions(brokers)
	o.StopGrace = 50 * time.Millisecond
	first := startIngest(t, o, stuck)
	require.Eventually(t, func() bool { return asked.Load() > 0 }, timeout, tick)

	healthy := newMemory()
	second := startIngest(t, o, healthy)
	require.Eventually(t, func() bool { return len(healthy.all()) == 200 }, timeout, tick)
	require.Equal(t, 4, second.Status().Partitions)
	require.Equal(t, 4, first.Status().Partitions)
	// The first ingest drops the fetched records of the partitions that it lost.
	stuck.refuseWith(nil)
	require.Eventually(t, func() bool { return len(stuck.all()) == 200 }, timeout, tick)
	require.ElementsMatch(t, want, append(stuck.values(), healthy.values()...))
	awaitCommitted(t, admin(t, brokers), group, "orders.dlq", 400)
}

func TestIngestIsolatesTheOneArrivalThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 100)
	store := newMemory()
	store.refuseWith(func(arrivals []dlq.Arrival) error {
		for _, a := range arrivals {
			if string(a.Record.Value) == "v-71" {
				return errors.New("value too long")
			}
		}
		return nil
	})
	ingest := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return len(store.all()) == 71 }, timeout, tick)
	a := admin(t, brokers)
	awaitCommitted(t, a, group, "orders.dlq", 71)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "store" }, timeout, tick)
	require.Contains(t, ingest.Status().LastError, "value too long")
	store.refuseWith(nil)
	awaitValues(t, store, want)
	require.Equal(t, want, store.values())
}

func TestIngestFindsATopicThatIsCreatedLater(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t).ListenAddrs()
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return ingest.Status().Running }, timeout, tick)
	a := admin(t, brokers)
	createTopic(t, a, "late.dlq", 2)
	awaitValues(t, store, produce(t, brokers, "late.dlq", "v", 10))
}

func TestIngestTreatsARecreatedTopicAsAnother(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"))
	brokers := cluster.ListenAddrs()
	a := admin(t, brokers)
	want := produce(t, brokers, "orders.dlq", "old", 10)
	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
	awaitCommitted(t, a, group, "orders.dlq", 10)

	deleteTopic(t, brokers, "orders.dlq")
	createTopic(t, a, "orders.dlq", 1)
	want = append(want, produce(t, brokers, "orders.dlq", "new", 15)...)
	awaitValues(t, store, want)
	awaitCommitted(t, a, group, "orders.dlq", 15)
	ids := map[[16]byte]int{}
	for _, arrival := range store.all() {
		ids[arrival.Source.TopicID]++
	}
	require.Len(t, ids, 2)
}

func TestIngestResumesFromNoCommitOfATopicThatIsGone(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"))
	brokers := cluster.ListenAddrs()
	a := admin(t, brokers)
	want := produce(t, brokers, "orders.dlq", "old", 10)
	store := newMemory()
	first := startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
	awaitCommitted(t, a, group, "orders.dlq", 10)
	first.stop(t)
	offsets, err := a.FetchOffsets(deadline(t), group)
	require.NoError(t, err)
	old, _ := offsets.Lookup("orders.dlq", 0)

	deleteTopic(t, brokers, "orders.dlq")
	createTopic(t, a, "orders.dlq", 1)
	want = append(want, produce(t, brokers, "orders.dlq", "new", 15)...)
	// A commit that was in flight when the topic was deleted arrives now.
	late := kadm.Offsets{}
	late.Add(kadm.Offset{Topic: "orders.dlq", Partition: 0, At: old.At, LeaderEpoch: -1, Metadata: old.Metadata})
	byName := kadm.NewClient(client(t, brokers, kgo.MaxVersions(kversion.V3_8_0()))) // as clients of brokers before 4.2 commit
	require.NoError(t, byName.CommitAllOffsets(deadline(t), group, late))
	require.EqualValues(t, 10, committed(t, a, group, "orders.dlq"))

	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, want)
}

func TestIngestSharesPartitionsAndLosesNothingInRebalances(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(8, "orders.dlq")).ListenAddrs()
	rebalances(t, brokers, "orders.dlq", quickOptions(brokers), topics(t))
}

// rebalances starts three ingests one after another on one store. Their runs overlap.
func rebalances(t *testing.T, brokers []string, topic string, o kafka.Options, topics *dlq.Topics) {
	t.Helper()
	store := newMemory()
	first := startIngestOf(t, o, store, topics)
	want := produce(t, brokers, topic, "one", 300)
	require.Eventually(t, func() bool { return first.Status().Partitions == 8 }, timeout, tick)
	second := startIngestOf(t, o, store, topics)
	want = append(want, produce(t, brokers, topic, "two", 2000)...)
	require.Eventually(t, func() bool { return first.Status().Partitions == 4 && second.Status().Partitions == 4 }, timeout, tick)
	want = append(want, produce(t, brokers, topic, "both", 300)...)
	first.stop(t)
	third := startIngestOf(t, o, store, topics)
	want = append(want, produce(t, brokers, topic, "three", 2000)...)
	require.Eventually(t, func() bool { return second.Status().Partitions == 4 && third.Status().Partitions == 4 }, timeout, tick)
	awaitValues(t, store, want)
	awaitCommitted(t, admin(t, brokers), o.ConsumerGroup, topic, int64(len(want)))
}

func TestIngestStoresUndecodableRecordsAsTheyAre(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	at := time.UnixMilli(1_700_000_000_123)
	sent := []*kgo.Record{
		{Value: nil, Key: nil, Timestamp: at},
		{Value: []byte{}, Key: []byte{}},
		{Value: []byte{0xff, 0x00, 0xfe}, Key: []byte{0xff, 0x00}},
		{Value: []byte(`{"a":"\u0000"}`), Headers: []kgo.RecordHeader{
			{Key: "\xff\xfe", Value: []byte{0xff}}, {Key: "", Value: nil}, {Key: "x", Value: []byte{}}, {Key: "x", Value: []byte("2")},
			{Key: "error", Value: []byte("bro\x00ken \xff")}, {Key: "original_topic", Value: []byte("no such/topic")},
			{Key: "dlq-retry-count", Value: []byte("many")}, {Key: "dlq-message-id", Value: []byte("me")},
		}},
		{Value: []byte(`{"a":1}`)},
	}
	for _, r := range sent {
		r.Topic = "orders.dlq"
		require.NoError(t, client(t, brokers).ProduceSync(deadline(t), r).FirstErr())
	}
	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return len(store.all()) == len(sent) }, timeout, tick)
	for i, a := range store.all() {
		require.Equal(t, sent[i].Key, a.Record.Key, "null and empty differ")
		require.Equal(t, sent[i].Value, a.Record.Value, "null and empty differ")
		require.Len(t, a.Record.Headers, len(sent[i].Headers))
		for j, header := range a.Record.Headers {
			require.Equal(t, sent[i].Headers[j].Key, header.Key)
			require.Equal(t, sent[i].Headers[j].Value, header.Value, "null and empty differ")
		}
		require.Equal(t, "orders", a.Origin.Topic)
		require.EqualValues(t, i, a.Source.Offset)
		require.Zero(t, a.RetryCount)
		require.True(t, a.PreviousID.IsZero())
		require.Equal(t, dlq.StatusPending, a.Status())
	}
	require.Equal(t, at.UTC(), store.all()[0].Record.Timestamp)
	require.Equal(t, "bro\u2400ken \uFFFD", store.all()[3].ErrorMessage)
	require.Nil(t, store.all()[3].Payload)
	require.JSONEq(t, `{"a":1}`, string(store.all()[4].Payload))
	require.Equal(t, dlq.UnknownError, store.all()[4].ErrorMessage)
}

func TestIngestTakesNeitherControlRecordsNorAbortedOnes(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	producer := client(t, brokers, kgo.TransactionalID("shop"))
	for value, end := range map[string]kgo.TransactionEndTry{"committed": kgo.TryCommit, "aborted": kgo.TryAbort} {
		require.NoError(t, producer.BeginTransaction())
		require.NoError(t, producer.ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: []byte(value)}).FirstErr())
		require.NoError(t, producer.EndTransaction(deadline(t), end))
	}
	last := produce(t, brokers, "orders.dlq", "last", 1)
	store := newMemory()
	startIngest(t, quickOptions(brokers), store)
	awaitValues(t, store, append([]string{"committed"}, last...))
}

func TestIngestStartsBeforeItsBrokers(t *testing.T) {
	t.Parallel()
	gone := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"), kfake.DataDir(t.TempDir()))
	brokers := gone.ListenAddrs()
	gone.Close()
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "kafka" }, timeout, tick)
	require.NotEmpty(t, ingest.Status().LastError)
	kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"), kfake.Ports(port(t, brokers[0])))
	awaitValues(t, store, produce(t, brokers, "orders.dlq", "v", 5))
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "" }, timeout, tick)
}

func TestIngestStopsInTimeWhenTheBrokersAreGone(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"))
	store := newMemory()
	ingest := startIngest(t, quickOptions(cluster.ListenAddrs()), store)
	awaitValues(t, store, produce(t, cluster.ListenAddrs(), "orders.dlq", "v", 5))
	cluster.Close()
	start := time.Now()
	ingest.stop(t)
	require.Less(t, time.Since(start), 20*time.Second)
}

func TestIngestMeasuresItsLagWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq")).ListenAddrs()
	store := newMemory()
	store.refuseWith(func([]dlq.Arrival) error { return errStoreAway })
	want := produce(t, brokers, "orders.dlq", "v", 30)
	o := quickOptions(brokers)
	o.StopGrace = 50 * time.Millisecond
	ingest := startIngest(t, o, store)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_lag") == 30 }, timeout, tick)
	store.refuseWith(nil)
	awaitValues(t, store, want)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_lag") == 0 }, timeout, tick)
}

func TestIngestCountsUnreadRecordsThatRetentionDeletesSoon(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	require.NoError(t, err)
	defer client.Close()
	retention := strconv.FormatInt((10 * day).Milliseconds(), 10)
	_, err = kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &retention}}, "orders.dlq")
	require.NoError(t, err)
	for _, age := range []time.Duration{9 * day, 8*day + time.Hour, 7 * day, 0} {
		r := &kgo.Record{Topic: "orders.dlq", Value: []byte(age.String()), Timestamp: time.Now().Add(-age)}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	store := newMemory()
	store.refuseWith(func([]dlq.Arrival) error { return errStoreAway })
	o := quickOptions(brokers)
	o.StopGrace = 50 * time.Millisecond
	ingest := startIngest(t, o, store)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_expiring_records") == 2 }, timeout, tick)
	store.refuseWith(nil)
	require.Eventually(t, func() bool { return ingest.metric(t, "dlq_ingest_expiring_records") == 0 }, timeout, tick)
}
