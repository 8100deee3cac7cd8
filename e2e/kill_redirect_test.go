package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

func TestRedirectedBulkRetrySurvivesTheKillOfItsWorker(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	original, target := s.topic, s.topic+".retry"
	require.NoError(t, cluster.CreateTopic(target, 3, nil))
	s.env = append(s.env, "DLQ_TARGETS_ALLOWED=*.retry")
	worker := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })

	publishing, goOn := holdPublish(cluster, 60)
	status, answer := s.send(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", strings.NewReader(`{"target_topic": "`+target+`"}`),
		"Prefer", "respond-async", "Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, status, answer)
	bulk := "/api/v1/jobs/" + answer["job_id"].(string)
	<-publishing
	worker.kill(t)
	close(goOn)
	_, answer = s.call(http.MethodGet, bulk)
	require.Less(t, count(answer, "retried"), messages, "the kill came in the middle")
	s.startWorker()
	s.eventually("the job ends", func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] != "RUNNING"
	})
	s.topic = target
	s.requireAllSent(cluster, answer, messages, lanes*dlq.PageSize)
	for partition := range int32(3) {
		require.Zero(t, cluster.PartitionInfo(original, partition).HighWatermark, "nothing goes to the original topic")
	}
}
