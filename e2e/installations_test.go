package e2e

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// When one PostgreSQL is not enough, each installation takes some of the topics. They share Kafka and
// Temporal, and nothing else.
func TestTwoInstallationsDivideTheTopics(t *testing.T) {
	t.Parallel()
	const each = 2_000
	cluster := kafkatest.FakeCluster(t)
	installations := map[string]*system{}
	for _, name := range []string{"orders", "billing"} {
		database := dbtest.Empty(t)
		u, err := url.Parse(database)
		require.NoError(t, err)
		s := &system{t: t, topic: name, dlqTopic: name + ".dlq", pool: poolOf(t, database)}
		s.env = append(environment(t, u, temporaltest.Address(t), cluster), "DLQ_KAFKA_DLQ_TOPIC_PATTERN="+s.dlqTopic,
			"DLQ_KAFKA_CONSUMER_GROUP=dlq-manager."+name, "DLQ_TEMPORAL_TASK_QUEUE="+temporaltest.TaskQueue(t)+"-"+name)
		require.NoError(t, cluster.CreateTopic(s.topic, 3, nil))
		require.NoError(t, cluster.CreateTopic(s.dlqTopic, 3, nil))
		installations[name] = s
	}
	for _, s := range installations {
		s.startWorker()
		s.startAPI()
		s.produceDeadLetters(cluster, each)
	}
	jobs := map[*system]string{}
	for _, s := range installations {
		s.eventually("its messages are stored", func() bool { return s.rows("true") >= each })
		require.Equal(t, each, s.rows("dlq_topic = '"+s.dlqTopic+"'"))
		status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status)
		jobs[s] = "/api/v1/jobs/" + answer["job_id"].(string)
	}
	for s, job := range jobs {
		var answer map[string]any
		s.eventually("its job ends", func() bool {
			_, answer = s.call(http.MethodGet, job)
			return answer["state"] != "RUNNING"
		})
		s.requireAllSent(cluster, answer, each, lanes*dlq.PageSize)
		for other, foreign := range jobs {
			if other != s {
				status, _ := s.call(http.MethodGet, foreign)
				require.Equal(t, http.StatusNotFound, status)
			}
		}
	}
}
