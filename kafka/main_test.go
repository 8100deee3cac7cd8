package kafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func TestMain(m *testing.M) {
	dlqtest.AtOnce(4)
	os.Exit(kafkatest.Main(m))
}

const (
	timeout = 60 * time.Second // for an expected event
	tick    = 20 * time.Millisecond
)

// memory is a store that recognises stored records, like the real one.
type memory struct {
	mu          sync.Mutex
	known       map[dlq.ID]bool
	order       []dlq.Arrival
	positions   map[dlq.Partition]dlq.Position
	lost        int64
	calls       int
	skipped     int
	located     int  // how often Positions was called
	unavailable bool // Positions fails
	// refuse is called before each call, which returns its error.
	refuse func([]dlq.Arrival) error
}

func newMemory() *memory {
	return &memory{known: map[dlq.ID]bool{}, positions: map[dlq.Partition]dlq.Position{}}
}

func (m *memory) Ingest(_ context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		if err := m.refuse(arrivals); err != nil {
			return nil, err
		}
	}
	for _, a := range advances {
		if at, found := m.positions[a.Partition]; !found || at.Next != a.From.Next {
			return nil, dlq.ErrPositionMoved
		}
	}
	for _, a := range advances {
		m.positions[a.Partition] = a.To
		m.lost += a.Lost
	}
	m.calls++
	for _, a := range arrivals {
		if m.known[a.ID] {
			m.skipped++
			continue
		}
		m.known[a.ID] = true
		m.order = append(m.order, a)
		stored = append(stored, a.ID)
	}
	return stored, nil
}

func (m *memory) Positions(_ context.Context, partitions []dlq.Partition) ([]dlq.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.located++
	if m.unavailable {
		return nil, errStoreAway
	}
	found := make([]dlq.Position, len(partitions))
	for i, p := range partitions {
		if _, known := m.positions[p]; !known {
			m.positions[p] = dlq.Start
		}
		found[i] = m.positions[p]
	}
	return found, nil
}

func (m *memory) Pending(_ context.Context, topics []string) (counts []int64, all int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts = make([]int64, len(topics))
	for _, a := range m.order {
		all++
		if i := slices.Index(topics, a.DLQTopic); i >= 0 {
			counts[i]++
		}
	}
	return counts, all, nil
}

// drain removes the oldest messages, as retries do.
func (m *memory) drain(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = m.order[n:]
}

// backup is a copy of the present content.
func (m *memory) backup() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{known: maps.Clone(m.known), order: slices.Clone(m.order), positions: maps.Clone(m.positions)}
}

// restore goes back to a backup, as when a database is restored under a running ingest.
func (m *memory) restore(then *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.order, m.positions = maps.Clone(then.known), slices.Clone(then.order), maps.Clone(then.positions)
}

func (m *memory) setUnavailable(unavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable = unavailable
}

// next is the sum of all positions.
func (m *memory) next() (sum int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.positions {
		sum += max(p.Next, 0)
	}
	return sum
}

func (m *memory) refuseWith(fn func([]dlq.Arrival) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = fn
}

func (m *memory) all() []dlq.Arrival {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]dlq.Arrival(nil), m.order...)
}

func (m *memory) lostOffsets() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}

func (m *memory) callCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func (m *memory) locatedCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.located
}

func (m *memory) duplicates() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skipped
}

func (m *memory) values() []string {
	var values []string
	for _, a := range m.all() {
		values = append(values, string(a.Record.Value))
	}
	return values
}

// awaitValues waits until exactly these values are stored, in any order.
func awaitValues(t testing.TB, m *memory, want []string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(m.all()) >= len(want) }, timeout, tick,
		"waiting for %d stored dead letters", len(want))
	require.ElementsMatch(t, want, m.values())
}

var errStoreAway = fmt.Errorf("connection refused: %w", dlq.ErrUnavailable)

func topics(t testing.TB) *dlq.Topics {
	t.Helper()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	return topics
}

const group = "dlq-manager.default"

func quickOptions(brokers []string) kafka.Options {
	return kafka.Options{Brokers: brokers, ConsumerGroup: group, MaxRetries: dlq.DefaultMaxRetries, MetadataMaxAge: 250 * time.Millisecond,
		WatchInterval: 250 * time.Millisecond}
}

func testLog(t testing.TB) *zap.Logger {
	return zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
}

