package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/internal/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func TestTheStateOfAnotherVersionIsRefusedWithTheWayToMoveItAside(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkState(t.Context(), "", "/x/.data"), "the database is not ours")
	require.NoError(t, checkState(t.Context(), dbtest.Empty(t), "/x/.data"), "the first start")
	pool := dbtest.New(t)
	require.NoError(t, checkState(t.Context(), dbtest.URL(t), "/x/.data"))
	_, err := pool.Exec(t.Context(), `DROP TABLE dlq.dlq_schema_files`)
	require.NoError(t, err)
	require.ErrorContains(t, checkState(t.Context(), dbtest.URL(t), "/x/.data"), "move it aside with `mv /x/.data /x/.data.before`")
}

func TestAnAPIThatAsksForATokenIsReady(t *testing.T) {
	t.Parallel()
	answering := func(statuses ...int) app.Health {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(statuses[0])
			if len(statuses) > 1 {
				statuses = statuses[1:]
			}
		}))
		t.Cleanup(server.Close)
		return app.Health{Address: server.Listener.Addr().String()}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, waitReady(ctx, answering(http.StatusUnauthorized), answering(http.StatusServiceUnavailable, http.StatusOK)))

	cancel()
	require.ErrorIs(t, waitReady(ctx, answering(http.StatusServiceUnavailable)), context.Canceled)
}
