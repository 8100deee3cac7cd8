package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// A proxy that drops its connections silently notifies neither side. The programs must notice by themselves
// that a connection is dead.
func TestAJobGoesOnAfterEachOfItsConnectionsFellSilent(t *testing.T) {
	t.Parallel()
	const messages = 3_000
	cluster := kafkatest.FakeCluster(t)
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	database, temporal, broker := newProxy(t, u.Host), newProxy(t, temporaltest.Address(t)), newKafkaProxy(t, cluster.ListenAddrs()[0])
	for _, p := range []*proxy{database, temporal, broker} {
		p.join(t)
	}
	u.Host = database.address
	s := newSystemAt(t, u, temporal.address, cluster)
	s.env = append(s.env, "DLQ_KAFKA_BROKERS="+broker.address)
	s.startWorker()
	s.env[len(s.env)-1] = "DLQ_TEMPORAL_ADDRESS=" + temporaltest.Address(t) // the API connects directly
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })
	response, err := http.Post(s.base+"/api/v1/jobs", "application/json", strings.NewReader(`{"kind": "retry", "topic":"`+s.dlqTopic+`","rate_limit":40}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	path := response.Header.Get("Location")
	sent := func() int { return s.rows("status = 'RESOLVED'") }
	s.eventually("it sends", func() bool { return sent() > 0 })

	for _, silent := range []struct {
		name  string
		proxy *proxy
		limit time.Duration
	}{{"postgres", database, 15 * time.Second}, {"kafka", broker, 15 * time.Second}} {
		before, began := sent(), time.Now()
		require.Positive(t, silent.proxy.silence(0), silent.name)
		require.Eventually(t, func() bool { return sent() > before+40 }, silent.limit, 20*time.Millisecond, silent.name)
		t.Logf("%s: continued after %s", silent.name, time.Since(began).Round(time.Millisecond))
	}
	// The lanes continue without Temporal. A command that takes effect shows that the
	// worker is connected again.
	began := time.Now()
	require.Positive(t, temporal.silence(0))
	require.Eventually(t, func() bool {
		_, answer := s.call(http.MethodPost, path+"/pause")
		return answer["state"] == "PAUSED"
	}, 30*time.Second, 20*time.Millisecond)
	t.Logf("temporal: a command took effect after %s", time.Since(began).Round(time.Millisecond))
}