// running is an ingest in a goroutine of its own.
type running struct {
	*kafka.Ingest
	metrics *prometheus.Registry
	logs    *observer.ObservedLogs // warnings and errors
	cancel  context.CancelFunc
	done    chan error
}

func startIngest(t testing.TB, o kafka.Options, store kafka.ArrivalStore) *running {
	t.Helper()
	return startIngestOf(t, o, store, topics(t))
}

func startIngestOf(t testing.TB, o kafka.Options, store kafka.ArrivalStore, topics *dlq.Topics) *running {
	t.Helper()
	registry := prometheus.NewRegistry()
	core, logs := observer.New(zap.WarnLevel) // not the test's logger, since the last line may come after its end
	ingest, err := kafka.NewIngest(o, store, topics, zap.New(core), registry)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Ingest: ingest, metrics: registry, logs: logs, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- ingest.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		require.NoError(t, err)
		r.done <- nil // for the next stop
	case <-time.After(timeout):
		t.Fatal("the ingest does not stop")
	}
}

func (r *running) metric(t testing.TB, name string) float64 {
	t.Helper()
	return sumOf(t, r.metrics, name)
}

// sumOf adds up a metric over all its labels.
func sumOf(t testing.TB, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func client(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func admin(t testing.TB, brokers []string) *kadm.Client {
	t.Helper()
	return kadm.NewClient(client(t, brokers))
}

func createTopic(t testing.TB, a *kadm.Client, topic string, partitions int32, configs ...string) {
	t.Helper()
	settings := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		settings[configs[i]] = &configs[i+1]
	}
	_, err := a.CreateTopic(deadline(t), partitions, 1, settings, topic)
	require.NoError(t, err)
}

// deleteTopic returns once the broker no longer has the topic. The controller answers earlier:
// a busy broker takes records into the deleted topic for a while, even after a topic of the
// same name was created. The client is used for nothing else, since clients cache topics.
func deleteTopic(t testing.TB, brokers []string, topic string) {
	t.Helper()
	a := admin(t, brokers)
	_, err := a.DeleteTopic(deadline(t), topic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		topics, err := a.ListTopics(deadline(t), topic)
		return err == nil && errors.Is(topics[topic].Err, kerr.UnknownTopicOrPartition)
	}, timeout, tick, "waiting for the deletion of %s", topic)
}

// produce writes values round robin over the partitions and returns them.
func produce(t testing.TB, brokers []string, topic, prefix string, n int) []string {
	t.Helper()
	c := client(t, brokers, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	values, records := make([]string, n), make([]*kgo.Record, n)
	for i := range values {
		values[i] = fmt.Sprintf("%s-%d", prefix, i)
		records[i] = &kgo.Record{Topic: topic, Value: []byte(values[i])}
	}
	// The broker may not have a new topic at first.
	require.Eventually(t, func() bool {
		err := c.ProduceSync(deadline(t), records...).FirstErr()
		if err != nil {
			t.Logf("produce to %s: %v", topic, err)
		}
		return err == nil
	}, timeout, tick)
	return values
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// committed returns the sum of the group's committed offsets in a topic.
func committed(t testing.TB, a *kadm.Client, group, topic string) int64 {
	t.Helper()
	sum, err := sumCommitted(deadline(t), a, group, topic)
	require.NoError(t, err)
	return sum
}

func sumCommitted(ctx context.Context, a *kadm.Client, group, topic string) (sum int64, err error) {
	offsets, err := a.FetchOffsets(ctx, group)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			sum += max(o.At, 0)
		}
	})
	return sum, err
}

// awaitCommitted may be called before the group exists, when the broker answers with an error.
func awaitCommitted(t testing.TB, a *kadm.Client, group, topic string, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		sum, err := sumCommitted(deadline(t), a, group, topic)
		return err == nil && sum == want
	}, timeout, tick, "waiting for %d committed in %s", want, topic)
}

func deliveryError(t testing.TB, err error) *dlq.DeliveryError {
	t.Helper()
	var delivery *dlq.DeliveryError
	require.ErrorAsf(t, err, &delivery, "not a delivery error: %v", err)
	return delivery
}

func port(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	return number
}

// noise does not compress.
func noise(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}

// rotating is a secret that changes.
type rotating struct{ value atomic.Value }

func newRotating(value string) *rotating {
	r := &rotating{}
	r.set(value)
	return r
}

func (r *rotating) set(value string)     { r.value.Store(value) }
func (r *rotating) get() (string, error) { return r.value.Load().(string), nil }
