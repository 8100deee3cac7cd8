package e2e

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// Only the worker knows the user that migrates. The programs' own user has no rights at
// first, and the last migration is still to be applied.
func TestTheProgramsNeedNotOwnTheirTables(t *testing.T) {
	t.Parallel()
	p := dbtest.NewProtected(t)
	application, err := url.Parse(p.User(t, p.Application))
	require.NoError(t, err)
	migrator, err := url.Parse(p.User(t, p.Owner))
	require.NoError(t, err)
	s := newSystemAt(t, application, temporaltest.Address(t), kafkatest.FakeCluster(t))
	s.pool = dbtest.Pool(t, p.URL)
	for _, sql := range []string{
		`UPDATE public.schema_migrations SET version = version - 1`,
		`REVOKE ALL ON ALL TABLES IN SCHEMA dlq FROM ` + p.Application,
	} {
		_, err = s.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	password, _ := migrator.User.Password()
	address := freeAddress(t)
	s.start("worker", address, "DLQ_WORKER_METRICS_PORT="+port(address), "DLQ_DATABASE_APPLICATION_ROLE="+p.Application,
		"DLQ_DATABASE_MIGRATIONS_USER="+migrator.User.Username(), "DLQ_DATABASE_MIGRATIONS_PASSWORD="+password, "DLQ_DATABASE_MIGRATIONS_ROLE="+p.Owner)
	s.startAPI()

	_, err = s.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message) SELECT $1, $2, 'boom' FROM generate_series(1, 200)`,
		s.topic, s.dlqTopic)
	require.NoError(t, err)
	status, job := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer: wait=30")
	require.Equal(t, http.StatusOK, status, job)
	require.Equal(t, 200, s.rows("status = 'RESOLVED'"))
	status, list := s.call(http.MethodGet, "/api/v1/audit")
	require.Equal(t, http.StatusOK, status, list)
}
