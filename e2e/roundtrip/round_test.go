package roundtrip

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
)

const (
	topic      = "orders"
	dlqTopic   = "orders.dlq"
	partitions = 3
)

// round is a part of the test with some records, and with a broker and a database of its own. Its slices
// have one element for each record.
type round struct {
	t       *testing.T
	random  *dlqtest.Random
	letters []dlqtest.Letter
	bytes   int64 // of all letters

	consumed []dlq.Record // the newest record in the original topic
	dead     []dlq.Record // the newest record in the dead-letter topic
	by       []string     // the framework that wrote the newest dead letter
	ids      []dlq.ID     // the id of the record's newest message
	previous []dlq.ID     // the id of the record's message before the newest
	index    map[dlq.ID]int

	producer, consumer *kgo.Client
	topicID            [16]byte // of the dead-letter topic
	pool               *pgxpool.Pool
	store              *postgres.Store
	publisher          *kafka.Publisher
}

func newRound(t *testing.T, seed uint64, n int) *round {
	t.Helper()
	r := &round{t: t, random: dlqtest.NewRandom(seed), letters: make([]dlqtest.Letter, n), consumed: make([]dlq.Record, n),
		dead: make([]dlq.Record, n), by: make([]string, n), ids: make([]dlq.ID, n)}
	for i := range r.letters {
		switch i { // every round has the largest value and the most headers
		case n / 2:
			r.letters[i] = r.random.LetterOf(dlqtest.LargestValue, 3)
		case n / 3:
			r.letters[i] = r.random.LetterOf(100, dlqtest.MostHeaders)
		default:
			r.letters[i] = r.random.Letter()
		}
		r.consumed[i] = r.letters[i].Own
		r.bytes += int64(len(r.consumed[i].Value))
	}
	r.startKafka()
	r.pool = dbtest.New(t)
	r.store = postgres.New(r.pool, dlqtest.Topics(t))
	r.startManager()
	return r
}

func (r *round) startKafka() {
	brokers := kafkatest.FakeCluster(r.t).ListenAddrs()
	r.producer = client(r.t, brokers, kgo.ProducerBatchMaxBytes(64<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	admin := kadm.NewClient(r.producer)
	limit := "67108864"
	created, err := admin.CreateTopics(r.t.Context(), partitions, 1, map[string]*string{"max.message.bytes": &limit}, topic, dlqTopic)
	require.NoError(r.t, err)
	require.NoError(r.t, created.Error())
	r.topicID = created[dlqTopic].ID
	r.consumer = client(r.t, brokers, kgo.ConsumeTopics(topic))
}

func client(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100*time.Millisecond))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (r *round) startManager() {
	t := r.t
	o := kafka.Options{Brokers: r.producer.OptValue(kgo.SeedBrokers).([]string), ConsumerGroup: "dlq-manager", MaxRetries: circles + 1,
		DeliveryTimeout: timeout} // so that a busy machine causes no failure
	registry := prometheus.NewRegistry()
	ingest, err := kafka.NewIngest(o, r.store, dlqtest.Topics(t), zap.NewNop(), registry)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- ingest.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-stopped)
	})
	r.publisher, err = kafka.NewPublisher(o, zap.NewNop(), registry)
	require.NoError(t, err)
	t.Cleanup(r.publisher.Close)
}

// fail makes a dead letter of each record, by another framework than before, and waits
// until all dead letters are stored.
func (r *round) fail(circle int) {
	records := make([]*kgo.Record, len(r.letters))
	for i := range records {
		r.dead[i], r.by[i] = r.random.Fail(&r.letters[i], r.consumed[i], topic, dlqTopic, r.by[i])
		r.dead[i].Timestamp = r.random.Timestamp()
		records[i] = &kgo.Record{Topic: dlqTopic, Partition: int32(r.random.IntN(partitions)), Timestamp: r.dead[i].Timestamp,
			Key: r.dead[i].Key, Value: r.dead[i].Value}
		for _, h := range r.dead[i].Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	require.NoError(r.t, r.producer.ProduceSync(r.t.Context(), records...).FirstErr())
	r.previous, r.ids, r.index = r.ids, make([]dlq.ID, len(records)), map[dlq.ID]int{}
	for i, record := range records {
		source := dlq.Source{TopicID: r.topicID, Partition: record.Partition, Offset: record.Offset}
		r.ids[i] = dlq.RecordID(source, r.dead[i].Timestamp)
		r.index[r.ids[i]] = i
	}
	require.Len(r.t, r.index, len(records))
	require.Eventually(r.t, func() bool { return r.count(`SELECT count(*) FROM dlq.dlq_messages`) == circle*len(records) },
		timeout, 20*time.Millisecond, "waiting for the ingest")
	r.requireLinks(circle)
}

func (r *round) count(sql string) (n int) {
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), sql).Scan(&n))
	return n
}

