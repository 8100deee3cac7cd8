package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// FuzzHeaders searches for headers that cannot be stored, or that change when they are
// sent back.
func FuzzHeaders(f *testing.F) {
	for _, seed := range [][]dlq.Header{
		nil,
		headersOf("kafka_dlt-original-topic", "orders", "kafka_dlt-original-partition", "\xff\xff\xff\xff", "kafka_dlt-exception-message", "a\x00b\xff"),
		headersOf("__connect.errors.topic", "orders", "__connect.errors.partition", strings.Repeat("9", 400), "__connect.errors.offset", "-1"),
		headersOf("source_topic", "orders", "source_partition", "1", "source_offset", "x", "source_attempts", "10001"),
		headersOf("original-destination", "kafka://topic/", "exception-type", "a.B", "wolverine-kafka-retry-source", "\xff", "attempts", "-1"),
		headersOf("original_topic", strings.Repeat("a", 250), "error", "\x00", "original_topic", "orders"),
		headersOf("dead-letter-topic", "orders", "original_topic", "kept", "", "", "\xff\x00", "\x00"),
		headersOf("spring_json_header_types", `{"a\u0000":"java.lang.Str\ud800ing"}`, "a\x00", "1"),
		headersOf("retry_topic-attempts", "\x7f\xff\xff\xff", "kafka_original-topic", "orders", "retry_topic-original-timestamp", ""),
		headersOf("traceparent", "00-"+strings.Repeat("0", 32)+"-b7ad6b7169203331-01", "correlation-id", "\xff"),
		headersOf(headerMessageID, "00000000-0000-0000-0000-000000000000", headerRetryCount, "-1"),
	} {
		f.Add(joinHeaders(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		headers := splitHeaders(data)
		record := &kgo.Record{Topic: "orders.dlq", Value: data, Timestamp: time.UnixMilli(0)}
		for _, h := range headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		arrival := ArrivalOf(defaultTopics(t), nil, dlq.DefaultMaxRetries, [16]byte{1}, record)
		requireStorable(t, &arrival)
		require.Equal(t, headers, arrival.Record.Headers)
		requireSentBack(t, &arrival)
	})
}

func requireStorable(t *testing.T, a *dlq.Arrival) {
	t.Helper()
	for _, text := range []string{
		a.ErrorMessage, a.ErrorClass, a.CauseClass, a.StackTrace, a.TraceID, a.CorrelationID, a.Suspicion, a.Origin.ConsumerGroup, a.Origin.Family,
	} {
		require.Equal(t, dlq.StorableText(text), text)
	}
	require.True(t, dlq.IsTopicName(a.Origin.Topic), "%q", a.Origin.Topic)
	require.NotEmpty(t, a.ErrorMessage)
	require.NotEmpty(t, a.Origin.Family)
	require.True(t, 0 <= a.Attempts && a.Attempts <= maxHeaderRetryCount+1, a.Attempts)
	require.True(t, 0 <= a.RetryCount && a.RetryCount <= a.MaxRetries, a.RetryCount)
	require.True(t, a.Origin.Partition == nil || *a.Origin.Partition >= 0)
	require.True(t, a.Origin.Offset == nil || *a.Origin.Offset >= 0)
}

// requireSentBack requires that a message keeps its own headers when it is sent back, and when it comes
// back and is sent back again.
func requireSentBack(t *testing.T, a *dlq.Arrival) {
	t.Helper()
	own := ownRecord(&a.Record).Headers
	rest := a.Record.Headers
	for _, h := range own {
		i := slices.IndexFunc(rest, func(r dlq.Header) bool {
			return h.Key == r.Key && slices.Equal(h.Value, r.Value) && (h.Value == nil) == (r.Value == nil)
		})
		require.GreaterOrEqual(t, i, 0, "%q is not a header of the record, or out of order", h.Key)
		rest = rest[i+1:]
	}
	for _, family := range familiesOf(a.Record.Headers) {
		require.False(t, slices.ContainsFunc(own, func(h dlq.Header) bool { return family.adds(h.Key) }), family.name)
	}

	sent := outgoing(&dlq.Envelope{ID: a.ID, OriginalTopic: a.Origin.Topic, RetryCount: 1, Record: a.Record}, ownRecord(&a.Record), "")
	require.Equal(t, a.Record.Value, sent.Value)
	back := ArrivalOf(defaultTopics(t), nil, dlq.DefaultMaxRetries, [16]byte{1}, sent)
	require.Equal(t, a.ID, back.PreviousID)
	require.Equal(t, 1, back.RetryCount)
	// In a record without headers of another family, the headers of thisSystem describe the next failure,
	// and are removed.
	expected := slices.DeleteFunc(slices.Clone(own), func(h dlq.Header) bool { return thisSystem.adds(h.Key) })
	again := slices.DeleteFunc(ownRecord(&back.Record).Headers, func(h dlq.Header) bool { return thisSystem.adds(h.Key) })
	require.Equal(t, expected, again)
}

// knownNames are the names of the headers that package kafka reads. A fuzzer would not find them by chance.
var knownNames = func() []string {
	names := []string{
		"", jsonTypesHeader, "retry_topic-original-timestamp", "retry_topic-backoff-timestamp", "traceparent", "correlation-id",
		headerMessageID, headerRetryCount,
	}
	for _, f := range append(slices.Clone(families), thisSystem, bookkeeping) {
		if f.topic == nil {
			names = append(names, f.placed("topic")...)
		}
		for _, field := range [][]string{f.topic, f.placed("partition"), f.placed("offset"), f.timestamp, f.group, f.class, f.cause, f.message, f.stack, f.attempts, f.retryTopic, f.headers} {
			names = append(names, field...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}()

// splitHeaders reads headers from a fuzzer's bytes. A header is the index of a known name, or any name with
// its length, and a value with its length. The longest length stands for a null value.
func splitHeaders(data []byte) []dlq.Header {
	headers := []dlq.Header{}
	next := func(n int) []byte {
		n = min(n, len(data))
		taken := data[:n:n]
		data = data[n:]
		return taken
	}
	length := func() int {
		if b := next(2); len(b) == 2 {
			return int(b[0])<<8 | int(b[1])
		}
		return 0
	}
	for len(data) > 0 {
		h := dlq.Header{}
		if i := int(next(1)[0]); i < len(knownNames) {
			h.Key = knownNames[i]
		} else {
			h.Key = string(next(length()))
		}
		if n := length(); n < 1<<16-1 {
			h.Value = next(n)
		}
		headers = append(headers, h)
	}
	return headers
}

// joinHeaders is the inverse of splitHeaders.
func joinHeaders(headers []dlq.Header) (data []byte) {
	for _, h := range headers {
		if i := slices.Index(knownNames, h.Key); i >= 0 {
			data = append(data, byte(i))
		} else {
			data = append(append(data, 255, byte(len(h.Key)>>8), byte(len(h.Key))), h.Key...)
		}
		if h.Value == nil {
			data = append(data, 255, 255)
			continue
		}
		data = append(append(data, byte(len(h.Value)>>8), byte(len(h.Value))), h.Value...)
	}
	return data
}

// A record of a megabyte can have tens of thousands of headers. The ingest reads the
// headers of each record, and the records behind it wait meanwhile.
func TestTimeToReadHeadersGrowsOnlyWithTheirNumber(t *testing.T) {
	t.Parallel()
	for name, repeated := range map[string]dlq.Header{
		"types":       {Key: jsonTypesHeader, Value: []byte("{}")},
		"origin":      {Key: "kafka_dlt-original-topic", Value: []byte("orders")},
		"karafka":     {Key: "source_topic", Value: []byte("orders")},
		"traceparent": {Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
		"correlation": {Key: "correlation-id", Value: []byte{0xff}},
		"own":         {Key: "tenant", Value: []byte("7")},
	} {
		headers := slices.Repeat([]dlq.Header{repeated}, 40_000)
		started := time.Now()
		failureOf(defaultTopics(t), "orders.dlq", headers)
		ownRecord(&dlq.Record{Headers: headers})
		require.Less(t, time.Since(started), 10*time.Second, name) // quadratic time takes minutes
	}
}
