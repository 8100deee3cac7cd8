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
func (s *system) doctor() (said string, code int) {
	s.t.Helper()
	command := s.command("api", "doctor")
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
		"ok    kafka: 1 brokers\n", "ok    topics: 1 dead-letter topics: " + s.dlqTopic + "\n", "ok    temporal: namespace default keeps",
		"ok    schedule: ", "ok    workers: 1 poll the task queue ",
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
	require.Contains(t, said, "FAIL  rights: the user may not read or change dlq_audit, dlq_audit_runs, ", "it lacks the schema itself")
	_, err = s.pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA dlq TO "+reader)
	require.NoError(t, err)
	said, _ = s.doctor()
	require.Contains(t, said, "FAIL  rights: ", "it may only read")
	_, err = s.pool.Exec(t.Context(), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", reader))
	require.NoError(t, err)
	s.env = usual

	require.NoError(t, worker.end())
	require.NoError(t, cluster.CreateTopic("payments-dlt", 1, nil))
	_, err = s.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('gone', 'boom')`)
	require.NoError(t, err)
	s.env = append(s.env, "DLQ_SCHEMA_REGISTRY_URL=http://"+freeAddress(t))
	said, code = s.doctor()
	require.Zero(t, code, "warnings are not failures: %s", said)
	for _, warning := range []string{
		"match no pattern: payments-dlt\n      → add them to kafka.dlq_topic_pattern", "do not exist or are hidden: gone\n      → create them",
		"warn  schema_registry: dial tcp 127.0.0.1",
	} {
		require.Contains(t, said, warning)
	}
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
	require.Contains(t, said, "→ run `dlq-worker migrate`, or start a worker")

	// A server that accepts connections and says nothing.
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