// requireLinks checks that each new message names the previous message of its record.
func (r *round) requireLinks(circle int) {
	rows, err := r.pool.Query(r.t.Context(),
		`SELECT id, COALESCE(previous_id, '00000000-0000-0000-0000-000000000000'), retry_count FROM dlq.dlq_messages WHERE status = 'PENDING'`)
	require.NoError(r.t, err)
	defer rows.Close()
	found := 0
	for ; rows.Next(); found++ {
		var id, previous [16]byte
		var count int
		require.NoError(r.t, rows.Scan(&id, &previous, &count))
		i, known := r.index[id]
		require.True(r.t, known, "message %s", dlq.ID(id))
		require.Equal(r.t, r.previous[i], dlq.ID(previous), "record %d", i)
		require.Equal(r.t, circle-1, count, "record %d", i)
	}
	require.NoError(r.t, rows.Err())
	require.Len(r.t, r.letters, found)
}

// consume reads the records that were sent back: each record once, as its producer wrote it.
func (r *round) consume(circle int) {
	seen := map[dlq.ID]bool{}
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	for len(seen) < len(r.letters) {
		fetches := r.consumer.PollFetches(ctx)
		require.NoError(r.t, fetches.Err(), "%d of %d records came back", len(seen), len(r.letters))
		fetches.EachRecord(func(record *kgo.Record) {
			id := r.requireOwn(circle, record)
			require.False(r.t, seen[id], "message %s came back twice", id)
			seen[id] = true
		})
	}
}

func (r *round) requireOwn(circle int, record *kgo.Record) dlq.ID {
	got := dlq.Record{Key: record.Key, Value: record.Value}
	for _, h := range record.Headers {
		got.Headers = append(got.Headers, dlq.Header{Key: h.Key, Value: h.Value})
	}
	own := len(got.Headers) - 2
	require.GreaterOrEqual(r.t, own, 0)
	require.Equal(r.t, "dlq-message-id", got.Headers[own].Key)
	id, err := dlq.ParseID(string(got.Headers[own].Value))
	require.NoError(r.t, err)
	i, known := r.index[id]
	require.True(r.t, known, "message %s", id)
	require.Equal(r.t, dlq.Header{Key: "dlq-retry-count", Value: []byte(strconv.Itoa(circle))}, got.Headers[own+1], "record %d", i)

	r.consumed[i] = got
	got.Headers = got.Headers[:own:own]
	require.Empty(r.t, dlqtest.Difference(&r.letters[i].Own, &got), "record %d came back from circle %d, after %s", i, circle, r.by[i])
	require.WithinRange(r.t, record.Timestamp, time.Now().Add(-timeout), time.Now().Add(time.Second), "the timestamp is new")
	return id
}

// requireNothingElse checks that there are no further records and no further messages.
func (r *round) requireNothingElse() {
	ends, err := kadm.NewClient(r.producer).ListEndOffsets(r.t.Context(), topic, dlqTopic)
	require.NoError(r.t, err)
	total := map[string]int64{}
	ends.Each(func(end kadm.ListedOffset) { total[end.Topic] += end.Offset })
	want := int64(circles * len(r.letters))
	require.Equal(r.t, map[string]int64{topic: want, dlqTopic: want}, total)
	require.EqualValues(r.t, want, r.count(`SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED'`))
}
