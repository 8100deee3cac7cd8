package dlq_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestPayloadIsTheJSONThatJSONBCanHold(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"order_id":"123"}`, `[]`, `null`, `"text"`, `12.5e3`, ` {"a" : 1} `, `"\ud83d\ude00"`, `"\\u0000"`, `"é"`, `-1e308`, `1e-1000`,
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
		"400 digits":      strings.Repeat("9", 400),
		"over a float64":  `[1, -2e308]`,
		"many exponents":  "[1" + strings.Repeat(",1e-300", 400) + "]",
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

// The store's FuzzPayload compares with PostgreSQL.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", `"\u0000"`, `"\\u0000"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", `{"a":1,"a":2}`,
		strings.Repeat("[", 512) + strings.Repeat("]", 512), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		strings.Repeat("9", 400), strings.Repeat("9", 1001), "1e1000", "-1E-1001", "1e00000000000000000000000001", " null ", "{} {}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		payload := dlq.PayloadOf(value)
		if payload == nil {
			return
		}
		require.Equal(t, string(value), string(payload))
		var decoded any
		decoder := json.NewDecoder(bytes.NewReader(payload))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&decoded))
		encoded, err := json.Marshal(decoded)
		require.NoError(t, err)
		require.NotNil(t, dlq.PayloadOf(encoded), "the same JSON, written by another program: %s", encoded)
	})
}
