package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const unavailable = `{"error": {"code": "SYS_DLQ_UNAVAILABLE", "message": "try again later", "request_id": "r1", "details": []}}`

func TestAnErrorHasTheCodeTheDetailsAndTheRequest(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		answer(w, http.StatusTooManyRequests, `{"error": {"code": "SYS_DLQ_TOO_MANY_REQUESTS", "message": "too many requests", "request_id": "r1",
			"details": [{"field": "f", "message": "m"}]}}`)
	})
	_, err := c.RetryMessage(t.Context(), "id", nil, nil)
	failed, ok := errors.AsType[*client.APIError](err)
	require.True(t, ok)
	failed.Body = nil
	require.Equal(t, &client.APIError{
		Status: 429, Code: client.ErrorCodeTooManyRequests, Message: "too many requests", RequestID: "r1",
		Details: []client.ErrorDetail{{Field: "f", Message: "m"}}, RetryAfter: 7 * time.Second,
	}, failed)
	require.EqualError(t, err, "SYS_DLQ_TOO_MANY_REQUESTS: too many requests; f: m (status 429, request r1)")
	require.Equal(t, client.ErrorCodeTooManyRequests, client.CodeOf(fmt.Errorf("wrapped: %w", err)))
	require.Empty(t, client.CodeOf(context.Canceled))
}

func TestAProxysPageInsteadOfJSONIsAClearError(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusForbidden} {
		c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>sign in"))
		})
		_, err := c.GetMe(t.Context(), nil)
		require.ErrorContains(t, err, "answered with text/html instead of JSON")
		require.ErrorContains(t, err, "check the address of the server")
		failed, ok := errors.AsType[*client.APIError](err)
		require.True(t, ok)
		require.Equal(t, status, failed.Status)
		require.Equal(t, "<html>sign in", string(failed.Body))
		require.Empty(t, failed.Code)
	}
}

func TestOnlySafeRequestsAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(context.Context, *client.Client) error
		want int
	}{
		"GET":  {func(ctx context.Context, c *client.Client) error { _, err := c.ListTopics(ctx, nil); return err }, 2},
		"POST": {func(ctx context.Context, c *client.Client) error { _, err := c.RunArchive(ctx, nil); return err }, 1},
		"DELETE": {func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteMessage(ctx, "id", nil)
			return err
		}, 1},
		"POST with a key": {func(ctx context.Context, c *client.Client) error {
			_, err := c.HandIn(ctx, "t", &client.HandInParams{IdempotencyKey: new("k")}, client.HandInRequest{})
			return err
		}, 2},
		"POST of a plan": {func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateJob(ctx, nil, planStart(t))
			return err
		}, 2},
		"POST of a filter": {func(ctx context.Context, c *client.Client) error {
			var start client.JobStart
			require.NoError(t, start.FromChangeJobRequest(client.ChangeJobRequest{Kind: client.ChangeKindDead, Topic: "t"}))
			_, err := c.CreateJob(ctx, nil, start)
			return err
		}, 1},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				t.Parallel()
				calls := 0
				c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
					if calls++; calls == 1 {
						w.Header().Set("Retry-After", "1")
						answer(w, status, unavailable)
						return
					}
					answer(w, http.StatusOK, `{}`)
				})
				begin := time.Now()
				err := test.do(t.Context(), c)
				require.Equal(t, test.want, calls)
				if test.want == 1 {
					require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(err))
					return
				}
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(begin), time.Second)
			})
		}
	}
}

func planStart(t *testing.T) (start client.JobStart) {
	t.Helper()
	require.NoError(t, start.FromPlanStart(client.PlanStart{Plan: "0199c0de-7000-7000-8000-000000000009"}))
	return start
}

// lose closes the connection of a request without an answer.
func lose(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	connection, _, err := http.NewResponseController(w).Hijack()
	if assert.NoError(t, err) {
		assert.NoError(t, connection.Close())
	}
}

func TestALostAnswerToTheStartOfAPlanIsAskedForAgain(t *testing.T) {
	t.Parallel()
	started := 0
	c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		if started++; started == 1 {
			lose(t, w)
			return
		}
		answer(w, http.StatusOK, `{"kind": "dead", "state": "COMPLETED"}`)
	})
	job, err := c.RunJob(t.Context(), planStart(t), nil)
	require.NoError(t, err)
	summary, err := job.Summary()
	require.NoError(t, err)
	require.True(t, summary.Ended())
	require.Equal(t, 2, started)
}

func TestAnAnswerHasTheBytesOfTheServer(t *testing.T) {
	t.Parallel()
	const body = "{\"subject\" :\"<a>\",\t\"unknown\":9007199254740993}"
	c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, body) })
	me, err := c.GetMe(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, body, string(me.Body))
	require.Equal(t, "<a>", me.Value.Subject)
}

