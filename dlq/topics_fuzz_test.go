package dlq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// FuzzTopics searches for patterns that match other names than their globs, and for names
// from which no origin can be derived.
func FuzzTopics(f *testing.F) {
	long := strings.Repeat("a", 249)
	for _, seed := range [][4]string{
		{"*.dlq", "{topic}-failed", "{topic}", "orders-failed"},
		{"*.dlq", "error.{topic}.{group}", "{topic}-{group}", "error.a.b.c"},
		{"a-b_?.dlq", "{topic}.{version}.{n}", "{version}.{topic}.{n}", "a.v1.2"},
		{"**??*", "a", "b", "a"},
		{long, long[:242] + "{topic}", "{topic}", long},
		{"*" + long[1:], "{topic}" + long, "{topic}", long + "a"},
		{"?.dlq", "{topic}", "{topic}{topic}", "é.dlq"},
		{"*.dlq", "{topic}{n}", ".{n}", "..1"},
		{"*.dlq", "{topic}\n", "\x00", "a\n.dlq"},
		{"*.dlq", "a{topic}", "{topic}", "a."},
		{"*.dlq", "a{topic}", "{topic}", "\xff\x00.dlq"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, glob, from, to, name string) {
		topics, err := dlq.NewTopics([]string{glob}, map[string]string{from: to})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Equal(t, globMatches([]rune(glob), []rune(name)), topics.IsDeadLetter(name))
		origin, group := topics.OriginOf(name)
		require.True(t, origin == name || dlq.IsTopicName(origin), "%q", origin)
		require.Equal(t, dlq.StorableText(group), group)
		if topics.CheckOrigin(&dlq.Message{OriginalTopic: origin, DLQTopic: name}) == nil {
			require.NotEqual(t, name, origin)
			require.False(t, topics.IsDeadLetter(origin))
			require.True(t, dlq.IsTopicName(origin), "%q", origin)
		}
	})
}

// globMatches is the plainest matcher: it tries every length for each star.
func globMatches(glob, name []rune) bool {
	reached := make([]bool, len(name)+1) // the prefixes of the name that the glob's prefix matches
	reached[0] = true
	for _, g := range glob {
		next := make([]bool, len(name)+1)
		for i, ok := range reached {
			switch {
			case !ok:
			case g == '*':
				for j := i; j <= len(name); j++ {
					next[j] = true
				}
			case i < len(name) && (g == '?' || g == name[i]):
				next[i+1] = true
			}
		}
		reached = next
	}
	return reached[len(name)]
}
