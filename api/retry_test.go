package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func retryPath(id dlq.ID) string { return "/api/v1/dlq/messages/" + id.String() + "/retry" }

func exhausted(a *dlq.Arrival) { a.RetryCount = a.MaxRetries }

func TestRetryMessageReturns404WhenNotFound(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.call(http.MethodPost, "/api/v1/dlq/messages/"+someID+"/retry", "X-Request-Id: req_abc123def456")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_NOT_FOUND","message":"dlq message not found: 550e8400-e29b-41d4-a716-446655440000",`+
		`"request_id":"req_abc123def456","details":[]}}`, got.body)
	require.Zero(t, w.retries.starts())
}

func TestRetryMessageResolvesPendingMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	got := w.call(http.MethodPost, retryPath(id))
	require.Equal(t, http.StatusOK, got.status, got.body)
	workflow, run := got.field(t, "workflow_id").(string), got.field(t, "run_id").(string)
	require.Equal(t, workflows.RetryMessageID(id), workflow)
	require.Equal(t, `{"id":"`+id.String()+`","status":"RESOLVED","message":"message retry initiated",`+
		`"retry_count":1,"max_retries":3,"published":true,"error":null,"error_category":null,`+
		`"workflow_id":"`+workflow+`","run_id":"`+run+`"}`, got.body)
	require.Empty(t, got.header.Get("Location"))
	require.Equal(t, "RESOLVED", w.status(id))
}

func TestRetryMessageReturns409WhenNotRetryable(t *testing.T) {
	t.Parallel()
	w := start(t)
	resolved, dead, used := w.add(1)[0], w.add(1)[0], w.add(1, exhausted)[0]
	w.call(http.MethodPost, retryPath(resolved))
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+dead.String()+"/dead")
	before := w.retries.starts()
	for id, want := range map[dlq.ID]string{
		resolved: "message is not retryable: status=RESOLVED, retry_count=1/3",
		dead:     "message is not retryable: status=DEAD, retry_count=0/3",
	} {
		message, fields := requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, want, message)
		require.Empty(t, fields)
	}
	got := w.call(http.MethodPost, retryPath(used), "X-Request-Id: req_abc123def456")
	require.Equal(t, http.StatusConflict, got.status)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_CONFLICT","message":"message is not retryable: status=DEAD, retry_count=3/3",`+
		`"request_id":"req_abc123def456","details":[]}}`, got.body)
	require.Equal(t, before, w.retries.starts())
}

func TestRetryMessageReturns409WhenRetriesAreUsedUp(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryTransient, Err: errors.New("no leader")})
	id := w.add(1)[0]
	for n, want := range []string{
		"message retry failed (1 of 3): no leader; it is PENDING and can be retried again",
		"message retry failed (2 of 3): no leader; it is PENDING and can be retried again",
		"message retry failed (3 of 3): no leader; it is DEAD",
	} {
		got := w.call(http.MethodPost, retryPath(id))
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, want, got.field(t, "message"))
		require.Equal(t, "no leader", got.field(t, "error"))
		require.Equal(t, "transient", got.field(t, "error_category"))
		require.Equal(t, false, got.field(t, "published"))
		require.EqualValues(t, n+1, got.field(t, "retry_count"))
	}
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Len(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).field(t, "attempts"), 3)
}

func TestRetryMessageReturns409WhenItsOriginIsADeadLetterTopic(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "payments.dlq" })[0]
	message, _ := requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, `original topic "payments.dlq" is a dead-letter topic`)
	require.Zero(t, w.retries.starts())
}

func TestRetryMessageSaysWhenNothingWasPublished(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.silent = true
	got := w.call(http.MethodPost, retryPath(w.add(1)[0]))
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "RESOLVED", got.field(t, "status"))
	require.Equal(t, false, got.field(t, "published"))
	require.Equal(t, "message retry initiated, but nothing was published: Kafka is not configured", got.field(t, "message"))
}

func TestRetryMessageAnswers202AndJoinsTheRunningRetry(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) {
		o.RetryWait, o.TemporalUI = 250*time.Millisecond, "http://127.0.0.1:8233"
	})
	w.retries.hold()
	id := w.add(1)[0]
	first := w.call(http.MethodPost, retryPath(id))
	require.Equal(t, http.StatusAccepted, first.status, first.body)
	require.Equal(t, "/api/v1/dlq/messages/"+id.String(), first.header.Get("Location"))
	require.Equal(t, "RETRYING", first.field(t, "status"))
	require.Nil(t, first.field(t, "published"))
	require.EqualValues(t, 1, first.field(t, "retry_count"))
	run := first.field(t, "run_id").(string)
	require.Equal(t, "http://127.0.0.1:8233/namespaces/default/workflows/retry-message-"+id.String()+"/"+run+"/history", first.field(t, "workflow_url"))

	second := w.call(http.MethodPost, retryPath(id))
	require.Equal(t, http.StatusAccepted, second.status)
	require.Equal(t, run, second.field(t, "run_id"))
	require.Equal(t, 1, w.retries.starts())

	w.retries.release()
	third := w.call(http.MethodPost, retryPath(id), "Prefer: wait=30")
	if third.status == http.StatusConflict { // the retry had ended, perhaps between the check and the start
		require.Contains(t, third.body, "status=RESOLVED, retry_count=1/3")
	} else {
		require.Equal(t, http.StatusOK, third.status)
		require.Equal(t, 1, w.retries.starts())
	}
	require.Equal(t, "RESOLVED", w.status(id))
}

