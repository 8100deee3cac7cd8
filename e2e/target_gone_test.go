package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

const redirectedMessages = 300

// redirecting is a running bulk retry to another topic, which has sent some of its messages.
type redirecting struct {
	*system
	cluster     *kfake.Cluster
	worker      *program
	target, job string
}

func startRedirecting(t *testing.T) *redirecting {
	t.Helper()
	cluster := kafkatest.FakeCluster(t)
	r := &redirecting{system: newSystem(t, cluster), cluster: cluster}
	r.target = r.topic + ".retry"
	require.NoError(t, cluster.CreateTopic(r.target, 3, nil))
	usual := slices.Clone(r.env)
	r.env = append(r.env, "DLQ_TARGETS_ALLOWED=*.retry")
	r.worker = r.startWorker()
	r.startAPI()
	r.env = usual // the environment of later workers
	r.produceDeadLetters(cluster, redirectedMessages)
	r.eventually("all are stored", func() bool { return r.pending() == redirectedMessages })
	status, job := r.send(http.MethodPost, "/api/v1/jobs", strings.NewReader(fmt.Sprintf(`{"kind": "retry", "topic": %q, "target_topic": %q, "rate_limit": 100}`, r.dlqTopic, r.target)),
		"Prefer", "respond-async", "Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, status, job)
	r.job = "/api/v1/jobs/" + job["id"].(string)
	r.eventually("it is in its middle", func() bool { return r.rows("status = 'RESOLVED'") > 20 })
	return r
}

// pausesItself waits for the pause, and requires that nothing failed and nothing went elsewhere.
func (r *redirecting) pausesItself(reason string) {
	r.t.Helper()
	var job map[string]any
	r.eventually("it pauses itself", func() bool {
		_, job = r.call(http.MethodGet, r.job)
		return job["state"] == "PAUSED"
	})
	require.Contains(r.t, job["reason"], r.target)
	require.Contains(r.t, job["reason"], reason)
	require.Zero(r.t, count(job, "failed")+count(job, "dead")+count(job, "skipped"))
	require.Equal(r.t, redirectedMessages, r.rows("status = 'PENDING' AND retry_count = 0 OR status = 'RESOLVED'"))
	require.Less(r.t, count(job, "retried"), redirectedMessages)
	for partition := range int32(3) {
		require.Zero(r.t, r.cluster.PartitionInfo(r.topic, partition).HighWatermark, "nothing goes to the original topic")
	}
}

func (r *redirecting) completes() {
	r.t.Helper()
	r.eventually("it completes", func() bool {
		_, job := r.call(http.MethodGet, r.job)
		return job["state"] == "COMPLETED" && count(job, "retried") == redirectedMessages
	})
}

func TestABulkRetryWaitsForItsTargetThatIsDeleted(t *testing.T) {
	t.Parallel()
	r := startRedirecting(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	deleted, err := kadm.NewClient(client).DeleteTopics(t.Context(), r.target)
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	r.pausesItself("UNKNOWN_TOPIC_OR_PARTITION")
	require.NoError(t, r.cluster.CreateTopic(r.target, 3, nil))
	r.completes()
}

func TestABulkRetryWaitsWhenItsTargetIsNoLongerAllowed(t *testing.T) {
	t.Parallel()
	r := startRedirecting(t)
	r.worker.kill(t)
	other := r.startWorker()
	r.pausesItself("is not among the allowed targets")
	other.kill(t)
	r.env = append(r.env, "DLQ_TARGETS_ALLOWED=*.retry")
	r.startWorker()
	status, _ := r.call(http.MethodPost, r.job+"/resume")
	require.Less(t, status, http.StatusMultipleChoices) // 202 while the worker is new
	r.completes()
}

func TestABulkRetrySaysWhichEndpointRefusesAllThatIsLeft(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	var isMended atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if isMended.Load() {
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "no such tenant")
	}))
	t.Cleanup(server.Close)
	s.env = append(s.env, "DLQ_TARGETS_ENDPOINTS=shop="+server.URL, "DLQ_TARGETS_ROUTES="+s.topic+"=http:shop", "DLQ_TARGETS_ALLOWED_NETWORKS=127.0.0.0/8")
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 20)
	s.eventually("all are stored", func() bool { return s.pending() == 20 })
	status, job := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, job)
	path := "/api/v1/jobs/" + job["job_id"].(string)
	s.eventually("it pauses itself", func() bool {
		_, job = s.call(http.MethodGet, path)
		return job["state"] == "PAUSED"
	})
	require.Contains(t, job["reason"], "http:shop answered 404 Not Found: no such tenant; fix that, then resume")
	require.Equal(t, 20, s.rows("status = 'PENDING' AND retry_count = 0"))
	isMended.Store(true)
	status, _ = s.call(http.MethodPost, path+"/resume")
	require.Less(t, status, http.StatusMultipleChoices)
	s.eventually("it completes", func() bool {
		_, job = s.call(http.MethodGet, path)
		return job["state"] == "COMPLETED" && count(job, "retried") == 20
	})
}
