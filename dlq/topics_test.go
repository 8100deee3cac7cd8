package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTopicPatternsAreAnchoredAndTakeDotsLiterally(t *testing.T) {
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

func TestPatternsTreatExpressionCharactersAsText(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics([]string{"a+(b)?.dlq"}, nil)
	require.NoError(t, err)
	require.True(t, topics.IsDeadLetter("a+(b)x.dlq"))
	require.False(t, topics.IsDeadLetter("aab.dlq"))
}

func TestOriginIsToldByTheNameOrTheMapping(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, map[string]string{"billing.dlq.v1": "billing.events.v1"})
	require.NoError(t, err)
	for dlqTopic, want := range map[string]string{
		"orders.dlq":      "orders",
		"orders.dlq.v1":   "orders.v1",
		"a.dlq.b.dlq.v12": "a.dlq.b.v12",
		"billing.dlq.v1":  "billing.events.v1",
		"letters":         "letters",
		".dlq":            ".dlq",
	} {
		require.Equal(t, want, topics.OriginOf(dlqTopic), dlqTopic)
	}
}

func TestAMappingOntoADeadLetterTopicIsRefused(t *testing.T) {
	t.Parallel()
	_, err := dlq.NewTopics(dlq.DefaultTopicPatterns, map[string]string{"a.dlq": "b.dlq"})
	require.ErrorContains(t, err, "itself a dead-letter topic")
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
