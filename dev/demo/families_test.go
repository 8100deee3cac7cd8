package demo

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recordOrigin is the origin that a dead letter names. Partition and offset are -1 if the
// family has none.
type recordOrigin struct {
	topic     string
	partition int32
	offset    int64
}

// headersOf returns the values of one header, in order.
func headersOf(r *kgo.Record, key string) [][]byte {
	var values [][]byte
	for _, h := range r.Headers {
		if h.Key == key {
			values = append(values, h.Value)
		}
	}
	return values
}

func first(t *testing.T, r *kgo.Record, key string) []byte {
	t.Helper()
	values := headersOf(r, key)
	require.NotEmpty(t, values, "no header %s", key)
	return values[0]
}

// inText and inBinary read the three headers of an origin, as decimal text and as
// big-endian integers of exactly four and eight bytes.
func inText(t *testing.T, r *kgo.Record, topic, partition, offset string) recordOrigin {
	t.Helper()
	p, err := strconv.ParseInt(string(first(t, r, partition)), 10, 32)
	require.NoError(t, err)
	o, err := strconv.ParseInt(string(first(t, r, offset)), 10, 64)
	require.NoError(t, err)
	return recordOrigin{string(first(t, r, topic)), int32(p), o}
}

func inBinary(t *testing.T, r *kgo.Record, topic, partition, offset string) recordOrigin {
	t.Helper()
	p, o := first(t, r, partition), first(t, r, offset)
	require.Len(t, p, 4)
	require.Len(t, o, 8)
	return recordOrigin{string(first(t, r, topic)), int32(binary.BigEndian.Uint32(p)), int64(binary.BigEndian.Uint64(o))}
}

// readers recognise a family by a header that only it has, and read its origin.
var readers = []struct {
	name, mark string
	errors     []string // headers with the error
	origin     func(t *testing.T, r *kgo.Record) recordOrigin
}{
	{"this system", "original_topic", []string{"error"}, func(t *testing.T, r *kgo.Record) recordOrigin {
		return recordOrigin{string(first(t, r, "original_topic")), -1, -1}
	}},
	{"Spring recoverer", "kafka_dlt-exception-fqcn", []string{
		"kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-message", "kafka_dlt-exception-stacktrace", "kafka_dlt-original-consumer-group",
	}, func(t *testing.T, r *kgo.Record) recordOrigin {
		return inBinary(t, r, "kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset")
	}},
	{"Spring recoverer, key", "kafka_dlt-key-exception-fqcn", []string{
		"kafka_dlt-key-exception-message", "kafka_dlt-key-exception-stacktrace",
	}, func(t *testing.T, r *kgo.Record) recordOrigin {
		return inBinary(t, r, "kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset")
	}},
	{"Spring @RetryableTopic", "kafka_exception-fqcn", []string{"kafka_exception-message", "kafka_exception-stacktrace"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			require.Len(t, first(t, r, "retry_topic-attempts"), 4)
			return inBinary(t, r, "kafka_original-topic", "kafka_original-partition", "kafka_original-offset")
		}},
	{"Spring Cloud Stream", "x-original-topic", []string{"x-exception-fqcn", "x-exception-message", "x-exception-stacktrace"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			require.Len(t, first(t, r, "x-original-timestamp"), 8)
			return inBinary(t, r, "x-original-topic", "x-original-partition", "x-original-offset")
		}},
	{"Kafka Connect", "__connect.errors.topic", []string{
		"__connect.errors.exception.class.name", "__connect.errors.exception.message", "__connect.errors.exception.stacktrace",
		"__connect.errors.connector.name", "__connect.errors.task.id", "__connect.errors.stage",
	}, func(t *testing.T, r *kgo.Record) recordOrigin {
		return inText(t, r, "__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset")
	}},
	{"Kafka Streams", "__streams.errors.topic", []string{
		"__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace",
	}, func(t *testing.T, r *kgo.Record) recordOrigin {
		return inText(t, r, "__streams.errors.topic", "__streams.errors.partition", "__streams.errors.offset")
	}},
	{"share groups", "__dlq.errors.topic", []string{"__dlq.errors.message", "__dlq.errors.group", "__dlq.errors.delivery.count"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			return inText(t, r, "__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset")
		}},
	{"SmallRye", "dead-letter-topic", []string{"dead-letter-reason", "dead-letter-exception-class-name"}, func(t *testing.T, r *kgo.Record) recordOrigin {
		require.Equal(t, "dead-letter-exception-class-name", r.Headers[0].Key, "its own headers come first")
		return inText(t, r, "dead-letter-topic", "dead-letter-partition", "dead-letter-offset")
	}},
	{"Watermill", "topic_poisoned", []string{"reason_poisoned", "handler_poisoned", "subscriber_poisoned"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			return recordOrigin{string(first(t, r, "topic_poisoned")), -1, -1}
		}},
	{"Micronaut", "micronaut-kafka-original-topic", []string{"micronaut-kafka-exception-class", "micronaut-kafka-exception-message"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			return inText(t, r, "micronaut-kafka-original-topic", "micronaut-kafka-original-partition", "micronaut-kafka-original-offset")
		}},
	{"Karafka", "source_topic", []string{"source_consumer_group", "source_attempts"},
		func(t *testing.T, r *kgo.Record) recordOrigin {
			return inText(t, r, "source_topic", "source_partition", "source_offset")
		}},
}

