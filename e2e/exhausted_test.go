package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

// archive creates the archive topic of the system and returns its name.
func (s *system) archive(cluster *kfake.Cluster) string {
	s.t.Helper()
	topic := strings.TrimSuffix(s.dlqTopic, ".v1") + ".archive"
	require.NoError(s.t, cluster.CreateTopic(topic, 1, nil))
	return topic
}

func newClient(t *testing.T, cluster *kfake.Cluster, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// nextRecord waits for a record. A poll also returns for an error that the client retries, such as a failed
// connection on a busy machine.
func nextRecord(t *testing.T, consumer *kgo.Client) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		fetches := consumer.PollRecords(ctx, 1)
		if records := fetches.Records(); len(records) > 0 {
			return records[0]
		}
		require.NoError(t, ctx.Err(), "%v", fetches.Errors())
	}
}

func TestAMessageThatFailsAgainAndAgainEndsExhausted(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	archive := s.archive(cluster)
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 1)
	consumer := newClient(t, cluster, kgo.ConsumeTopics(s.topic))
	var sent []*kgo.Record
	for range 3 {
		s.eventually("it is there", func() bool { return s.pending() == 1 })
		_, list := s.call(http.MethodGet, "/api/v1/dlq/"+s.dlqTopic+"?status=PENDING")
		id := list["messages"].([]any)[0].(map[string]any)["id"].(string)
		_, retried := s.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "Prefer", "wait=30")
		require.Equal(t, "RESOLVED", retried["status"])
		record := nextRecord(t, consumer)
		sent = append(sent, record)
		failed := &kgo.Record{Topic: s.dlqTopic, Key: record.Key, Value: record.Value, Headers: append(record.Headers,
			kgo.RecordHeader{Key: "original_topic", Value: []byte(s.topic)}, kgo.RecordHeader{Key: "error", Value: []byte("again")})}
		require.NoError(t, consumer.ProduceSync(t.Context(), failed).FirstErr())
	}
	s.eventually("it ended on arrival", func() bool { return s.rows("status = 'DEAD' AND resolution = 'exhausted' AND retry_count = 3") == 1 })

	var last string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT id::text FROM dlq.dlq_messages WHERE status = 'DEAD'`).Scan(&last))
	_, chain := s.call(http.MethodGet, "/api/v1/dlq/messages/"+last+"/chain")
	hops := chain["hops"].([]any)
	require.Len(t, hops, 4)
	var previous any
	for i, record := range sent {
		hop := hops[i].(map[string]any)
		require.Equal(t, []any{"RESOLVED", "delivered", previous, float64(i + 1)}, []any{hop["status"], hop["resolution"], hop["previous_id"], hop["retry_count"]})
		attempts := hop["attempts"].([]any)
		require.Len(t, attempts, 1)
		attempt := attempts[0].(map[string]any)
		require.Equal(t, []any{"delivered", float64(i + 1)}, []any{attempt["outcome"], attempt["number"]})
		require.Equal(t, map[string]any{"topic": s.topic, "partition": float64(record.Partition), "offset": float64(record.Offset)}, attempt["target"])
		previous = hop["id"]
	}
	end := hops[3].(map[string]any)
	require.Equal(t, []any{last, previous, "DEAD", "exhausted", 3.0, []any{}},
		[]any{end["id"], end["previous_id"], end["status"], end["resolution"], end["retry_count"], end["attempts"]})

	s.eventually("it is archived", func() bool { return s.unpublished() == 0 })
	require.Equal(t, map[string]int{last: 1}, consumeLast(t, cluster, archive, "dlq-message-id"))
	require.Equal(t, map[string]int{"exhausted after 3 of 3 retries: again": 1}, consumeLast(t, cluster, archive, "dlq-reason"))
}

func TestAKillWhileMessagesAreArchivedLosesNone(t *testing.T) {
	t.Parallel()
	const messages = 250 // several pages
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	archive := s.archive(cluster)
	var sent string // this message comes back again and again, with its retries used up
	require.NoError(t, s.pool.QueryRow(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, status)
		VALUES ($1, $2, 'boom', 'RESOLVED') RETURNING id::text`, s.topic, s.dlqTopic).Scan(&sent))
	producer := newClient(t, cluster)
	for range messages {
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: s.dlqTopic, Headers: []kgo.RecordHeader{
			{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("boom")},
			{Key: "dlq-message-id", Value: []byte(sent)}, {Key: "dlq-retry-count", Value: []byte("3")},
		}}).FirstErr())
	}
	publishing, goOn := holdPublish(cluster, 2) // the broker has the first page, and gets the second
	worker := s.startWorker()
	<-publishing
	worker.kill(t)
	close(goOn)
	require.Positive(t, s.unpublished(), "the kill came in the middle")
	others := []*program{s.startWorker(), s.startWorker()}
	s.eventually("all are archived", func() bool { return s.rows("status = 'DEAD'") == messages && s.unpublished() == 0 })

	copies := consumeLast(t, cluster, archive, "dlq-message-id")
	require.Len(t, copies, messages)
	twice := 0
	for id, n := range copies {
		require.LessOrEqual(t, n, 2, id)
		twice += n - 1
	}
	t.Logf("%d messages are there twice", twice)
	require.LessOrEqual(t, twice, 100, "no more than a page")
	for _, w := range others {
		require.NotContains(t, w.log.tail(1<<20), "exhausted messages wait")
	}
}

// unpublished returns how many exhausted messages are not recorded as published.
func (s *system) unpublished() (n int) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), "SELECT count(*) FROM dlq.dlq_exhausted_outbox").Scan(&n))
	return n
}

// consumeLast reads a topic to its end and counts the last value of a header in each
// record.
func consumeLast(t *testing.T, cluster *kfake.Cluster, topic, name string) map[string]int {
	t.Helper()
	client := newClient(t, cluster, kgo.ConsumeTopics(topic))
	var expected int64
	for _, partition := range cluster.PartitionInfos(topic) {
		expected += partition.HighWatermark
	}
	values := map[string]int{}
	for read := int64(0); read < expected; {
		client.PollFetches(t.Context()).EachRecord(func(record *kgo.Record) {
			read++
			value := ""
			for _, header := range record.Headers {
				if header.Key == name {
					value = string(header.Value)
				}
			}
			values[value]++
		})
	}
	return values
}
