package api_test

import (
	"os"
	"testing"

	"dlqmanager/api"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

func TestMain(m *testing.M) {
	dlqtest.AtOnce(6) // the tests mostly wait for the database
	os.Exit(dbtest.Main(m))
}

// Store has all methods of a store that the API uses.
type Store interface {
	api.Store
	api.Database
}

// newStore returns a store with its own database.
func newStore(t testing.TB) *postgres.Store {
	t.Helper()
	return postgres.New(dbtest.Another(t), newTopics(t))
}

// with replaces the store of a server.
func with(store Store) func(*api.Options) {
	return func(o *api.Options) { o.Store, o.Database = store, store }
}

// wrapped puts a wrapper around the store of a server.
func wrapped(wrap func(Store) Store) func(*api.Options) {
	return func(o *api.Options) {
		store, _ := o.Store.(Store)
		with(wrap(store))(o)
	}
}
