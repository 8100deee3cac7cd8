package store_test

import (
	"os"
	"testing"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store"
	"dlqmanager/store/storetest"
)

var (
	_ storetest.Store = (*store.Memory)(nil)
	_ storetest.Store = (*store.Postgres)(nil)
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return store.NewMemory(dlqtest.Topics(t)) })
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return store.NewPostgres(dbtest.New(t), dlqtest.Topics(t)) })
}
