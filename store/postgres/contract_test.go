package postgres_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
	"dlqmanager/store/storetest"
)

func TestMain(m *testing.M) {
	dlqtest.AtOnce(4) // many tests wait for locks and timeouts
	os.Exit(dbtest.Main(m))
}

// The store has only the rights of the application's role. All other tests run as the owner
// of the tables.
func TestContract(t *testing.T) {
	t.Parallel()
	template := dbtest.NewProtected(t)
	user := template.User(t, template.Application)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		s := postgres.New(dbtest.Pool(t, template.Copy(t, user)), dlqtest.Topics(t))
		s.Outbox = true
		return s
	})
}

func TestContractOfRoutes(t *testing.T) {
	t.Parallel()
	storetest.RunRoutes(t, func(t *testing.T) storetest.Store {
		s := postgres.New(dbtest.New(t), dlqtest.Topics(t))
		s.Targets = dlqtest.Targets(t)
		return s
	})
}

func TestContractOfTheAuditLog(t *testing.T) {
	t.Parallel()
	var logged []dlq.Operation
	s := postgres.New(dbtest.New(t), dlqtest.Topics(t))
	s.Audit = func(o dlq.Operation) { logged = append(logged, o) }
	storetest.RunAuditLog(t, s, func() []dlq.Operation { return logged })
}

func TestContractWithoutAnOutbox(t *testing.T) {
	t.Parallel()
	storetest.RunWithoutOutbox(t, postgres.New(dbtest.New(t), dlqtest.Topics(t)))
}

// `make test-postgres` requests versions. Otherwise any supported version will do.
func TestTheServerHasTheRequestedVersion(t *testing.T) {
	t.Parallel()
	var version int
	require.NoError(t, dbtest.New(t).QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int / 10000`).Scan(&version))
	if wanted := os.Getenv("DLQ_TEST_POSTGRES_VERSION"); wanted != "" {
		require.Equal(t, wanted, strconv.Itoa(version))
	}
	require.GreaterOrEqual(t, version, 15)
}
