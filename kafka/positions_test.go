package kafka_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// setGroupOffset makes the request that kafka-consumer-groups.sh --reset-offsets makes.
func setGroupOffset(t *testing.T, a *kadm.Client, group, topic string, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: at, LeaderEpoch: -1})
	require.NoError(t, a.CommitAllOffsets(deadline(t), group, offsets))
}

func TestIngestContinuesAtThePositionsOfItsStore(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	reset := func(at int64) { setGroupOffset(t, admin(t, brokers), group, "orders.dlq", at) }
	goesOnFromItsStore(t, brokers, "orders.dlq", reset, func(store *memory) *running { return startIngest(t, quickOptions(brokers), store) })
}

func goesOnFromItsStore(t *testing.T, brokers []string, topic string, reset func(at int64), start func(*memory) *running) {
	t.Helper()
	want := produce(t, brokers, topic, "v", 10)
	reset(6)
	store := newMemory()
	first := start(store)
	awaitValues(t, store, want)
	first.stop(t)

	for _, at := range []int64{0, 7, 500} { // before and after the position, and after the log's end
		reset(at)
		want = append(want, produce(t, brokers, topic, fmt.Sprint("after ", at), 3)...)
		next := start(store)
		awaitValues(t, store, want)
		next.stop(t)
	}
	require.Zero(t, store.duplicates())
	require.Zero(t, store.lostOffsets())
}

// The database is restored to an earlier moment while the ingest runs.
func TestIngestReadsAgainAfterARestore(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"while records arrive": false, "while nothing arrives": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq")).ListenAddrs()
			takesInAgain(t, brokers, "orders.dlq", idle, func(store *memory) *running { return startIngest(t, quickOptions(brokers), store) })
		})
	}
}

func takesInAgain(t *testing.T, brokers []string, topic string, idle bool, start func(*memory) *running) {
	t.Helper()
	store := newMemory()
	empty := store.backup()
	start(store)
	want := produce(t, brokers, topic, "before", 150)
	awaitValues(t, store, want)
	earlier := store.backup()
	want = append(want, produce(t, brokers, topic, "lost", 50)...)
	awaitValues(t, store, want)
	ids := map[dlq.ID]bool{}
	for _, a := range store.all() {
		ids[a.ID] = true
	}
	for i, then := range []*memory{earlier, empty} {
		store.restore(then)
		if !idle {
			want = append(want, produce(t, brokers, topic, fmt.Sprint("after ", i), 20)...)
		}
		awaitValues(t, store, want)
		require.EqualValues(t, len(want), store.next())
	}
	again := 0
	for _, a := range store.all() {
		if ids[a.ID] {
			again++
		}
	}
	require.Equal(t, 200, again, "with the same ids")
}

// The client ignores a seek while it asks the partition's leader for an epoch.
func TestIngestSeeksBackWhileTheLeaderIsUnavailable(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq"))
	brokers := cluster.ListenAddrs()
	store := newMemory()
	first := startIngest(t, quickOptions(brokers), store)
	want := produce(t, brokers, "orders.dlq", "before", 150)
	awaitValues(t, store, want)
	earlier := store.backup()
	want = append(want, produce(t, brokers, "orders.dlq", "lost", 50)...)
	awaitValues(t, store, want)
	first.stop(t)

	leaderIsBack := make(chan struct{})
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { <-leaderIsBack })
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	second := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return second.Status().Partitions == 1 }, timeout, tick)
	store.restore(earlier)
	asked := store.locatedCount()
	require.Eventually(t, func() bool { return store.locatedCount() >= asked+2 }, timeout, tick, "it has noticed")
	close(leaderIsBack)
	want = append(want, produce(t, brokers, "orders.dlq", "after", 10)...)
	awaitValues(t, store, want)
	require.EqualValues(t, 210, store.next())
}

func TestIngestWaitsForItsPositionsWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq")).ListenAddrs()
	want := produce(t, brokers, "orders.dlq", "v", 10)
	store := newMemory()
	store.setUnavailable(true)
	ingest := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "store" }, timeout, tick)
	require.Contains(t, ingest.Status().LastError, "connection refused")
	require.Zero(t, ingest.Status().Partitions)
	store.setUnavailable(false)
	awaitValues(t, store, want)
	require.Empty(t, ingest.Status().Waiting)
}

func TestIngestStopsWhileItWaitsForItsPositions(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(2, "orders.dlq")).ListenAddrs()
	store := newMemory()
	store.setUnavailable(true)
	ingest := startIngest(t, quickOptions(brokers), store)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "store" }, timeout, tick)
	ingest.stop(t)
}

func deleteRecords(t *testing.T, a *kadm.Client, topic string, before int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, before, -1)
	_, err := a.DeleteRecords(deadline(t), offsets)
	require.NoError(t, err)
}

func TestIngestReportsRecordsDeletedBeforeTheyWereRead(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq")).ListenAddrs()
	notesDeletedRecords(t, brokers, "orders.dlq", func(store *memory) *running { return startIngest(t, quickOptions(brokers), store) })
}

