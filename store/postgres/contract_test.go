package postgres_test

import (
	"os"
	"testing"

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
