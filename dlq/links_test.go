package dlq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestALinkLeadsToTheTraceOfAMessage(t *testing.T) {
	t.Parallel()
	l := dlq.TraceLink("https://tempo.example/trace/{trace_id}?from={trace_id}#x")
	require.Empty(t, l.Problem())
	require.Equal(t, "https://tempo.example/trace/0af7651916cd43dd?from=0af7651916cd43dd#x", l.URL("0af7651916cd43dd"))
	require.Empty(t, dlq.TraceLink("").URL("0af7651916cd43dd"))
}

func TestAnIDThatCouldLeadElsewhereHasNoLink(t *testing.T) {
	t.Parallel()
	l := dlq.TraceLink("https://tempo.example/trace/{trace_id}")
	for _, id := range []string{"", "..", ".", "a/../b", "a?b", "a#b", "a&b=c", "%2e%2e", "a b", "a\n", "トレース", "***", "0af7***", strings.Repeat("a", 129)} {
		require.Empty(t, l.URL(id), "%q", id)
	}
}

func TestALinkLeadsToARecord(t *testing.T) {
	t.Parallel()
	l := dlq.RecordLink("https://kafka.example/#/topics/{topic}?p={partition}&o={offset}")
	require.Empty(t, l.Problem())
	require.Equal(t, "https://kafka.example/#/topics/orders.dlq.v1?p=0&o=9007199254740993", l.URL("orders.dlq.v1", new(int32(0)), new(int64(9007199254740993))))
	for name, url := range map[string]string{
		"no partition": l.URL("orders", nil, new(int64(1))), "no offset": l.URL("orders", new(int32(1)), nil),
		"negative partition": l.URL("orders", new(int32(-1)), new(int64(1))), "negative offset": l.URL("orders", new(int32(1)), new(int64(-1))),
		"no address": dlq.RecordLink("").URL("orders", new(int32(1)), new(int64(1))),
	} {
		require.Empty(t, url, name)
	}
	for _, topic := range []string{"", ".", "..", "../admin", "a?p=1", "a&o=2", "a#b", "a%2Fb", "a b", "http:shop", "{offset}", "注文"} {
		require.Empty(t, l.URL(topic, new(int32(1)), new(int64(1))), "%q", topic)
	}
}

func TestALinkToATopicNeedsNeitherPartitionNorOffset(t *testing.T) {
	t.Parallel()
	l := dlq.RecordLink("http://kafka.example/{topic}")
	require.Empty(t, l.Problem())
	require.Equal(t, "http://kafka.example/orders", l.URL("orders", nil, nil))
}

func TestAddressesThatMakeNoGoodLinksAreRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://kafka.example/topics":           "needs the placeholder {topic}",
		"https://kafka.example/{topic}/{group}":  "has the unknown placeholder {group}; known: {topic}, {partition}, {offset}",
		"https://kafka.example/{topic}/{}":       "has the unknown placeholder {}; known",
		"https://kafka.example/{topic}?q={\"a\"": "has a brace that belongs to no placeholder; write %7B and %7D",
		"https://kafka.example/{topic}}":         "has a brace",
		"https://{topic}.example/{topic}":        "must have its placeholders after the host",
		"https://kafka.example:{offset}/{topic}": "must have its placeholders after the host",
		"https://kafka.{topic}":                  "must have its placeholders after the host",
		"{topic}://kafka.example/{topic}":        "must be an http or https URL",
		"javascript:alert('{topic}')":            "must be an http or https URL",
		"ftp://kafka.example/{topic}":            "must be an http or https URL",
		"/topics/{topic}":                        "must be an http or https URL",
		"https:///{topic}":                       "must be an http or https URL",
		"https://kafka.example/{topic}\n":        "must be an http or https URL",
		"https://a:b@kafka.example/{topic}":      "must not contain a user or password",
		"https://{topic}@kafka.example/{topic}":  "must not contain a user or password",
	} {
		require.Contains(t, dlq.RecordLink(address).Problem(), want, address)
	}
	require.Equal(t, "needs the placeholder {trace_id}", dlq.TraceLink("https://tempo.example/").Problem())
	require.Empty(t, dlq.TraceLink("").Problem())
}
