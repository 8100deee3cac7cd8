package dlq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestPayloadIsTheJSONThatJSONBCanHold(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"order_id":"123"}`, `[]`, `null`, `"text"`, `12.5e3`, ` {"a" : 1} `, `"\ud83d\ude00"`, `"\\u0000"`, `"é"`,
	} {
		require.Equal(t, value, string(dlq.PayloadOf([]byte(value))), "%s", value)
	}
}

func TestPayloadIsNilForValuesThatJSONBRefuses(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"empty":           ``,
		"not JSON":        `order 123`,
		"two values":      `{} {}`,
		"NUL escape":      `{"a":"\u0000"}`,
		"NUL in a key":    `{"\u0000":1}`,
		"NUL, escaped \\": `"\\\u0000"`,
		"high only":       `"\ud83d"`,
		"high only, text": `"\ud83dx12345"`,
		"high then other": `"\ud83d\u0041"`,
		"low only":        `"\ude00"`,
		"invalid UTF-8":   "\"\xff\"",
		"binary":          "\x00\x01\x02",
		"too deep":        strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"huge exponent":   `1e999999999`,
		"tiny exponent":   `1e-999999`,
		"huge number":     strings.Repeat("9", 200_000),
	} {
		require.Nil(t, dlq.PayloadOf([]byte(value)), name)
	}
}

func TestStorableTextReplacesBytesThatPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	require.Equal(t, "plain é", dlq.StorableText("plain é"))
	require.Equal(t, "a\u2400b", dlq.StorableText("a\x00b"))
	require.Equal(t, "a\uFFFDb", dlq.StorableText("a\xffb"))
	require.Empty(t, dlq.StorableText(""))
}

func FuzzPayloadIsTheValueOrNothing(f *testing.F) {
	f.Add([]byte(`{"a":"\u0041\\"}`))
	f.Add([]byte(`"\ud83d\ude00"`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if payload := dlq.PayloadOf(value); payload != nil {
			require.Equal(t, string(value), string(payload))
		}
	})
}
