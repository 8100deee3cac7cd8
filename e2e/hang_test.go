package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

func TestPauseIsInForceWhileTheBrokerHangs(t *testing.T) {
	t.Parallel()
	const messages = 5_000
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })

	publishing, goOn := holdPublish(cluster, 20)
	status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, "%v", answer)
	bulk := "/api/v1/jobs/" + answer["job_id"].(string)
	<-publishing
	s.eventually("some were sent before", func() bool { return s.rows("status = 'RESOLVED'") > 0 })

	// The claims stop within two seconds. The job is PAUSED when its pages are finalized,
	// which a hanging broker delays by the delivery timeout.
	started := time.Now()
	s.eventually("the pause is accepted", func() bool { // on a busy machine the first answer may be a 503
		status, answer = s.call(http.MethodPost, bulk+"/pause")
		return status == http.StatusOK || status == http.StatusAccepted
	})
	require.Eventually(t, func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] == "PAUSED"
	}, 40*time.Second, 20*time.Millisecond, "it is paused while the broker hangs")
	t.Logf("answered %d, paused after %s", status, time.Since(started).Round(time.Millisecond))
	require.Zero(t, s.rows("status = 'RETRYING'"))
	retried := count(answer, "retried")
	require.Less(t, retried, messages, "it was paused in the middle")
	require.Equal(t, retried, s.rows("status = 'RESOLVED'"))

	close(goOn)
	status, answer = s.call(http.MethodPost, bulk+"/resume")
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, status, "%v", answer)
	s.eventually("the job ends", func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return !isLive(answer["state"].(string))
	})
	s.requireAllSent(cluster, answer, messages, lanes*dlq.PageSize)
}
