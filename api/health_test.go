package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

func checks(tests map[string]func(context.Context) error) func(*api.Options) {
	return func(o *api.Options) { o.Checks = tests }
}

func well(context.Context) error { return nil }

func TestHealthzReturnsOK(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"status":"ok"}`, got.body)
}

func TestReadyzReturnsOK(t *testing.T) {
	t.Parallel()
	w := start(t, checks(map[string]func(context.Context) error{"database": well, "kafka": well, "temporal": well}))
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"status":"ok","checks":{"database":"ok","kafka":"ok","temporal":"ok"}}`, got.body)
}

func TestReadyzReturnsOKWithoutAnythingToCheck(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"status":"ok","checks":{}}`, start(t).call(http.MethodGet, "/readyz").body)
}

func TestReadyzSaysWhatIsAwayAndKeepsTheReasonInTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, checks(map[string]func(context.Context) error{
		"database": well,
		"kafka":    func(context.Context) error { return errors.New("dial 10.1.2.3 as admin: refused") },
		"temporal": func(context.Context) error { panic("boom") },
	}))
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "5", got.header.Get("Retry-After"))
	require.Equal(t, "unavailable", got.field(t, "status"))
	require.Equal(t, map[string]any{"database": "ok", "kafka": "away", "temporal": "away"}, got.field(t, "checks"))
	require.Equal(t, "SYS_DLQ_UNAVAILABLE", got.field(t, "error", "code"))
	require.Equal(t, "away: kafka, temporal", got.field(t, "error", "message"))
	require.NotContains(t, got.body, "10.1.2.3")
	require.Len(t, w.logs.FilterMessage("dependency is away").All(), 2)
}

func TestReadyzRunsChecksTogetherAndDoesNotWaitForOneThatHangs(t *testing.T) {
	t.Parallel()
	database, kafka := make(chan struct{}), make(chan struct{})
	var rounds atomic.Int32
	never := make(chan struct{})
	var hung atomic.Int32
	w := start(t, checks(map[string]func(context.Context) error{
		"database": func(context.Context) error { // returns only while the other runs
			rounds.Add(1)
			database <- <-kafka
			return nil
		},
		"kafka": func(context.Context) error {
			kafka <- struct{}{}
			<-database
			return nil
		},
		"temporal": func(context.Context) error { hung.Add(1); <-never; return nil }, // ignores its context
	}))
	t.Cleanup(func() { close(never) })
	began := time.Now()
	got := w.call(http.MethodGet, "/readyz")
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, map[string]any{"database": "ok", "kafka": "ok", "temporal": "away"}, got.field(t, "checks"))
	require.Eventually(t, func() bool {
		w.call(http.MethodGet, "/readyz")
		return rounds.Load() > 1
	}, 10*time.Second, 50*time.Millisecond)
	require.EqualValues(t, 1, hung.Load(), "a check that hangs is not started again")
}

func TestReadyzAsksOnceForManyProbes(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	w := start(t, checks(map[string]func(context.Context) error{
		"database": func(context.Context) error { asked.Add(1); return nil },
	}))
	began := time.Now()
	for range 20 {
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/readyz").status)
	}
	require.LessOrEqual(t, int(asked.Load()), 1+int(time.Since(began)/time.Second))
}

func TestReadyzIs503WhileDrainingAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t, checks(map[string]func(context.Context) error{"database": well}))
	w.server.Drain()
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "draining", got.field(t, "status"))
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq").status)
}

func TestShutdownAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/retry", nil)
		answered <- got
	}()
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // less than the retry would wait
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx))
	got := <-answered
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "RETRYING", got.field(t, "status"))
}

func TestShutdownEndsThoughAClientKeepsItsConnectionBusy(t *testing.T) {
	t.Parallel()
	w := start(t)
	busy, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			got, err := w.client.Get("http://" + w.address + "/healthz")
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
			if n == 10 {
				close(busy)
			}
		}
	}()
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx))
	<-ended
}

func TestShutdownEndsAServerThatIsJustStarting(t *testing.T) {
	t.Parallel()
	for range 50 {
		server, err := api.New(api.Options{Store: newMemory(newTopics(t)), Retries: newRetries(t, nil), Topics: newTopics(t)})
		require.NoError(t, err)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		require.NoError(t, server.Shutdown(t.Context()))
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			require.Fail(t, "Serve goes on")
		}
	}
}