func TestRetryMessageJoinsTheLastPermittedRetry(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1, func(a *dlq.Arrival) { a.RetryCount = 2 })[0]
	w.call(http.MethodPost, retryPath(id), "Prefer: respond-async")
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	got := w.call(http.MethodPost, retryPath(id), "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, "3 of 3 are counted, but the retry is running: %s", got.body)
	require.EqualValues(t, 3, got.field(t, "retry_count"))
}

func TestRetryMessageWaitsAsPreferred(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.RetryWait, o.MaxWait = 25*time.Second, 26*time.Second })
	for headers, want := range map[string]struct {
		status  int
		applied string
	}{
		"Prefer: respond-async":                              {202, "respond-async"},
		"Prefer: Respond-Async;foo=\"a,b\", handling=strict": {202, "respond-async"},
		"Prefer: wait=0":                                     {202, "wait=0"},
		"Prefer: wait = \"20\"":                              {200, "wait=20"},
		"Prefer: foo=\"wait=0, respond-async\"":              {200, ""},
		"Prefer: respond-async, wait=20":                     {200, "respond-async, wait=20"},
		"Prefer: wait=20, wait=0":                            {200, "wait=20"},
		"Prefer: wait=999999999999999999999":                 {200, "wait=26"},
		"Prefer: wait=-1":                                    {200, ""},
		"Prefer: wait=soon":                                  {200, ""},
		"Prefer: wait":                                       {200, ""},
		"Prefer: respond-async=no":                           {200, ""},
		"Prefer: \"":                                         {200, ""},
		"Prefer: ;,=,;=\\":                                   {200, ""},
	} {
		got := w.call(http.MethodPost, retryPath(w.add(1)[0]), headers)
		require.Equal(t, want.status, got.status, headers)
		require.Equal(t, want.applied, got.header.Get("Preference-Applied"), headers)
	}
	got := w.call(http.MethodPost, retryPath(w.add(1)[0]), "Prefer: handling=lenient", "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, got.status, "a preference on a second line")
}

func TestRetryMessageStopsWaitingWhenTheServerDrains(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, retryPath(id), nil, "Prefer: wait=20")
		answered <- got
	}()
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	w.server.Drain()
	select {
	case got := <-answered:
		require.Equal(t, http.StatusAccepted, got.status, got.body)
	case <-time.After(10 * time.Second):
		require.Fail(t, "it continued to wait")
	}
}

func TestRetryMessageLeavesAMessageToTheBulkRetryThatOwnsIt(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	w.call(http.MethodPost, "/api/v1/dlq/orders.dlq.v1/retry-all", "Prefer: respond-async")
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	message, _ := requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, "by workflow retry-all-")
}

func TestADeliveredMessageIsResolvedThoughItWasMarkedDeadMeanwhile(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, retryPath(id), nil)
		answered <- got
	}()
	require.Eventually(t, func() bool { return w.retries.read.Load() == 1 }, 20*time.Second, 5*time.Millisecond)
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/dead")
	w.retries.release()
	got := <-answered
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "RESOLVED", got.field(t, "status"))
	require.Equal(t, "message retry initiated", got.field(t, "message"))
}

func TestRetryMessageAnswers404WhenItIsDeletedBeforeItsRetryBegins(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.holdEarly()
	id := w.add(1)[0]
	got := w.call(http.MethodPost, retryPath(id), "Prefer: respond-async")
	require.Equal(t, "PENDING", got.field(t, "status"))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id.String())
	w.retries.release()
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

func TestRetryMessageAnswers503WhenTemporalIsUnavailable(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.unavailable = fmt.Errorf("dial: %w", dlq.ErrUnavailable)
	id := w.add(1)[0]
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	requireError(t, w.call(http.MethodPost, "/api/v1/dlq/orders.dlq.v1/retry-all"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Equal(t, "PENDING", w.status(id))
}

// forgetful is a store that loses its database after the first read of a message.
type forgetful struct {
	Store
	reads int
}

func (f *forgetful) Message(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if f.reads++; f.reads > 1 {
		return dlq.Message{}, dlq.ErrUnavailable
	}
	return f.Store.Message(ctx, id)
}

func TestRetryMessageAnswers202WhenTheStoreFailsAfterTheStart(t *testing.T) {
	t.Parallel()
	w := start(t, wrapped(func(s Store) Store { return &forgetful{Store: s} }))
	id := w.add(1)[0]
	got := w.call(http.MethodPost, retryPath(id), "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.NotEmpty(t, got.field(t, "run_id"))
}

func TestRetryMessageOfManyCallersStartsOneRetry(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	runs := make(chan string, 30)
	var callers sync.WaitGroup
	for range cap(runs) {
		callers.Go(func() {
			_, got := w.send(http.MethodPost, retryPath(id), nil, "Prefer: respond-async")
			runs <- fmt.Sprint(got.status, " ", got.field(t, "run_id"))
		})
	}
	callers.Wait()
	first := <-runs
	require.Contains(t, first, "202 ")
	for range cap(runs) - 1 {
		require.Equal(t, first, <-runs)
	}
	require.Equal(t, 1, w.retries.starts())
}
