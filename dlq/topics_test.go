package dlq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTopicPatternsAreAnchoredAndMatchDotsLiterally(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	for topic, want := range map[string]bool{
		"orders.dlq.v1": true, "orders.dlq": true, "a.b.c.dlq": true, ".dlq": true,
		"orders": false, "orders.v1": false, "orders_dlq": false, "ordersXdlqXv1": false,
		"orders.dlq.v2": false, "orders.dlq.archive": false, "orders.dlq.v1.x": false, "orders.DLQ": false,
	} {
		require.Equal(t, want, topics.IsDeadLetter(topic), topic)
	}
}

func TestTopicPatternsThatMatchEverythingAreRefused(t *testing.T) {
	t.Parallel()
	for _, globs := range [][]string{nil, {""}, {"*"}, {"orders.dlq", "**"}, {"???"}} {
		_, err := dlq.NewTopics(globs, nil)
		require.Error(t, err, "%q", globs)
	}
}

func TestPatternsThatNoTopicCanMatchAreRefused(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"a+(b)?.dlq", "^b.*$", "a b.dlq", "é.dlq", "..", strings.Repeat("a", 250)} {
		_, err := dlq.NewTopics([]string{glob}, nil)
		require.ErrorContains(t, err, "must be a topic name in which * stands for", glob)
	}
	topics, err := dlq.NewTopics([]string{"a-b_?.dlq"}, nil)
	require.NoError(t, err)
	require.Equal(t, `^(?:a-b_.\.dlq)$`, topics.Expression())
}

func TestTopicNamesAreThoseOfKafka(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"orders": true, "A.b_c-9": true, ".a": true, "...": true, "*": false, strings.Repeat("a", 249): true,
		"": false, ".": false, "..": false, "a b": false, "a\n": false, "a\xff": false, "é": false, strings.Repeat("a", 250): false,
	} {
		require.Equal(t, want, dlq.IsTopicName(name), name)
	}
}

func TestOriginFollowsFromTheNameOrTheMapping(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, map[string]string{
		"billing.dlq.v1":      "billing.events.v1",
		"{topic}-failed":      "{topic}",
		"pay.{topic}-failed":  "pay.v2.{topic}",
		"{group}.of.{topic}.": "{topic}-{group}",
	})
	require.NoError(t, err)
	for dlqTopic, want := range map[string][2]string{
		"orders.dlq":           {"orders"},
		"orders.dlq.v1":        {"orders.v1"},
		"a.dlq.b.dlq.v12":      {"a.dlq.b.v12"},
		"billing.dlq.v1":       {"billing.events.v1"},
		"orders-failed":        {"orders"},
		"pay.orders-failed":    {"pay.v2.orders"}, // the longer pattern
		"g.of.orders.":         {"orders-g", "g"},
		"orders-dlt":           {"orders"},
		"orders.DLT":           {"orders"},
		"orders-dlq":           {"orders"},
		"orders-retry-0":       {"orders"},
		"error.orders.billing": {"orders", "billing"},
		"error.a.b.billing-1":  {"a.b", "billing-1"},
		"letters":              {"letters"},
		"orders-retry":         {"orders-retry"},
		".dlq":                 {".dlq"},
		"...dlq":               {"...dlq"}, // no topic is named ..
		"error.orders":         {"error.orders"},
	} {
		topic, group := topics.OriginOf(dlqTopic)
		require.Equal(t, want, [2]string{topic, group}, dlqTopic)
	}
}