func TestEveryFamilyNamesTheOrigin(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	require.NoError(t, Run(ctx, Options{Brokers: brokers, Once: true}))
	origins := map[recordOrigin]*kgo.Record{}
	byTopic := map[string][]*kgo.Record{}
	for _, r := range readAll(ctx, t, brokers, 60, originTopics()...) {
		origins[recordOrigin{r.Topic, r.Partition, r.Offset}] = r
		byTopic[r.Topic] = append(byTopic[r.Topic], r)
	}

	seen := map[string]int{}
	var twoHops, causes, pointers int
	for _, letter := range readAll(ctx, t, brokers, 60, dlqTopics()...) {
		families := 0
		for _, reader := range readers {
			if len(headersOf(letter, reader.mark)) == 0 {
				continue
			}
			families++
			seen[reader.name]++
			for _, header := range reader.errors {
				require.NotEmpty(t, first(t, letter, header), "%s: %s", reader.name, header)
			}
			from := reader.origin(t, letter)
			require.Equal(t, originOf(letter), from.topic, reader.name)
			origin := origins[from]
			if from.partition < 0 { // the record with the same content
				for _, r := range byTopic[from.topic] {
					if string(r.Key) == string(letter.Key) && string(r.Value) == string(letter.Value) {
						origin = r
					}
				}
			}
			require.NotNil(t, origin, "%s: nothing at %v", reader.name, from)
			if reader.name == "share groups" && letter.Key == nil && letter.Value == nil {
				pointers++
				continue
			}
			require.Equal(t, origin.Key, letter.Key, reader.name)
			require.Equal(t, origin.Value, letter.Value, reader.name)
			requireContains(t, letter.Headers, origin.Headers)
			if len(headersOf(letter, "dead-letter-cause-class-name")) == 1 && len(headersOf(letter, "dead-letter-cause")) == 1 {
				causes++
			}
			if topics := headersOf(letter, "kafka_dlt-original-topic"); len(topics) == 2 {
				twoHops++
				require.Equal(t, originOf(letter)+".retry", string(topics[1]), "the last is the latest hop")
			}
		}
		require.Equal(t, 1, families, "%v", letter.Headers)
	}
	for _, reader := range readers {
		require.NotZero(t, seen[reader.name], "no dead letter of %s", reader.name)
	}
	require.NotZero(t, twoHops)
	require.NotZero(t, causes)
	require.NotZero(t, pointers)
}

// requireContains checks that the original headers are all present, adjacent and in
// order, and that null and empty values are distinguished.
func requireContains(t *testing.T, headers, original []kgo.RecordHeader) {
	t.Helper()
	for start := 0; start+len(original) <= len(headers); start++ {
		if fmt.Sprintf("%#v", headers[start:start+len(original)]) == fmt.Sprintf("%#v", original) {
			return
		}
	}
	t.Fatalf("%v does not contain %v", headers, original)
}

func TestBigIntegerMatchesJava(t *testing.T) {
	t.Parallel()
	for value, want := range map[int64][]byte{
		0: {0}, 1: {1}, 127: {127}, 128: {0, 128}, 255: {0, 255}, 256: {1, 0}, 1_760_000_000_000: {1, 153, 200, 44, 192, 0},
	} {
		got := bigInteger("x", value).Value
		require.Equal(t, want, got, "%d", value)
		require.Equal(t, value, new(big.Int).SetBytes(got).Int64())
	}
}
