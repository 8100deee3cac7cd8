package postgres_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
	"dlqmanager/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return postgres.New(dbtest.New(t), dlqtest.Topics(t)) })
}

// `make test-postgres` asks for versions.
func TestTheServerIsOfTheVersionThatWasAskedFor(t *testing.T) {
	t.Parallel()
	wanted := os.Getenv("DLQ_TEST_POSTGRES_VERSION")
	if wanted == "" {
		t.Skip("any version will do")
	}
	var version int
	require.NoError(t, dbtest.New(t).QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int / 10000`).Scan(&version))
	require.Equal(t, wanted, strconv.Itoa(version))
}
