package app

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/config"
	"dlqmanager/internal/kafkatest"
)

func TestWithoutADatabaseTheAPIIngestsAndRetriesByItself(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.dlq"))
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("orders"))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for _, value := range []string{"1", "2", "3"} {
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders.dlq", Value: []byte(value)}).FirstErr())
	}
	health, out := startAPI(t, func(c *config.Config) { c.Kafka.Brokers = cluster.ListenAddrs() })
	topic := health.URL() + "/api/v1/dlq/orders.dlq"
	require.Eventually(t, func() bool {
		_, list := ask(t, http.MethodGet, topic)
		return len(list["messages"].([]any)) == 3
	}, 20*time.Second, 20*time.Millisecond, out)

	status, retried := ask(t, http.MethodPost, topic+"/retry-all")
	require.Equal(t, http.StatusOK, status, retried)
	require.Equal(t, "3 messages retried in topic orders.dlq", retried["message"])
	var sent []string
	for len(sent) < 3 {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { sent = append(sent, string(r.Value)) })
	}
	require.Equal(t, []string{"1", "2", "3"}, sent)
	status, _ = ask(t, http.MethodGet, health.URL()+"/api/v1/jobs")
	require.Equal(t, http.StatusNotImplemented, status)
	require.Contains(t, out.String(), "set database.host")
}

// ask returns the status and the body of an answer.
func ask(t *testing.T, method, address string) (status int, body map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
	return answer.StatusCode, body
}
