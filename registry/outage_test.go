package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"golang.org/x/sync/errgroup"

	"dlqmanager/registry"
)

// answer makes the registry answer every request with a status.
func (w *world) answer(status int) {
	w.fake.Intercept(func(response http.ResponseWriter, _ *http.Request) bool {
		response.WriteHeader(status)
		return true
	})
}

// asked returns the number of requests since the last call.
func (w *world) asked() (count int) {
	for {
		select {
		case <-w.requests:
			count++
		default:
			return count
		}
	}
}

const avroString = `"string"`

func TestASchemaIsLoadedOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeAvro, avroString)
	var callers errgroup.Group
	for range 20 {
		callers.Go(func() error {
			_, err := w.decoder.Decode(t.Context(), "orders", false, wire(id, 2, 'x'))
			return err
		})
	}
	require.NoError(t, callers.Wait())
	w.ingest(wire(id, 2, 'x'), wire(id, 2, 'y'))
	require.Equal(t, 2, w.asked(), "the schema and its subjects")
}

func TestAnUnknownIDIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	for range 5 {
		w.requireError("the schema registry has no schema with the id 77", wire(77))
		require.Equal(t, "the schema registry has no schema with the id 77", w.ingest(wire(77))[0].DecodeError)
	}
	require.Equal(t, 1, w.asked())
	id := w.register("orders-value", sr.TypeAvro, avroString)
	w.requireJSON(`"x"`, wire(id, 2, 'x')) // an unknown id does not open the breaker
}

