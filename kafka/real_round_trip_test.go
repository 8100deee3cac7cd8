package kafka_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
)

// writer is a way to write a dead-letter topic, and the dead letters that it wrote.
type writer struct {
	name        string
	compression kgo.CompressionCodec
	// attribute is the number of the compression in the attributes of a record.
	attribute     uint8
	transactional bool
	logAppendTime bool

	topic, dlqTopic string
	letters         map[int64]*dlqtest.Letter // by offset
	dead            map[int64]dlq.Record
}

func writers() []*writer {
	return []*writer{
		{name: "none", compression: kgo.NoCompression()},
		{name: "gzip", compression: kgo.GzipCompression(), attribute: 1},
		{name: "snappy", compression: kgo.SnappyCompression(), attribute: 2},
		{name: "lz4", compression: kgo.Lz4Compression(), attribute: 3},
		{name: "zstd", compression: kgo.ZstdCompression(), attribute: 4},
		{name: "transactions", compression: kgo.GzipCompression(), attribute: 1, transactional: true},
		{name: "log-append-time", compression: kgo.NoCompression(), logAppendTime: true},
	}
}

// Compression and transactions are properties of a batch, and LogAppendTime is a property of a topic, so a
// republished record does not have them. Batches of the older formats (magic 0 and 1) have no headers, and
// current clients cannot write them.
func TestRealRecordsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	random := dlqtest.NewRandom(dlqtest.Seed(t))
	began, written := time.Now(), 0
	byTopic := map[string]*writer{}
	for _, w := range writers() {
		w.createTopics(t, brokers, s)
		w.write(t, brokers, random)
		byTopic[w.dlqTopic] = w
		written += len(w.dead)
	}
	store := newMemory()
	o := s.options(brokers)
	o.DeliveryTimeout = timeout
	startIngestOf(t, o, store, s.topics)
	require.Eventually(t, func() bool { return len(store.all()) >= written }, timeout, tick)

	var envelopes []dlq.Envelope
	letters := map[string]*dlqtest.Letter{} // by message id
	for _, a := range store.all() {
		letters[a.ID.String()] = byTopic[a.DLQTopic].requireStored(t, a, began)
		envelopes = append(envelopes, dlq.Envelope{ID: a.ID, OriginalTopic: a.Origin.Topic, RetryCount: 1, Record: a.Record})
	}
	require.Len(t, letters, written, "each record is another message")
	for _, err := range errorsOf(newPublisher(t, o).Publish(context.Background(), envelopes, dlq.OrderKey, nil)) {
		require.NoError(t, err)
	}

	ends := int64(0)
	for _, w := range byTopic {
		for _, r := range read(t, brokers, w.topic, len(w.dead)) {
			got, id := recordOf(r), header(r, "dlq-message-id")
			require.Contains(t, letters, id)
			got.Headers = got.Headers[:len(got.Headers)-2] // without the two headers of the publisher
			require.Empty(t, dlqtest.Difference(&letters[id].Own, &got), "%s: offset %d", w.name, r.Offset)
			delete(letters, id)
		}
		require.EqualValues(t, len(w.dead), endOffset(t, brokers, w.topic))
		ends += endOffset(t, brokers, w.dlqTopic)
	}
	require.Empty(t, letters)
	require.Eventually(t, func() bool { return store.next() == ends }, timeout, tick, "also past the markers of transactions")
	require.Len(t, store.all(), written, "aborted records never appear")
}

func (w *writer) createTopics(t *testing.T, brokers []string, s scope) {
	t.Helper()
	w.topic, w.dlqTopic = s.topic(w.name), s.topic(w.name+".dlq")
	timestamps := "CreateTime"
	if w.logAppendTime {
		timestamps = "LogAppendTime"
	}
	for _, topic := range []string{w.topic, w.dlqTopic} {
		createTopic(t, admin(t, brokers), topic, 1, "max.message.bytes", "16777216", "retention.ms", "-1", "message.timestamp.type", timestamps)
	}
}

// write fills the dead-letter topic. Every other transaction is aborted.
func (w *writer) write(t *testing.T, brokers []string, random *dlqtest.Random) {
	t.Helper()
	options := []kgo.Opt{kgo.ProducerBatchCompression(w.compression), kgo.ProducerBatchMaxBytes(16 << 20)}
	if w.transactional {
		options = append(options, kgo.TransactionalID(w.dlqTopic))
	}
	producer := client(t, brokers, options...)
	w.dead, w.letters = map[int64]dlq.Record{}, map[int64]*dlqtest.Letter{}
	for batch := range 8 {
		letters, dead, records := make([]dlqtest.Letter, 12), make([]dlq.Record, 12), make([]*kgo.Record, 12)
		for i := range records {
			letters[i] = random.LetterOf(random.IntN(2000), random.IntN(20))
			if batch == 4 && i == 6 { // too large for a batch of the publisher
				letters[i] = random.LetterOf(2<<20, 1000)
			}
			dead[i], _ = random.Fail(&letters[i], letters[i].Own, w.topic, w.dlqTopic, "")
			dead[i].Timestamp = random.Timestamp()
			records[i] = kgoRecord(w.dlqTopic, dead[i])
		}
		switch {
		case w.transactional && batch%2 == 1:
			transaction(t, producer, kgo.TryAbort, records...)
			continue
		case w.transactional:
			transaction(t, producer, kgo.TryCommit, records...)
		default:
			require.NoError(t, producer.ProduceSync(deadline(t), records...).FirstErr())
		}
		for i, r := range records {
			w.letters[r.Offset], w.dead[r.Offset] = &letters[i], dead[i]
		}
	}
	// The client does not compress a batch that would become larger.
	require.True(t, slices.ContainsFunc(read(t, brokers, w.dlqTopic, len(w.dead)), func(r *kgo.Record) bool {
		return r.Attrs.CompressionType() == w.attribute
	}), "no batch has the compression of %s", w.name)
}

// requireStored checks that the arrival is a dead letter of the writer, and returns its
// letter.
func (w *writer) requireStored(t *testing.T, a dlq.Arrival, began time.Time) *dlqtest.Letter {
	t.Helper()
	dead, known := w.dead[a.Source.Offset]
	require.True(t, known, "%s: offset %d", w.name, a.Source.Offset)
	require.Empty(t, dlqtest.Difference(&dead, &a.Record), "%s: offset %d", w.name, a.Source.Offset)
	if w.logAppendTime {
		require.WithinRange(t, a.Record.Timestamp, began.Add(-time.Second), time.Now(), "the broker's time")
	} else {
		require.Equal(t, dead.Timestamp.UTC(), a.Record.Timestamp)
	}
	require.Equal(t, w.topic, a.Origin.Topic)
	return w.letters[a.Source.Offset]
}

func kgoRecord(topic string, record dlq.Record) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: record.Key, Value: record.Value, Timestamp: record.Timestamp}
	for _, h := range record.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

func recordOf(r *kgo.Record) dlq.Record {
	record := dlq.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, dlq.Header{Key: h.Key, Value: h.Value})
	}
	return record
}

func endOffset(t testing.TB, brokers []string, topic string) int64 {
	t.Helper()
	ends, err := admin(t, brokers).ListEndOffsets(deadline(t), topic)
	require.NoError(t, err)
	end, found := ends.Lookup(topic, 0)
	require.True(t, found)
	return end.Offset
}