func TestInvalidMappingsAreRefused(t *testing.T) {
	t.Parallel()
	for want, origins := range map[string]map[string]string{
		`original topic "b.dlq" of "a.dlq" is itself a dead-letter topic`:               {"a.dlq": "b.dlq"},
		`"a.dlq" cannot be its own origin`:                                              {"a.dlq": "a.dlq"},
		`"a b" is not the name of a topic`:                                              {"a b": "a"},
		`".." is not the name of a topic`:                                               {"a.dlq": ".."},
		`"a.{group}" needs {topic} once, for the original topic`:                        {"a.{group}": "a"},
		`"{topic}{topic}" needs {topic} once, for the original topic`:                   {"{topic}{topic}": "{topic}"},
		`"{group}" has {group}, which "{topic}.x" does not have once`:                   {"{topic}.x": "{group}"},
		`"{topic}" cannot be its own origin`:                                            {"{topic}": "{topic}"},
		`"{topic}.{no}" is no topic name with {topic}, {group}, {version} or {n} in it`: {"{topic}.{no}": "{topic}"},
		`"{topic} b" is no topic name with {topic}, {group}, {version} or {n} in it`:    {"{topic}.x": "{topic} b"},
	} {
		_, err := dlq.NewTopics(dlq.DefaultTopicPatterns, origins)
		require.EqualError(t, err, want)
	}
}

func TestAMessageIsNeverSentToADeadLetterTopic(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	require.NoError(t, topics.CheckOrigin(&dlq.Message{OriginalTopic: "orders", DLQTopic: "orders.dlq"}))
	for _, m := range []dlq.Message{
		{OriginalTopic: "orders.dlq", DLQTopic: "orders.dlq"},
		{OriginalTopic: "other.dlq.v1", DLQTopic: "orders.dlq"},
		{OriginalTopic: "letters", DLQTopic: "letters"},
		{OriginalTopic: "", DLQTopic: "orders.dlq"},
	} {
		var refused *dlq.NotRetryableError
		require.ErrorAs(t, topics.CheckOrigin(&m), &refused, "%+v", m)
		require.Contains(t, refused.Error(), "dead-letter topic")
	}
}

func TestAnOriginOutsideTheLimitsOfItsDeadLetterTopicIsSuspicious(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	require.Empty(t, topics.ForeignOrigin("orders.dlq", "_schemas"), "without limits")
	require.NoError(t, topics.LimitOrigins(map[string][]string{
		"*.dlq": {"shared"}, "shop.*.dlq": {"shop.*", "stock"}, "shop.eu.dlq": nil,
	}))
	for origin, reason := range map[[2]string]string{
		{"orders.dlq", "orders"}: "", {"orders.dlq", "shared"}: "", {"orders.dlq.v1", "stock"}: "", {"shop.us.dlq", "stock"}: "",
		{"shop.us.dlq", "shop.x"}: "", {"shop.eu.dlq", "shop.eu"}: "",
		{"orders.dlq", "stock"}:       "its original topic stock is not among those of *.dlq in kafka.origins",
		{"orders.dlq", "sharedX"}:     "its original topic sharedX is not among those of *.dlq in kafka.origins",
		{"shop.us.dlq", "shared"}:     "its original topic shared is not among those of shop.*.dlq in kafka.origins",
		{"shop.eu.dlq", "stock"}:      "its original topic stock is not among those of shop.eu.dlq in kafka.origins",
		{"shop.us.dlq", "shopXorder"}: "its original topic shopXorder is not among those of shop.*.dlq in kafka.origins",
	} {
		require.Equal(t, reason, topics.ForeignOrigin(origin[0], origin[1]))
	}
	require.ErrorContains(t, topics.LimitOrigins(map[string][]string{"a b": nil}), `not "a b"`)
	require.ErrorContains(t, topics.LimitOrigins(map[string][]string{"a": {"b c"}}), `an origin of "a" must be a topic name in which`)
}

func TestTheUsualOriginIsATopicToWhichMessagesAreSent(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics([]string{"*.dlq", "*-failed"}, map[string]string{"internal.dlq": "__internal"})
	require.NoError(t, err)
	for topic, want := range map[string]string{"orders.dlq": "orders", "orders.dlq.dlq": "", "internal.dlq": "", "orders-failed": "", "": ""} {
		require.Equal(t, want, topics.UsualOrigin(topic), topic)
	}
}
