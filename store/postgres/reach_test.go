package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
)

// FuzzOrigin compares dlq.Topics.MaySend with reach.
func FuzzOrigin(f *testing.F) {
	for _, seed := range [][2]string{
		{"orders.dlq", "orders"}, {"orders.dlq", "orders.dlq"}, {"letters", "letters"}, {"a.b.dlq.v1", "a.b.v1"}, {"a.b.dlq.v1", "a.b"},
		{"error.a.b.c", "a.b"}, {"error.a.b.c", "a"}, {"a-retry-1-retry-22", "a-retry-1"}, {"a-retry-1-retry-22", "a"},
		{"exact.dlq", "other"}, {"exact.dlq", "exact"}, {"exactXdlq", "other"}, {"x-failed-2", "2.x2.2"}, {"x-failed-12", "12.x12.2"},
		{"v1.x", "x.v1"}, {"v1.v2.x", "v2.x.v1"}, {"v1.x.dlq", "x.dlq.v1"},
	} {
		f.Add(seed[0], seed[1])
	}
	pool := dbtest.New(f)
	topics, err := dlq.NewTopics([]string{"*.dlq"}, map[string]string{
		"exact.dlq": "other", "{topic}-failed-{n}": "{n}.{topic}{n}.2", "{version}.{topic}": "{topic}.{version}",
	})
	require.NoError(f, err)
	expressions, replacements := topics.Origins()
	f.Fuzz(func(t *testing.T, dlqTopic, original string) {
		origin, _ := topics.OriginOf(dlqTopic)
		if !dlq.IsTopicName(dlqTopic) || !dlq.IsTopicName(original) || !dlq.IsTopicName(origin) {
			return // Kafka has no such topic
		}
		for _, topic := range []string{original, origin} {
			var may bool
			require.NoError(t, pool.QueryRow(t.Context(),
				`SELECT `+reach+` FROM (SELECT @dlq_topic::text AS dlq_topic, @original_topic::text AS original_topic, NULL::uuid AS id) AS m`,
				pgx.NamedArgs{"dlq_topic": dlqTopic, "original_topic": topic, "within": "^ $",
					"origin_expressions": expressions, "origin_replacements": replacements}).Scan(&may))
			require.Equal(t, topics.MaySend(dlqTopic, topic, false), may, "%s from %s", topic, dlqTopic)
		}
	})
}