func TestAClientGivesUpWhereWaitingIsTooLongOrDidNotHelp(t *testing.T) {
	t.Parallel()
	calls := 0
	after := ""
	refusing := func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Retry-After", after)
		answer(w, http.StatusServiceUnavailable, unavailable)
	}
	c := serve(t, client.Config{Retries: 2, LongestDelay: time.Millisecond}, refusing)
	_, err := c.ListTopics(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(err))
	require.Equal(t, 3, calls)

	calls, after = 0, "3600"
	_, err = c.ListTopics(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(err))
	require.Equal(t, 1, calls)

	ctx, cancel := context.WithCancel(t.Context())
	c = serve(t, client.Config{LongestDelay: 2 * time.Hour}, func(w http.ResponseWriter, r *http.Request) { cancel(); refusing(w, r) })
	_, err = c.ListTopics(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPagesFollowTheirCursors(t *testing.T) {
	t.Parallel()
	var cursors []string
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		cursors = append(cursors, r.URL.Query().Get("cursor"))
		assert.Equal(t, "timeout", r.URL.Query().Get("error"))
		switch r.URL.Query().Get("cursor") {
		case "":
			answer(w, http.StatusOK, `{"messages": [{"id": "1"}, {"id": "2"}], "pagination": {"next_cursor": "a"}}`)
		case "a":
			answer(w, http.StatusOK, `{"messages": [], "pagination": {"next_cursor": "b"}}`)
		case "b":
			answer(w, http.StatusOK, `{"messages": [{"id": "3"}], "pagination": {"next_cursor": null}}`)
		}
	})
	params := &client.ListMessagesParams{Error: new("timeout")}
	messages := c.AllMessages(t.Context(), "t", params)
	for range 2 { // a sequence can be read again
		cursors = nil
		var ids []string
		for message, err := range messages {
			require.NoError(t, err)
			ids = append(ids, message.ID)
		}
		require.Equal(t, []string{"1", "2", "3"}, ids)
		require.Equal(t, []string{"", "a", "b"}, cursors)
	}
	cursors = nil
	for range messages {
		break
	}
	require.Equal(t, []string{""}, cursors)
	require.Nil(t, params.Cursor)
}

func TestEachListHasPagesAndEndsWithItsError(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			answer(w, http.StatusServiceUnavailable, unavailable)
			return
		}
		answer(w, http.StatusOK, `{"messages": [{}], "jobs": [{"kind": "dead"}], "retries": [{}], "groups": [{}], "operations": [{}],
			"pagination": {"next_cursor": "a"}}`)
	})
	ctx := t.Context()
	one(t, c.AllMessages(ctx, "t", nil))
	one(t, c.AllArchivedMessages(ctx, nil))
	one(t, c.AllJobs(ctx, nil))
	one(t, c.AllSingleRetries(ctx, nil))
	one(t, c.AllGroups(ctx, nil))
	one(t, c.AllOperations(ctx, nil))
}

func one[T any](t *testing.T, pages func(func(T, error) bool)) {
	t.Helper()
	var errs []error
	for _, err := range pages {
		errs = append(errs, err)
	}
	require.Len(t, errs, 2)
	require.NoError(t, errs[0])
	require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(errs[1]))
}

func TestAStaticTokenIsSentOnce(t *testing.T) {
	t.Parallel()
	valid := "b"
	c, seen := guard(t, &valid, client.StaticToken("a"))
	_, err := c.GetMe(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnauthenticated, client.CodeOf(err))
	require.Equal(t, []string{"a"}, *seen)
}

func TestATokenFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string, at time.Time) {
		require.NoError(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
	}
	now := time.Now()
	valid := "a"
	c, seen := guard(t, &valid, client.FileToken(path))
	_, err := c.GetMe(t.Context(), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	write("a", now)
	_, err = c.GetMe(t.Context(), nil)
	require.NoError(t, err)

	valid = "b"
	write("b", now.Add(time.Second))
	_, err = c.RunArchive(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, *seen)

	*seen, valid = nil, "c"
	write("c", now.Add(time.Second)) // the clock of the file does not show the change, a refusal does
	_, err = c.RunArchive(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, *seen)

	*seen, valid = nil, "d"
	_, err = c.GetMe(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnauthenticated, client.CodeOf(err))
	require.Equal(t, []string{"c"}, *seen)
	write("", now)
	_, err = c.GetMe(t.Context(), nil)
	require.ErrorContains(t, err, "is empty")
}

func TestATokenCommandRunsAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	valid := "t1"
	c, seen := guard(t, &valid, client.CommandToken("sh", "-c", `echo x >> "$0" && echo "t$(wc -l < "$0" | tr -d ' ')"`, count))
	for range 3 {
		_, err := c.GetMe(t.Context(), nil)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"t1", "t1", "t1"}, *seen)

	*seen, valid = nil, "t2"
	_, err := c.RunArchive(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "t2"}, *seen)

	*seen, valid = nil, "none"
	_, err = c.RunArchive(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnauthenticated, client.CodeOf(err))
	require.Equal(t, []string{"t2", "t3"}, *seen)

	broken, _ := guard(t, &valid, client.CommandToken("sh", "-c", "echo sign in first >&2; exit 3"))
	_, err = broken.GetMe(t.Context(), nil)
	require.ErrorContains(t, err, "sign in first")
	silent, _ := guard(t, &valid, client.CommandToken("true"))
	_, err = silent.GetMe(t.Context(), nil)
	require.ErrorContains(t, err, "has printed nothing")
}

func TestAnAddressThatIsNoServerIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:8080", "ftp://x", "http://", "http://u:p@x", "http://x?y=1", ":"} {
		_, err := client.New(address, client.Config{})
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "u:p")
	}
}

func TestAnIDCannotLeadToAnotherPath(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	for _, id := range []string{"", ".", ".."} {
		_, err := c.DeleteMessage(t.Context(), id, nil)
		require.ErrorContains(t, err, "an id or a topic cannot be")
	}
	_, err := c.RetryAll(t.Context(), "..", nil, nil)
	require.ErrorContains(t, err, "an id or a topic cannot be")
}

func TestAServerBelowAPathIsCalledThere(t *testing.T) {
	t.Parallel()
	path := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		answer(w, http.StatusOK, `{"kind": "dead", "state": "FAILED"}`)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/base/", client.Config{})
	require.NoError(t, err)
	_, err = c.WaitForJob(t.Context(), "j", nil)
	require.NoError(t, err)
	require.Equal(t, "/base/api/v1/jobs/j", path)
}