func TestAFailedRegistryIsNotAskedAgainForAWhile(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		500: "the schema registry answers with 500", 503: "answers with 503", 429: "answers with 429",
		401: "refuses the credentials (401)", 403: "refuses the credentials (403)",
	} {
		w := start(t)
		w.answer(status)
		for id := range uint32(5) {
			w.requireError(want, wire(id+1))
			require.Contains(t, w.ingest(wire(id + 1))[0].DecodeError, want)
		}
		require.Equal(t, 1, w.asked(), status)
		require.NoError(t, testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP dlq_schema_registry_paused 1 while nothing is asked of the registry, since it has failed.
# TYPE dlq_schema_registry_paused gauge
dlq_schema_registry_paused 1
# HELP dlq_decode_failures_total Values and keys in the wire format that were not decoded, by reason.
# TYPE dlq_decode_failures_total counter
dlq_decode_failures_total{reason="schema"} 0
dlq_decode_failures_total{reason="too_large"} 0
dlq_decode_failures_total{reason="unavailable"} 10
dlq_decode_failures_total{reason="unknown_schema"} 0
dlq_decode_failures_total{reason="value"} 0
`), "dlq_schema_registry_paused", "dlq_decode_failures_total"))
	}
}

func TestKnownSchemasAreUsedWhileTheRegistryIsAway(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeAvro, avroString)
	w.requireJSON(`"x"`, wire(id, 2, 'x'))
	w.fake.Close()
	w.requireError("the schema registry cannot be reached", wire(id+1))
	w.requireJSON(`"y"`, wire(id, 2, 'y'))
	require.JSONEq(t, `"z"`, string(w.ingest(wire(id, 2, 'z'))[0].Payload))
}

func TestADeadInstanceIsSkipped(t *testing.T) {
	t.Parallel()
	dead, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	w := start(t, func(o *registry.Options) { o.URLs = append([]string{"http://" + dead.Addr().String()}, o.URLs...) })
	w.requireJSON(`"x"`, wire(w.register("orders-value", sr.TypeAvro, avroString), 2, 'x'))
}

// silent makes the registry wait with all answers until the returned function is called.
func (w *world) silent() (release func()) {
	released := make(chan struct{})
	w.fake.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-released:
		case <-r.Context().Done():
		}
		return false
	})
	release = sync.OnceFunc(func() { close(released) })
	w.t.Cleanup(release)
	return release
}

func TestASilentRegistryCostsTheIngestLittleTime(t *testing.T) {
	t.Parallel()
	const most = 40 * time.Millisecond
	w := start(t, func(o *registry.Options) { o.IngestTimeout, o.Timeout = most, time.Minute })
	w.silent()
	began := time.Now()
	var spent time.Duration
	for id := uint32(1); time.Since(began) < 500*time.Millisecond; id++ {
		called := time.Now()
		a := w.ingest(wire(id))[0]
		spent += time.Since(called)
		require.Equal(t, "the schema registry has not answered in time", a.DecodeError)
		require.Equal(t, id, a.Schema.ID)
		require.Nil(t, a.Payload)
		idle(t.Context(), time.Millisecond)
	}
	require.Less(t, spent, most+time.Since(began)/10)
}

// idle stands for the work of the ingest between two batches.
func idle(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func TestASchemaThatArrivesTooLateServesTheNextBatch(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *registry.Options) { o.IngestTimeout = 10 * time.Millisecond })
	id := w.register("orders-value", sr.TypeAvro, avroString)
	release := w.silent()
	require.NotEmpty(t, w.ingest(wire(id, 2, 'x'))[0].DecodeError)
	release()
	w.requireJSON(`"x"`, wire(id, 2, 'x')) // waits for the running load
	require.Empty(t, w.ingest(wire(id, 2, 'x'))[0].DecodeError)
	require.Equal(t, 2, w.asked())
}

func TestACallerDoesNotWaitLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *registry.Options) { o.Timeout = 20 * time.Millisecond })
	w.silent()
	w.requireError("has not answered in time", wire(1))
}

func TestTheCredentialsAreThoseOfTheMoment(t *testing.T) {
	t.Parallel()
	var token atomic.Value
	token.Store("one")
	w := start(t, func(o *registry.Options) {
		o.Authorize = func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token.Load().(string))
			return nil
		}
	})
	w.fake.Intercept(func(response http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+token.Load().(string) {
			return false
		}
		response.WriteHeader(http.StatusUnauthorized)
		return true
	})
	for i, text := range []string{avroString, `"bytes"`} {
		token.Store(fmt.Sprint("token", i))
		_, err := w.decode(wire(w.register(fmt.Sprint(i), sr.TypeAvro, text), 0))
		require.NoError(t, err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(other.Close)
	w := start(t)
	w.fake.Intercept(func(response http.ResponseWriter, r *http.Request) bool {
		http.Redirect(response, r, other.URL, http.StatusFound)
		return true
	})
	w.requireError("the schema registry cannot be reached", wire(1))
}

func TestBytesThatNameNoSchemaAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, value := range [][]byte{nil, {}, {0}, {0, 0, 0, 1}, []byte(`{"a": 1}`), {0, 0, 0, 0, 0, 0, 0, 42}, {1, 0, 0, 0, 1, 0}} {
		a := w.ingest(value)[0]
		require.Zero(t, a.Schema)
		require.Empty(t, a.DecodeError)
		_, err := w.decode(value)
		require.Error(t, err)
	}
	require.Zero(t, w.asked())
}

func TestABatchWithManyUnknownIDsAsksForSome(t *testing.T) {
	t.Parallel()
	w := start(t)
	var values [][]byte
	for id := range uint32(500) {
		values = append(values, wire(id+1000))
	}
	for _, a := range w.ingest(values...) {
		require.NotEmpty(t, a.DecodeError)
	}
	require.Equal(t, 64, w.asked())
}

func TestThePayloadIsNullIfJSONBRefusesIt(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeAvro, avroString)
	a := w.ingest(wire(id, 2, 0))[0]
	require.Nil(t, a.Payload)
	require.Contains(t, a.DecodeError, "NUL")
	w.requireJSON(`"\u0000"`, wire(id, 2, 0))
}

func TestIdsOfHeadersWin(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeJSON, `{}`)
	a := w.ingest(wire(id, []byte(`{"metadata": {"trace_id": "t", "correlation_id": "c"}}`)...))[0]
	require.Equal(t, []string{"t", "c"}, []string{a.TraceID, a.CorrelationID})
	a.TraceID = "of the header"
	w.decoder.DecodeArrivals(t.Context(), append(w.ingest(), a))
	require.Equal(t, "of the header", a.TraceID)
}

func TestTheRegistryIsReachedOverTLS(t *testing.T) {
	t.Parallel()
	fake := srfake.NewRegistry()
	server := httptest.NewTLSServer(fake.Handler())
	t.Cleanup(server.Close)
	id, _, err := fake.RegisterSchema("orders-value", sr.Schema{Schema: avroString})
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	for name, test := range map[string]struct {
		config  func() (*tls.Config, error)
		decodes bool
	}{
		"its authority is trusted":     {func() (*tls.Config, error) { return &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, nil }, true},
		"its authority is not trusted": {func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }, false},
		"the files cannot be read":     {func() (*tls.Config, error) { return nil, os.ErrNotExist }, false},
	} {
		w := start(t, func(o *registry.Options) { o.URLs, o.TLS = []string{server.URL}, test.config })
		_, err := w.decode(wire(uint32(id), 2, 'x'))
		if test.decodes {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, "the schema registry cannot be reached", name)
		}
	}
}
