package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

const (
	messages = 20_000
	lanes    = 4
)

func TestBulkRetrySurvivesTheKillOfItsWorker(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	worker := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })

	// This is the worst moment for a kill: the broker has the records, but some pages are not finalized.
	publishing, goOn := holdPublish(cluster, 60)
	status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	bulk := "/api/v1/jobs/" + answer["job_id"].(string)
	<-publishing
	worker.kill(t)
	close(goOn)
	_, answer = s.call(http.MethodGet, bulk)
	require.Equal(t, "RUNNING", answer["state"])
	require.Less(t, count(answer, "retried"), messages, "the kill came in the middle")

	killed := time.Now()
	s.startWorker()
	s.eventually("the job ends", func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] != "RUNNING"
	})
	t.Logf("continued and ended %s after the kill", time.Since(killed).Round(time.Millisecond))
	s.requireAllSent(cluster, answer, messages, lanes*dlq.PageSize)
}

// requireAllSent requires that a job has completed, that it sent every message and at most
// the given number twice, and that the counters and the rows agree.
func (s *system) requireAllSent(cluster *kfake.Cluster, job map[string]any, messages, twiceAtMost int) {
	s.t.Helper()
	require.Equal(s.t, "COMPLETED", job["state"])
	require.Equal(s.t, messages, count(job, "matched"))
	require.Equal(s.t, messages, count(job, "retried"))
	require.Zero(s.t, count(job, "failed")+count(job, "dead")+count(job, "skipped"))
	require.Equal(s.t, messages, s.rows("status = 'RESOLVED' AND retry_count = 1"))

	sent := consumeAll(s.t, cluster, s.topic)
	require.Len(s.t, sent, messages, "every message is in the target topic")
	twice := 0
	for id, copies := range sent {
		require.LessOrEqual(s.t, copies, 2, id)
		twice += copies - 1
	}
	s.t.Logf("%d messages were sent twice", twice)
	require.LessOrEqual(s.t, twice, twiceAtMost, "no more than the pages in flight")
}

// pending is how many messages wait for a retry.
func (s *system) pending() int {
	s.t.Helper()
	return s.rows("status = 'PENDING'")
}

func (s *system) rows(where string) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(),
		"SELECT count(*) FROM dlq.dlq_messages WHERE "+where).Scan(&n))
	return n
}

func (s *system) produceDeadLetters(cluster *kfake.Cluster, messages int) {
	s.t.Helper()
	t := s.t
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(s.dlqTopic))
	require.NoError(t, err)
	defer client.Close()
	var failed atomic.Int64
	for i := range messages {
		client.Produce(t.Context(), &kgo.Record{
			Key:   fmt.Appendf(nil, "customer-%d", i%500),
			Value: fmt.Appendf(nil, `{"order_id":"%d","amount":%d}`, i, i%977),
			Headers: []kgo.RecordHeader{
				{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("payment service timed out")},
			},
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	require.NoError(t, client.Flush(t.Context()))
	require.Zero(t, failed.Load())
}

// holdPublish delays the answers to the nth produce request and to all later requests until goOn is closed.
// held signals the arrival of the nth request.
func holdPublish(cluster *kfake.Cluster, n int64) (held <-chan struct{}, goOn chan struct{}) {
	arrived := make(chan struct{})
	goOn = make(chan struct{})
	var requests atomic.Int64
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		number := requests.Add(1)
		if number == n {
			close(arrived)
		}
		if number >= n {
			cluster.SleepControl(func() { <-goOn })
		}
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	return arrived, goOn
}

// consumeAll reads a topic to its end and counts the copies of every message id.
func consumeAll(t *testing.T, cluster *kfake.Cluster, topic string) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	expected := int64(0)
	for _, partition := range cluster.PartitionInfos(topic) {
		expected += partition.HighWatermark
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	copies := map[string]int{}
	for read := int64(0); read < expected; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, ctx.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			read++
			for _, header := range record.Headers {
				if header.Key == "dlq-message-id" {
					copies[string(header.Value)]++
				}
			}
		})
	}
	return copies
}
