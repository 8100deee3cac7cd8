package kafka

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func be32(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

func be64(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func defaultTopics(t testing.TB) *dlq.Topics {
	t.Helper()
	topics, err := dlq.NewTopics([]string{"*.dlq", "*-dlt"}, nil)
	require.NoError(t, err)
	return topics
}

// The corpus has at least one record of each family. This test has dead letters with headers of several
// hops or families.
func TestTheFirstHopNamesTheOriginAndTheLastOneTheError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []dlq.Header
		want    dlq.Failure
	}{
		"Spring appends origins": {headersOf(
			"kafka_dlt-original-topic", "orders", "kafka_dlt-original-partition", be32(3), "kafka_dlt-original-offset", be64(7),
			"kafka_dlt-original-timestamp", be64(1_700_000_000_123), "kafka_dlt-original-consumer-group", "billing",
			"kafka_dlt-original-topic", "orders-dlt", "kafka_dlt-original-partition", be32(0), "kafka_dlt-original-offset", be64(9),
			"kafka_dlt-original-consumer-group", "repair", "kafka_dlt-exception-message", "boom",
		), dlq.Failure{ErrorMessage: "boom", Origin: dlq.Origin{Topic: "orders", Partition: new(int32(3)), Offset: new(int64(7)),
			Timestamp: time.UnixMilli(1_700_000_000_123).UTC(), ConsumerGroup: "billing", Family: "spring-kafka"}}},
		"SmallRye puts its own first": {headersOf(
			"dead-letter-reason", "second", "dead-letter-topic", "retry", "dead-letter-reason", "first", "dead-letter-topic", "orders",
		), dlq.Failure{ErrorMessage: "second", Origin: dlq.Origin{Topic: "orders", Family: "smallrye"}}},
		"a dead-letter topic is a later hop": {headersOf(
			"kafka_original-topic", "orders", "kafka_original-offset", be64(0), "kafka_exception-message", "first", "retry_topic-attempts", be32(5),
			"kafka_dlt-original-topic", "orders-dlt", "kafka_dlt-exception-message", "later",
		), dlq.Failure{ErrorMessage: "later", Attempts: 4, Origin: dlq.Origin{Topic: "orders", Offset: new(int64(0)), Family: "spring-retryable-topic"}}},
		"the later of two frameworks has the error": {headersOf(
			"kafka_dlt-original-topic", "orders", "kafka_dlt-exception-message", "first",
			"__connect.errors.topic", "orders-dlt", "__connect.errors.exception.message", "later",
		), dlq.Failure{ErrorMessage: "later", Origin: dlq.Origin{Topic: "orders", Family: "spring-kafka"}}},
		"attempts belong to the error": {headersOf("kafka_deliveryAttempt", be32(1), "kafka_original-topic", "orders", "kafka_exception-message", "boom",
			"kafka_dlt-original-consumer-group", "billing", "retry_topic-attempts", be32(5),
		), dlq.Failure{ErrorMessage: "boom", Attempts: 4, Origin: dlq.Origin{Topic: "orders", ConsumerGroup: "billing", Family: "spring-retryable-topic"}}},
		"this system names what others do not": {headersOf("original_topic", "orders", "kafka_dlt-original-topic", "orders-dlt", "kafka_dlt-exception-message", "boom"),
			dlq.Failure{ErrorMessage: "boom", Origin: dlq.Origin{Topic: "orders", Family: "this-system"}}},
		"a topic id is no name": {headersOf("__dlq.errors.topic", "5Wq5NLTxQmKqF7gPAbXGtA", "__dlq.errors.message", "rejected"),
			dlq.Failure{ErrorMessage: "rejected", Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
		"the key could not be deserialized": {headersOf(
			"kafka_dlt-original-topic", "orders", "kafka_dlt-key-exception-fqcn", "a.B", "kafka_dlt-key-exception-message", "bad key",
			"kafka_dlt-key-exception-stacktrace", "a.B: bad key",
		), dlq.Failure{ErrorMessage: "bad key", ErrorClass: "a.B", StackTrace: "a.B: bad key", Origin: dlq.Origin{Topic: "orders", Family: "spring-kafka"}}},
		"another family than this system's": {headersOf("original_topic", "mine", "error", "of the application", "topic_poisoned", "orders"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, Origin: dlq.Origin{Topic: "orders", Family: "watermill"}}},
		"one general name proves nothing": {headersOf("source_topic", "elsewhere", "source_attempts", "3"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
		"Wolverine names the topic itself": {headersOf("exception-type", "Shop.PriceException", "exception-message", "boom", "failed-at", "1700000000123",
			"original-destination", "orders", "original-partition", "3", "original-offset", "7", "attempts", "3",
		), dlq.Failure{ErrorMessage: "boom", ErrorClass: "Shop.PriceException", Attempts: 3,
			Origin: dlq.Origin{Topic: "orders", Partition: new(int32(3)), Offset: new(int64(7)), Family: "wolverine"}}},
		"Wolverine before it named the destination": {headersOf("exception-type", "Shop.PriceException", "exception-message", "boom", "failed-at", "1700000000123"),
			dlq.Failure{ErrorMessage: "boom", ErrorClass: "Shop.PriceException", Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
		"Wolverine after its retry topics": {headersOf("exception-type", "Shop.PriceException", "exception-message", "boom",
			"original-destination", "kafka://topic/orders.retry.5m", "original-partition", "3", "original-offset", "7",
			"wolverine-kafka-retry-source", "orders", "wolverine-kafka-retry-tier", "1", "wolverine-kafka-retry-attempt", "3", "attempts", "1",
		), dlq.Failure{ErrorMessage: "boom", ErrorClass: "Shop.PriceException", Attempts: 3, Origin: dlq.Origin{Topic: "orders", Family: "wolverine"}}},
		"a queue of another broker is no topic": {headersOf("exception-type", "a.B", "original-destination", "rabbitmq://queue/orders"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, ErrorClass: "a.B", Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
		"an exception's type alone proves nothing": {headersOf("exception-type", "a.B", "attempts", "3", "original-offset", "7"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
		"attempts in one byte": {headersOf("kafka_original-topic", "orders", "retry_topic-attempts", "\x04"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, Attempts: 3, Origin: dlq.Origin{Topic: "orders", Family: "spring-retryable-topic"}}},
		"a class without a message": {headersOf("__connect.errors.exception.class.name", "a.B"),
			dlq.Failure{ErrorMessage: dlq.UnknownError, ErrorClass: "a.B", Origin: dlq.Origin{Topic: "from-name", Family: "topic-name"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, failureOf(defaultTopics(t), "from-name.dlq", test.headers))
		})
	}
}

func TestNumbersThatTheFrameworkDoesNotWriteAreUnknown(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "\x00", "7", "\x00\x00\x00", be32(-1), be64(-1), be64(7) + "\x00", "99999999999999999999"} {
		o := failureOf(defaultTopics(t), "x.dlq", headersOf("kafka_dlt-original-topic", "orders", "kafka_dlt-original-partition", value,
			"kafka_dlt-original-offset", value, "kafka_dlt-original-timestamp", value)).Origin
		require.Equal(t, dlq.Origin{Topic: "orders", Family: "spring-kafka"}, o, "%q", value)
	}
	for _, value := range []string{"", "-1", "1.5", "\x00\x00\x00\x07", "99999999999999999999"} {
		o := failureOf(defaultTopics(t), "x.dlq", headersOf("__connect.errors.topic", "orders", "__connect.errors.partition", value,
			"__connect.errors.offset", value)).Origin
		require.Equal(t, dlq.Origin{Topic: "orders", Family: "kafka-connect"}, o, "%q", value)
	}
	require.Nil(t, failureOf(defaultTopics(t), "x.dlq", headersOf("dead-letter-topic", "o", "dead-letter-partition", "2147483648")).Origin.Partition)
}

func TestHeadersOfRecognisedFamiliesAreRemoved(t *testing.T) {
	t.Parallel()
	own := []dlq.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}, {Key: "traceparent", Value: []byte("00-ab")}}
	keys := func(headers []dlq.Header) (keys []string) {
		for _, h := range headers {
			keys = append(keys, h.Key)
		}
		return keys
	}
	for name, test := range map[string]struct {
		added []dlq.Header
		kept  []string
	}{
		"this system":            {headersOf("original_topic", "o", "error", "e"), nil},
		"not of this system":     {headersOf("topic_poisoned", "o", "error", "e"), []string{"error"}},
		"two families":           {headersOf("kafka_dlt-original-topic", "o", "kafka_original-topic", "o", "__streams.errors.topic", "o"), nil},
		"bookkeeping alone":      {headersOf("retry_topic-attempts", be32(2), "delayed-retry-count", "1", "kafka_deliveryAttempt", be32(1)), nil},
		"general names, all":     {headersOf("source_topic", "o", "source_partition", "0", "source_offset", "1", "source_key", "k"), nil},
		"general names, not all": {headersOf("source_topic", "o", "source_key", "k"), []string{"source_topic", "source_key"}},
		"ours":                   {headersOf("dlq-message-id", "x", "dlq-retry-count", "1"), nil},
		"similar":                {headersOf("x-original-url", "u", "kafka_dlt", "x"), []string{"x-original-url", "kafka_dlt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ownRecord(&dlq.Record{Headers: append(own[:len(own):len(own)], test.added...)}).Headers
			require.Equal(t, own, got[:len(own)])
			require.Equal(t, test.kept, keys(got[len(own):]))
		})
	}
}

func TestHostileHeadersAreSuspicious(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []dlq.Header
		want    string
	}{
		"as Spring writes them": {headersOf("retry_topic-original-timestamp", "\x01\x8b\xcf\xe5\x68\x7b", "retry_topic-attempts", be32(2), "n", "1",
			"spring_json_header_types", `{"n":"java.lang.Integer"}`), ""},
		"zero-length timestamp": {headersOf("retry_topic-original-timestamp", ""), "retry_topic-original-timestamp has 0 bytes, and the framework writes 1 to 9"},
		"huge timestamp":        {headersOf("retry_topic-backoff-timestamp", be64(1)+be64(1)), "retry_topic-backoff-timestamp has 16 bytes, and the framework writes 1 to 9"},
		"negative attempts":     {headersOf("retry_topic-attempts", be32(-1)), "retry_topic-attempts is no possible number of attempts"},
		"short attempts":        {headersOf("retry_topic-attempts", "\x00\x01"), "retry_topic-attempts has 2 bytes, and the framework writes 4"},
		"types of no header":    {headersOf("spring_json_header_types", `{"n":"java.lang.Integer"}`), `spring_json_header_types has a type for "n", which the record does not have`},
		"types that are none":   {headersOf("n", "1", "spring_json_header_types", `{"n":"a b"}`), `spring_json_header_types has "a b", which is no Java type`},
		"types not JSON":        {headersOf("spring_json_header_types", `{`), "spring_json_header_types is not a JSON object of names and types"},
		"types too long":        {headersOf("spring_json_header_types", strings.Repeat(" ", 1<<17)), "spring_json_header_types has 131072 bytes"},
		"types null":            {headersOf("spring_json_header_types", `null`), "spring_json_header_types is not a JSON object of names and types"},
		"the second of them":    {headersOf("retry_topic-attempts", be32(1), "retry_topic-attempts", ""), "retry_topic-attempts has 0 bytes, and the framework writes 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, Suspicion(test.headers))
		})
	}
}

func TestTraceAndCorrelationIDsAreReadWhenTheyAreValid(t *testing.T) {
	t.Parallel()
	const trace, valid = "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]string{
		valid: trace, "cc-" + valid[3:] + "-what-the-future-adds": trace,
		"": "", strings.Repeat("-", 1<<20): "", "00-ab": "", "ff" + valid[2:]: "", valid + "-x": "", "00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "", "00-" + trace + "-0000000000000000-01": "",
	} {
		require.Equal(t, want, traceID(headersOf("traceparent", text)), text)
	}
	require.Equal(t, trace, traceID(headersOf("Traceparent", valid, "traceparent", "broken")))
	for _, name := range []string{"correlation-id", "correlation_id", "correlationId", "X-Correlation-ID", "kafka_correlationId"} {
		require.Equal(t, "c-1", correlationID(headersOf(name, "c-1")), name)
		require.Empty(t, correlationID(headersOf(name, "\xff\x00")), "not text")
	}
	require.Empty(t, correlationID(headersOf("correlation", "c")))
}
