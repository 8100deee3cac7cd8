package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

func TestProgramsWaitForWhatIsAwayAndLoseNothing(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	database, temporal := newProxy(t, u.Host), newProxy(t, temporaltest.Address(t))
	u.Host = database.address
	s := newSystemAt(t, u, temporal.address, cluster)

	// The programs start before their dependencies are available.
	workerAddress, apiAddress := freeAddress(t), freeAddress(t)
	worker := s.launch("worker", workerAddress, "DLQ_WORKER_METRICS_PORT="+port(workerAddress))
	api := s.launch("api", apiAddress, "DLQ_SERVER_PORT="+port(apiAddress))
	s.base = "http://" + apiAddress
	s.eventually("both answer that they are not ready", func() bool {
		return worker.readiness() == http.StatusServiceUnavailable && api.readiness() == http.StatusServiceUnavailable
	})
	status, answer := s.call(http.MethodGet, "/api/v1/dlq")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "SYS_DLQ_UNAVAILABLE", answer["error"].(map[string]any)["code"])

	database.join(t)
	temporal.join(t)
	s.eventually("both are ready", func() bool { return worker.readiness() == http.StatusOK && api.readiness() == http.StatusOK })
	s.produceDeadLetters(cluster, 500)
	s.eventually("all are stored", func() bool { return s.pending() == 500 })

	// Messages that arrive while the database is unavailable are stored when it is back.
	database.cut()
	s.produceDeadLetters(cluster, 500)
	s.eventually("the outage shows", func() bool { return worker.readiness() == http.StatusServiceUnavailable })
	database.join(t)
	s.eventually("no record was skipped", func() bool { return s.pending() == 1000 })

	// While Temporal is unavailable, the API gives a clear answer, and the message stays unchanged.
	temporal.cut()
	status, answer = s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "wait=2")
	require.Equal(t, http.StatusServiceUnavailable, status, "%v", answer)
	temporal.join(t)
	s.eventually("it is ready again", func() bool { return api.readiness() == http.StatusOK && worker.readiness() == http.StatusOK })
	status, answer = s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, "%v", answer)
	s.eventually("all are sent back", func() bool { return s.rows("status = 'RESOLVED'") == 1000 })
	require.Len(t, consumeAll(t, cluster, s.topic), 1000)
}

func TestProgramsStopInOrder(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	worker, api := s.startWorker(), s.startAPI()
	s.produceDeadLetters(cluster, 10*dlq.PageSize)
	s.eventually("all are stored", func() bool { return s.pending() == 10*dlq.PageSize })

	// A worker that is stopped in the middle of a page finalizes the page.
	publishing, goOn := holdPublish(cluster, 1)
	status, _ := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	<-publishing
	stopped := make(chan error, 1)
	go func() { stopped <- worker.end() }()
	s.eventually("it says that it stops", func() bool { return strings.Contains(worker.log.tail(1<<20), `"msg":"ingest stopping"`) })
	close(goOn)
	require.NoError(t, <-stopped)
	require.Zero(t, worker.ProcessState.ExitCode())
	require.Zero(t, s.rows("status = 'RETRYING'"), "no page remains claimed")

	// The API first reports that it is not ready, then stops.
	gone := make(chan error, 1)
	go func() { gone <- api.end() }()
	s.eventually("readiness is off", func() bool { return api.readiness() == http.StatusServiceUnavailable })
	require.NoError(t, <-gone)
	require.Zero(t, api.ProcessState.ExitCode())

	s.startWorker()
	s.eventually("the job continues on another worker", func() bool { return s.rows("status = 'RESOLVED' AND retry_count = 1") == 10*dlq.PageSize })
	copies := consumeAll(t, cluster, s.topic)
	require.Len(t, copies, 10*dlq.PageSize)
	for id, n := range copies {
		require.Equal(t, 1, n, "sent twice: %s", id)
	}
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }
