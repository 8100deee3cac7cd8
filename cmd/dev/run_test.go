package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/internal/app"
)

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
