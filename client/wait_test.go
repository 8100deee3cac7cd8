package client_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func TestAJobIsFollowedUntilItHasEnded(t *testing.T) {
	t.Parallel()
	var tags []string
	c := serve(t, client.Config{PollEvery: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			assert.Equal(t, "respond-async", r.Header.Get("Prefer"))
			w.Header().Set("Location", "/api/v1/jobs/j")
			answer(w, http.StatusAccepted, `{"kind": "dead", "state": "RUNNING"}`)
			return
		}
		assert.Equal(t, "/api/v1/jobs/j", r.URL.Path)
		tags = append(tags, r.Header.Get("If-None-Match"))
		switch len(tags) {
		case 1, 2:
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			answer(w, http.StatusOK, `{"kind": "dead", "state": "RUNNING", "changed": 1}`)
		default:
			w.Header().Set("ETag", `"2"`)
			answer(w, http.StatusOK, `{"kind": "dead", "state": "COMPLETED", "changed": 5}`)
		}
	})
	var start client.JobStart
	require.NoError(t, start.FromChangeJobRequest(client.ChangeJobRequest{Kind: client.ChangeKindDead, Topic: "t"}))
	var changed []int64
	job, err := c.RunJob(t.Context(), start, func(job client.Job) {
		change, err := job.AsChangeJob()
		require.NoError(t, err)
		changed = append(changed, change.Changed)
	})
	require.NoError(t, err)
	summary, err := job.Summary()
	require.NoError(t, err)
	require.Equal(t, client.JobStateCOMPLETED, summary.State)
	require.Equal(t, []string{"", `"1"`, `"1"`}, tags)
	require.Equal(t, []int64{1, 5}, changed)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, client.Config{PollEvery: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"kind": "dead", "state": "RUNNING", "changed": 1}`)
	})
	job, err := c.WaitForJob(ctx, "j", func(client.Job) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	summary, err := job.Summary()
	require.NoError(t, err)
	require.Equal(t, client.JobStateRUNNING, summary.State)
}

// outages fail the first requests, each in another way, and then answer.
func outages(t *testing.T, then string) http.HandlerFunc {
	t.Helper()
	calls := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		switch calls++; calls {
		case 1:
			lose(t, w)
		case 2:
			w.Header().Set("Retry-After", "3600")
			answer(w, http.StatusServiceUnavailable, unavailable)
		case 3, 4:
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway + 2*(calls-3))
		case 5:
			w.Header().Set("Content-Length", "100")
			answer(w, http.StatusOK, `{"kind"`)
		default:
			answer(w, http.StatusOK, then)
		}
	}
}

func TestAJobIsFollowedThroughAnOutageOfTheServer(t *testing.T) {
	t.Parallel()
	var told []error
	tell := func(err error) { told = append(told, err) }
	var dialer net.Dialer
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 1 {
			address = "127.0.0.1:1" // nothing listens there
		}
		return dialer.DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	config := client.Config{HTTP: &http.Client{Transport: transport}, Retries: -1, LongestDelay: time.Millisecond, Unreachable: tell}
	job, err := serve(t, config, outages(t, `{"kind": "dead", "state": "COMPLETED"}`)).WaitForJob(t.Context(), "j", nil)
	require.NoError(t, err)
	summary, err := job.Summary()
	require.NoError(t, err)
	require.True(t, summary.Ended())
	require.Len(t, told, 7)
	require.ErrorIs(t, told[0], syscall.ECONNREFUSED)
	require.ErrorIs(t, told[1], io.EOF)
	require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(told[2]))
	require.ErrorContains(t, told[3], "status 502")
	require.ErrorContains(t, told[4], "status 504")
	require.ErrorIs(t, told[5], io.ErrUnexpectedEOF)
	require.NoError(t, told[6])

	_, err = serve(t, client.Config{Retries: -1, LongestDelay: time.Millisecond}, outages(t, `{"kind": "dead", "state": "FAILED"}`)).WaitForJob(t.Context(), "j", nil)
	require.NoError(t, err)
}

func TestFollowingThroughAnOutageEndsWithItsContextOrAnAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	refusing := func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusServiceUnavailable, unavailable) }
	_, err := serve(t, client.Config{Unreachable: func(error) { cancel() }}, refusing).WaitForJob(ctx, "j", nil)
	require.ErrorIs(t, err, context.Canceled)

	missing := func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, `{"error": {"code": "SYS_DLQ_NOT_FOUND", "message": "job not found", "request_id": "r", "details": []}}`)
	}
	never := func(err error) { t.Errorf("told of %v", err) }
	_, err = serve(t, client.Config{Unreachable: never}, missing).WaitForJob(t.Context(), "j", nil)
	require.Equal(t, client.ErrorCodeNotFound, client.CodeOf(err))

	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(missing))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	c, err := client.New(untrusted.URL, client.Config{Unreachable: never})
	require.NoError(t, err)
	_, err = c.WaitForJob(t.Context(), "j", nil)
	require.ErrorContains(t, err, "certificate")
}

func TestALocationOfAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"https://evil.example/api/v1/jobs/j", "//evil.example/x", "jobs", "/jobs?x=1"} {
		c := serve(t, client.Config{Token: client.StaticToken("secret")}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			answer(w, http.StatusAccepted, `{"kind": "dead", "state": "RUNNING"}`)
		})
		_, err := c.RunJob(t.Context(), client.JobStart{}, nil)
		require.ErrorContains(t, err, "no path of the server", location)
	}
}

// guard is a server that lets one token in.
func guard(t *testing.T, valid *string, source client.TokenSource) (c *client.Client, seen *[]string) {
	t.Helper()
	seen = new([]string)
	return serve(t, client.Config{Token: source}, func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		*seen = append(*seen, token)
		if token != *valid {
			answer(w, http.StatusUnauthorized, `{"error": {"code": "SYS_DLQ_UNAUTHENTICATED", "message": "no", "request_id": "r", "details": []}}`)
			return
		}
		answer(w, http.StatusOK, `{}`)
	}), seen
}
