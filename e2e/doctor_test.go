package e2e

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// doctor runs the command, and returns what it says and its exit code.
func (s *system) doctor(flags ...string) (said string, code int) {
	s.t.Helper()
	command := s.command("api", append([]string{"doctor"}, flags...)...)
	command.Env = s.env
	output, _ := command.CombinedOutput() // the exit code has the result
	return string(output), command.ProcessState.ExitCode()
}

func TestDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	worker := s.startWorker()
	s.produceDeadLetters(cluster, 1)
	s.eventually("it is stored", func() bool { return s.pending() == 1 })

	said, code := s.doctor()
	require.Zero(t, code, said)
	for _, well := range []string{
		"ok    configuration: it is valid\n", "ok    database: PostgreSQL 1", "ok    clock: ", "ok    schema: ", "ok    rights: ",
		"ok    kafka: brokers: 1\n", "ok    topics: dead-letter topics: " + s.dlqTopic + "\n", "ok    temporal: namespace default keeps",
		"ok    schedule: ", "ok    workers: 1 on the task queue " + s.variable("DLQ_TEMPORAL_TASK_QUEUE") + "; the last poll is ",
		"warn  archive topics: exhausted messages stay in the database, since these do not exist or are hidden: " + t.Name() + ".dlq.archive\n",
	} {
		require.Contains(t, said, well)
	}

	reader := strings.ReplaceAll(s.variable("DLQ_DATABASE_NAME"), "-", "_") + "_reader"
	_, err := s.pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD 'r'; GRANT SELECT ON ALL TABLES IN SCHEMA dlq TO %[1]s;
		GRANT SELECT ON public.schema_migrations TO %[1]s`, reader))
	require.NoError(t, err)
	usual := s.env
	s.env = append(slices.Clone(usual), "DLQ_DATABASE_USER="+reader, "DLQ_DATABASE_PASSWORD=r")
	said, code = s.doctor()
	require.Equal(t, 1, code)
	require.Contains(t, said, "FAIL  rights: the user may not read or change dlq_archive_runs, dlq_arrivals, dlq_audit, dlq_audit_runs, ", "it lacks the schema itself")
	_, err = s.pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA dlq TO "+reader)
	require.NoError(t, err)
	said, _ = s.doctor()
	require.Contains(t, said, "FAIL  rights: ", "it may only read")
	_, err = s.pool.Exec(t.Context(), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", reader))
	require.NoError(t, err)
	s.env = usual

	locked, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = locked.Exec(t.Context(), "LOCK TABLE dlq.dlq_topic_counts IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	said, _ = s.doctor()
	require.NoError(t, locked.Rollback(t.Context()))
	require.Contains(t, said, "warn  targets: the targets that messages wait for were not checked: the counts are locked\n")
	require.Contains(t, said, "ok    topics: ", "Kafka is looked at nevertheless")

	require.NoError(t, worker.end())
	require.NoError(t, cluster.CreateTopic("payments-dlt", 1, nil))
	_, err = s.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('gone', 'boom')`)
	require.NoError(t, err)
	registry, shop := freeAddress(t), freeAddress(t)
	s.env = append(s.env, "DLQ_SCHEMA_REGISTRY_URL=http://"+registry, "DLQ_TARGETS_ENDPOINTS=shop=http://"+shop, "DLQ_TARGETS_ALLOWED_NETWORKS=127.0.0.0/8",
		"DLQ_TARGETS_ROUTES="+s.topic+"=http:shop,never=absent.retry")
	said, code = s.doctor()
	require.Zero(t, code, "warnings are not failures: %s", said)
	for _, warning := range []string{
		"match no pattern: payments-dlt\n      → add them to kafka.dlq_topic_pattern", "warn  targets: messages go to topics that do not exist or are hidden: absent.retry, gone\n      → create them",
		"warn  schema_registry: http://" + registry + ": dial tcp " + registry, "warn  targets.endpoints.shop: dial tcp " + shop,
	} {
		require.Contains(t, said, warning)
	}
	_, code = s.doctor("-strict")
	require.Equal(t, 1, code)
}

func TestDoctorTellsFailuresByTheirExitCode(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	u, err := url.Parse(dbtest.Empty(t))
	require.NoError(t, err)
	s := &system{t: t, env: environment(t, u, temporaltest.Address(t), cluster)}
	said, code := s.doctor()
	require.Equal(t, 1, code)
	require.Contains(t, said, "FAIL  schema: the database has no schema yet")
	require.Contains(t, said, "→ `dlq-worker migrate` applies missing migrations")

	// This server accepts connections and never answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	u.Host = silent.Addr().String()
	s.env = append(environment(t, u, silent.Addr().String(), cluster), "DLQ_KAFKA_BROKERS="+silent.Addr().String())
	said, code = s.doctor()
	require.Equal(t, 1, code)
	for _, failure := range []string{"FAIL  database: ", "FAIL  kafka: ", "FAIL  temporal: "} {
		require.Contains(t, said, failure)
	}
	require.NotContains(t, said, "password=")
}
