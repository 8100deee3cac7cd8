package postgres_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
)

// beyondPayload matches JSON that JSONB accepts and dlq.PayloadOf refuses, because a number or the
// nesting is beyond its limits.
var beyondPayload = regexp.MustCompile(`(?s)[0-9.]{100}|[eE][+-]?[0-9]{2}|([\[{].*){513}`)

// FuzzPayload compares dlq.PayloadOf with JSONB. PostgreSQL accepts every payload, and refuses the
// values that have no payload.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", `"\u0000"`, `"\\u0000"`, `"\\\u0000"`, `"\ud800"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, "\"\xff\"",
		"\"\x01\"", "\"\x7f\"", `{"a":1,"a":2}`, `{"":null}`, strings.Repeat("[", 512) + strings.Repeat("]", 512),
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("9", 400), strings.Repeat("9", 999) + "e1000", "1e-1000",
		"-1E-1001", "1e00000000000000000000000001", "-0.0", "01", "1.", " null ", "\ufeff1", "\u00a01", "{} {}", "[1,]", "NaN",
	} {
		f.Add([]byte(seed))
	}
	pool := dbtest.New(f)
	f.Fuzz(func(t *testing.T, value []byte) {
		var same bool
		err := pool.QueryRow(t.Context(), `SELECT @value::text::jsonb IS NOT NULL`, pgx.NamedArgs{"value": string(value)}).Scan(&same)
		if dlq.PayloadOf(value) != nil {
			require.NoError(t, err)
		} else if err == nil {
			require.Regexp(t, beyondPayload, string(value))
		}
	})
}

// FuzzTopicPattern compares the regular expressions of Go and of PostgreSQL. If they differed, the
// ingest might read a topic whose messages the claims refuse, or the reverse.
func FuzzTopicPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.dlq", "orders.dlq"}, {"*.dlq", "orders\n.dlq"}, {"*.dlq", "orders.dlq\n"}, {"?.dlq", "é.dlq"}, {"a-b_?.*", "a-b_c."},
		{"**?**.dlq", ".dlq"}, {strings.Repeat("*a", 124), strings.Repeat("a", 249)}, {strings.Repeat("?", 248) + "a", strings.Repeat("a", 249)},
		{"***:a", "a"}, {"a*{2}", "aa"}, {"a", "_schemas"}, {"a", "_schemas\n"}, {"a", "__a\n"}, {"a", "__ok"}, {"__ok", "__ok"}, {"a", "__ok2"}, {"a", "__o.k"},
	} {
		f.Add(seed[0], seed[1])
	}
	pool := dbtest.New(f)
	f.Fuzz(func(t *testing.T, glob, name string) {
		topics, err := dlq.NewTopics([]string{"*.dlq.v1", glob}, nil)
		if err != nil || dlq.StorableText(name) != name {
			return
		}
		var matches bool
		args := pgx.NamedArgs{"name": name, "expression": topics.Expression()}
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT @name::text ~ @expression::text`, args).Scan(&matches))
		require.Equal(t, topics.IsDeadLetter(name), matches)

		topics.AllowInternal([]string{"__ok", "__o.k*"})
		args["expression"] = topics.NoTargets()
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT @name::text ~ @expression::text`, args).Scan(&matches))
		require.Equal(t, name != "" && topics.CheckOrigin(&dlq.Message{OriginalTopic: name, DLQTopic: name + "x"}) != nil, matches)
	})
}
