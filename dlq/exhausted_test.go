package dlq_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestArchiveTopicsFollowFromTheTemplate(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics([]string{"*.dlq.v1", "*.dlq", "failed-*"}, nil)
	require.NoError(t, err)
	for _, test := range [][3]string{
		{dlq.DefaultArchiveTopic, "orders.dlq", "orders.dlq.archive"},
		{dlq.DefaultArchiveTopic, "orders.dlq.v1", "orders.dlq.archive"},
		{dlq.DefaultArchiveTopic, "orders.dlq.v12", "orders.dlq.archive"},
		{dlq.DefaultArchiveTopic, "orders.v1", "orders.v1.archive"},
		{dlq.DefaultArchiveTopic, "dlq.v1", "dlq.v1.archive"},
		{"archive.{dlq}.x", "orders.dlq.v1", "archive.orders.dlq.x"},
		{"graveyard", "orders.dlq", "graveyard"},
	} {
		archives := dlq.NewArchiveTopics(test[0], topics)
		require.NoError(t, archives.Check([]string{"*.dlq.v1", "*.dlq"}))
		archive, err := archives.Of(test[1])
		require.NoError(t, err)
		require.Equal(t, test[2], archive)
	}
}

func TestAnArchiveTopicThatWouldBeIngestedIsRefused(t *testing.T) {
	t.Parallel()
	for template, patterns := range map[string][]string{
		"{dlq}":         {"*.dlq"},
		"{dlq}.archive": {"*.dlq*"},
		"old.dlq":       {"*.dlq"},
		"{topic}.a":     {"*.dlq"},
		"":              {"*.dlq"},
		"a/b":           {"*.dlq"},
		"{dlq}.a.dlq":   {"*.dlq.v1", "*.dlq"},
	} {
		topics, err := dlq.NewTopics(patterns, nil)
		require.NoError(t, err)
		require.Error(t, dlq.NewArchiveTopics(template, topics).Check(patterns), template)
	}
	// A name that no sample shows is refused when it occurs.
	topics, err := dlq.NewTopics([]string{"*.dlq", "failed-*.archive"}, nil)
	require.NoError(t, err)
	archives := dlq.NewArchiveTopics(dlq.DefaultArchiveTopic, topics)
	require.NoError(t, archives.Check([]string{"*.dlq"}))
	for _, topic := range []string{"failed-orders.dlq", "two\nlines", strings.Repeat("x", 249)} {
		_, err = archives.Of(topic)
		require.Error(t, err, topic)
	}
}

func TestTheReasonOfAnExhaustedMessageIsBoundedText(t *testing.T) {
	t.Parallel()
	e := dlq.Exhausted{RetryCount: 3, MaxRetries: 3, Error: "no\x00leader"}
	require.Equal(t, "exhausted after 3 of 3 retries: no␀leader", e.Reason())
	e.Error = strings.Repeat("ü", 5000)
	require.Equal(t, 1000, utf8.RuneCountInString(e.Reason()))
	require.True(t, utf8.ValidString(e.Reason()))
}
