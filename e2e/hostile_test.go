package e2e

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
)

func TestHostileRecordsAreSentBackAndHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	longest := strings.Repeat("o", 249)
	require.NoError(t, cluster.CreateTopic(longest, 1, nil))
	records := hostileRecords(longest)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for _, r := range records {
		r.Topic, r.Partition = s.dlqTopic, 0
	}
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())

	s.startWorker()
	s.startAPI()
	s.eventually("all are stored", func() bool { return s.pending() == len(records) })
	rows, err := s.pool.Query(t.Context(), `SELECT b.record_offset FROM dlq.dlq_messages m JOIN dlq.dlq_message_bodies b ON b.message_id = m.id ORDER BY m.seq`)
	require.NoError(t, err)
	for offset := int64(0); rows.Next(); offset++ {
		var stored int64
		require.NoError(t, rows.Scan(&stored))
		require.Equal(t, offset, stored, "stored in the order of the partition")
	}
	require.NoError(t, rows.Err())
	recordOf := s.requireShown(records)

	status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "wait=60")
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, len(records), count(answer, "retried"), answer)
	sent := append(recordsOf(t, cluster, s.topic), recordsOf(t, cluster, longest)...)
	require.Len(t, sent, len(records))
	for _, got := range sent {
		id := string(got.Headers[len(got.Headers)-2].Value)
		want := recordOf[id]
		require.NotNil(t, want, id)
		require.Equal(t, want.Key, got.Key)
		require.Equal(t, want.Value, got.Value)
		require.Equal(t, ownHeadersOf(want), got.Headers[:len(got.Headers)-2], "all but dlq-message-id and dlq-retry-count")
		delete(recordOf, id)
	}
	require.Empty(t, recordOf)
}

// hostileRecords returns records that break careless software. An ordinary record follows each of them.
func hostileRecords(longestTopic string) (records []*kgo.Record) {
	add := func(r *kgo.Record) {
		records = append(records, r, &kgo.Record{Key: []byte("ordinary"), Value: []byte(`{"ordinary": true}`)})
	}
	hostile := dlqtest.Hostile()
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		record := hostile[name].Record
		if len(record.Value) > 1_000_000 {
			continue // larger than the broker's default limit
		}
		r := &kgo.Record{Key: record.Key, Value: record.Value, Timestamp: record.Timestamp}
		for _, h := range record.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		add(r)
	}
	for _, at := range []time.Time{time.UnixMilli(-2), time.UnixMilli(0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.UnixMilli(1 << 50)} {
		add(&kgo.Record{Value: []byte("{}"), Timestamp: at})
	}
	for _, topic := range []string{longestTopic, longestTopic + "o", strings.Repeat("o", 30_000), "", ".", "..", "a\x00", "\xff", "é"} {
		add(&kgo.Record{Headers: []kgo.RecordHeader{{Key: "original_topic", Value: []byte(topic)}, {Key: "error", Value: []byte("a\x00b\xff")}}})
	}
	add(&kgo.Record{Headers: []kgo.RecordHeader{
		{Key: "kafka_dlt-original-topic", Value: []byte(longestTopic)},
		{Key: "kafka_dlt-original-timestamp", Value: []byte("\x7f\xff\xff\xff\xff\xff\xff\xff")},
		{Key: "kafka_dlt-original-offset", Value: []byte("\xff\xff\xff\xff\xff\xff\xff\xff")},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte("\x00\xed\xa0\x80")},
		{Key: "tenant", Value: []byte("\x00")},
	}})
	return records
}

// ownHeadersOf returns the headers of a hostile record that no framework adds.
func ownHeadersOf(r *kgo.Record) []kgo.RecordHeader {
	own := []kgo.RecordHeader{}
	for _, h := range r.Headers {
		if h.Key != "error" && h.Key != "original_topic" && !strings.HasPrefix(h.Key, "kafka_dlt-") {
			own = append(own, h)
		}
	}
	return own
}

// requireShown requires that the list and the detail of each record are JSON with its bytes.
// It returns the records by the ids of their messages.
func (s *system) requireShown(records []*kgo.Record) map[string]*kgo.Record {
	s.t.Helper()
	byID := map[string]*kgo.Record{}
	for cursor := ""; ; {
		list := s.get("/api/v1/dlq/" + s.dlqTopic + "?page_size=200&sort=created_at" + cursor)
		for _, m := range list["messages"].([]any) {
			id := m.(map[string]any)["id"].(string)
			detail := s.get("/api/v1/dlq/messages/" + id)
			want := records[count(detail["source"].(map[string]any), "offset")]
			require.Equal(s.t, want.Key, bytesOf(s.t, detail["key"]))
			require.Equal(s.t, want.Value, bytesOf(s.t, detail["value"]))
			byID[id] = want
		}
		next, more := list["pagination"].(map[string]any)["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	require.Len(s.t, byID, len(records))
	return byID
}

// get requires an answer in JSON and UTF-8.
func (s *system) get(path string) map[string]any {
	s.t.Helper()
	response, err := http.Get(s.base + path)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s", body)
	require.True(s.t, utf8.Valid(body))
	var decoded map[string]any
	require.NoError(s.t, json.Unmarshal(body, &decoded), path)
	return decoded
}

// bytesOf decodes a key or a value; null is nil.
func bytesOf(t *testing.T, view any) []byte {
	t.Helper()
	if view == nil {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(view.(map[string]any)["base64"].(string))
	require.NoError(t, err)
	return decoded
}

// recordsOf reads a topic to its end.
func recordsOf(t *testing.T, cluster *kfake.Cluster, topic string) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	expected := int64(0)
	for _, partition := range cluster.PartitionInfos(topic) {
		expected += partition.HighWatermark
	}
	for int64(len(records)) < expected {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, t.Context().Err())
		records = append(records, fetches.Records()...)
	}
	return records
}