func notesDeletedRecords(t *testing.T, brokers []string, topic string, start func(*memory) *running) {
	t.Helper()
	a := admin(t, brokers)
	store := newMemory()
	produce(t, brokers, topic, "deleted before they were read", 5)
	deleteRecords(t, a, topic, 5)
	values := produce(t, brokers, topic, "v", 10)
	first := start(store)
	awaitValues(t, store, values)
	require.Zero(t, store.lostOffsets())
	first.stop(t)

	// Some records of the log remain.
	produce(t, brokers, topic, "deleted", 7)
	deleteRecords(t, a, topic, 22)
	values = append(values, produce(t, brokers, topic, "left", 3)...)
	second := start(store)
	awaitValues(t, store, values)
	require.EqualValues(t, 7, store.lostOffsets())
	require.Equal(t, 7.0, second.metric(t, "dlq_ingest_lost_offsets_total"))
	require.EqualValues(t, 7, second.Status().Lost)
	require.Contains(t, second.Status().Notice, "7 offsets")
	require.Contains(t, second.Status().Notice, topic)
	second.stop(t)

	// No records of the log remain.
	produce(t, brokers, topic, "deleted", 4)
	deleteRecords(t, a, topic, 29)
	third := start(store)
	require.Eventually(t, func() bool { return store.lostOffsets() == 11 }, timeout, tick)
	awaitValues(t, store, append(values, produce(t, brokers, topic, "last", 2)...))
	require.EqualValues(t, 11, store.lostOffsets())
	require.EqualValues(t, 4, third.Status().Lost)
}

func TestIngestStoresTheRecordsOfManyTopicsInOneBatch(t *testing.T) {
	t.Parallel()
	const topics = 500
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("service-%d.dlq", i)
	}
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, names...)).ListenAddrs()
	store := newMemory()
	var hold atomic.Bool
	hold.Store(true)
	store.refuseWith(func([]dlq.Arrival) error {
		if hold.Load() {
			return errStoreAway
		}
		return nil
	})
	startIngest(t, quickOptions(brokers), store)
	want := make([]string, topics)
	records := make([]*kgo.Record, topics)
	for i, name := range names {
		want[i] = fmt.Sprint("of ", name)
		records[i] = &kgo.Record{Topic: name, Value: []byte(want[i])}
	}
	require.NoError(t, client(t, brokers).ProduceSync(deadline(t), records...).FirstErr())
	hold.Store(false)
	awaitValues(t, store, want)
	require.Less(t, store.callCount(), 50, "they come in several polls")
}

func TestIngestPausesAllTopicsWhenTooManyArePendingInAll(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq", "users.dlq")).ListenAddrs()
	store := newMemory()
	o := quickOptions(brokers)
	o.MaxPending = 600
	ingest := startIngest(t, o, store)
	flood := produce(t, brokers, "orders.dlq", "flood", 3000)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == kafka.WaitingForMaxPending }, timeout, tick)
	require.Contains(t, ingest.Status().Notice, "orders.dlq, users.dlq")
	require.LessOrEqual(t, len(store.all()), 600+500, "a batch more")
	others := produce(t, brokers, "users.dlq", "others", 10)

	for store.next() < int64(len(flood)+len(others)) {
		require.LessOrEqual(t, len(store.all()), 600+500, "a batch more")
		store.drain(min(len(store.all()), 500))
		require.Eventually(t, func() bool { return len(store.all()) > 0 || store.next() == int64(len(flood)+len(others)) }, timeout, tick)
	}
	store.drain(len(store.all()))
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "" }, timeout, tick)
}

func TestIngestPausesWhenTooManyArePendingAndResumes(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders.dlq", "users.dlq")).ListenAddrs()
	store := newMemory()
	o := quickOptions(brokers)
	o.MaxPendingPerTopic = 600
	ingest := startIngest(t, o, store)
	flood := produce(t, brokers, "orders.dlq", "flood", 3000)
	require.Eventually(t, func() bool { return ingest.Status().Waiting == kafka.WaitingForMaxPending }, timeout, tick)
	require.Contains(t, ingest.Status().Notice, "orders.dlq")
	require.Equal(t, 1.0, ingest.metric(t, "dlq_ingest_held"))
	require.Equal(t, 1.0, ingest.metric(t, "dlq_ingest_stalled"))
	held := len(store.all())
	require.LessOrEqual(t, held, 600+500, "a batch more")
	others := produce(t, brokers, "users.dlq", "others", 10)
	require.Eventually(t, func() bool { return len(store.all()) == held+10 }, timeout, tick, "others continue")

	store.drain(held - 100) // as retries, deletions and the archive do
	require.Eventually(t, func() bool { return len(store.all()) > 110 }, timeout, tick)
	for len(store.all()) > 0 {
		store.drain(min(len(store.all()), 500))
		if store.next() < int64(len(flood)+len(others)) {
			require.Eventually(t, func() bool { return len(store.all()) > 0 }, timeout, tick)
		}
	}
	require.EqualValues(t, len(flood)+len(others), store.next(), "everything was ingested")
	require.Eventually(t, func() bool { return ingest.Status().Waiting == "" }, timeout, tick)
	require.Zero(t, ingest.metric(t, "dlq_ingest_held"))
}
