package kafka

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

func headersOf(pairs ...string) []dlq.Header {
	var headers []dlq.Header
	for i := 0; i+1 < len(pairs); i += 2 {
		headers = append(headers, dlq.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return headers
}

func TestOriginIsReadFromHeadersElseFromTheName(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, map[string]string{"odd.dlq": "even"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		dlqTopic string
		headers  []dlq.Header
		topic    string
		family   string
		message  string
	}{
		"headers":            {"orders.dlq", headersOf("original_topic", "elsewhere", "error", "boom"), "elsewhere", "this-system", "boom"},
		"no headers":         {"orders.dlq", nil, "orders", "topic-name", dlq.UnknownError},
		"version in name":    {"orders.events.dlq.v1", nil, "orders.events.v1", "topic-name", dlq.UnknownError},
		"mapping":            {"odd.dlq", headersOf("x", "y"), "even", "topic-name", dlq.UnknownError},
		"only the error":     {"orders.dlq", headersOf("error", "boom"), "orders", "topic-name", "boom"},
		"only the topic":     {"orders.dlq", headersOf("original_topic", "elsewhere"), "elsewhere", "this-system", dlq.UnknownError},
		"empty":              {"orders.dlq", headersOf("original_topic", "", "error", ""), "orders", "topic-name", dlq.UnknownError},
		"too long":           {"orders.dlq", headersOf("original_topic", strings.Repeat("a", 250)), "orders", "topic-name", dlq.UnknownError},
		"longest":            {"orders.dlq", headersOf("original_topic", strings.Repeat("a", 249)), strings.Repeat("a", 249), "this-system", dlq.UnknownError},
		"illegal":            {"orders.dlq", headersOf("original_topic", "a b"), "orders", "topic-name", dlq.UnknownError},
		"not UTF-8":          {"orders.dlq", headersOf("original_topic", "a\xff"), "orders", "topic-name", dlq.UnknownError},
		"dots":               {"orders.dlq", headersOf("original_topic", ".."), "orders", "topic-name", dlq.UnknownError},
		"dead letter itself": {"orders.dlq", headersOf("original_topic", "orders.dlq"), "orders.dlq", "this-system", dlq.UnknownError},
		"two hops":           {"orders.dlq", headersOf("original_topic", "first", "error", "1", "original_topic", "second", "error", "2"), "first", "this-system", "2"},
		"error not text":     {"orders.dlq", headersOf("error", "a\x00\xff"), "orders", "topic-name", "a\u2400\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, dlq.Failure{
				Origin: dlq.Origin{Topic: test.topic, Family: test.family}, ErrorMessage: test.message,
			}, failureOf(topics, test.dlqTopic, test.headers))
		})
	}
}

func TestRetryCountIsInheritedOnlyWhenItIsValid(t *testing.T) {
	t.Parallel()
	id := dlq.NewID()
	for text, want := range map[string]int{
		"0": 0, "2": 2, "10000": 10000, "10001": 0, "-1": 0, "": 0, "two": 0, "1.5": 0, " 1": 0, //nolint:gocritic // the space is what is tested
		"99999999999999999999999": 0, "0x2": 0,
	} {
		previous, count := previousRetry(headersOf("dlq-message-id", id.String(), "dlq-retry-count", text))
		require.Equal(t, want, count, "%q", text)
		require.Equal(t, id, previous)
	}
	previous, count := previousRetry(headersOf("dlq-message-id", "nonsense", "dlq-retry-count", "1"))
	require.True(t, previous.IsZero())
	require.Zero(t, count)
	previous, _ = previousRetry(headersOf("dlq-message-id", "nonsense", "dlq-message-id", id.String()))
	require.Equal(t, id, previous, "the latest counts")
}

func TestAForgedOriginIsSuspicious(t *testing.T) {
	t.Parallel()
	topics := defaultTopics(t)
	require.NoError(t, topics.LimitOrigins(map[string][]string{"*": {"orders.*"}}))
	const reason = "its original topic payments is not among those of * in kafka.origins"
	for origin, want := range map[string]string{"orders": "", "orders.eu": "", "payments": reason} {
		headers := headersOf("original_topic", origin)
		record := &kgo.Record{Topic: "orders.dlq"}
		for _, h := range headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		require.Equal(t, want, ArrivalOf(topics, nil, 3, [16]byte{1}, record).Suspicion)

		intake := Intake{Topics: topics, MaxRetries: 3}
		handedIn := intake.Arrivals(t.Context(), "orders.dlq", []dlq.Letter{
			{Record: dlq.Record{Headers: headers}}, {Failure: dlq.Failure{Origin: dlq.Origin{Topic: origin}}},
		})
		require.Equal(t, want, handedIn[0].Suspicion)
		require.Equal(t, want, handedIn[1].Suspicion)
	}
}
