package api_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

const retryAllPath = "/api/v1/dlq/orders.dlq.v1/retry-all"

func TestRetryAllOfAnEmptyTopicRetriesNothing(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodPost, retryAllPath)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 0, got.field(t, "retried"))
	require.Equal(t, "0 messages retried in topic orders.dlq.v1", got.field(t, "message"))
	require.Equal(t, "COMPLETED", got.field(t, "state"))
}

func TestRetryAllReturnsRetriedCount(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(15)
	got := w.call(http.MethodPost, retryAllPath)
	require.Equal(t, http.StatusOK, got.status, got.body)
	run, job := got.field(t, "run_id").(string), got.field(t, "job_id").(string)
	require.Equal(t, `{"retried":15,"message":"15 messages retried in topic orders.dlq.v1",`+
		`"matched":15,"failed":0,"dead":0,"skipped":0,"state":"COMPLETED","reason":null,"published":true,`+
		`"job_id":"`+job+`","workflow_id":"retry-all-`+job+`","run_id":"`+run+`"}`, got.body)
	for _, id := range ids {
		require.Equal(t, "RESOLVED", w.status(id))
	}
}

func TestRetryAllSkipsMessagesThatAreNotRetryable(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	w.add(2, exhausted)
	dead, resolved := w.add(1)[0], w.add(1)[0]
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+dead.String()+"/dead")
	w.call(http.MethodPost, retryPath(resolved))
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic, a.Origin.Topic = "payments.dlq", "payments" })
	got := w.call(http.MethodPost, retryAllPath)
	require.EqualValues(t, 2, got.field(t, "retried"))
	require.EqualValues(t, 2, got.field(t, "matched"))
	require.Equal(t, "DEAD", w.status(dead))
}

func TestRetryAllCountsOnlyWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(4)
	w.retries.deliver = func(e dlq.Envelope) error {
		switch e.ID {
		case ids[0]:
			return &dlq.DeliveryError{Category: dlq.CategoryBadData, Err: errors.New("too large")}
		case ids[1]:
			return &dlq.DeliveryError{Category: dlq.CategoryAuth, Err: errors.New("not authorized")}
		}
		return nil
	}
	got := w.call(http.MethodPost, retryAllPath)
	require.EqualValues(t, 2, got.field(t, "retried"))
	require.EqualValues(t, 1, got.field(t, "failed"))
	require.EqualValues(t, 1, got.field(t, "dead"))
	require.Equal(t, "2 messages retried in topic orders.dlq.v1; 2 could not be delivered", got.field(t, "message"))
}

func TestRetryAllSaysWhenNothingWasPublished(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.silent = true
	w.add(1)
	got := w.call(http.MethodPost, retryAllPath)
	require.Equal(t, false, got.field(t, "published"))
	require.Equal(t, "1 messages retried in topic orders.dlq.v1, but nothing was published: Kafka is not configured", got.field(t, "message"))
}

func TestRetryAllAnswers202WithALocationThatCanBeReadAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.RetryWait = -1 })
	w.retries.hold()
	w.retries.holdEarly()
	w.add(3)
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, retryAllPath, nil)
		answered <- got
	}()
	require.Eventually(t, func() bool { return w.retries.starts() > 0 }, 20*time.Second, time.Millisecond)
	w.retries.releaseEarly() // the worker has not written the job before
	got := <-answered
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	id := got.field(t, "job_id").(string)
	require.Equal(t, "/api/v1/jobs/"+id, got.header.Get("Location"))
	require.Equal(t, "RUNNING", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "matched"))
	require.Nil(t, got.field(t, "published"))
	require.Equal(t, "0 messages retried in topic orders.dlq.v1 so far; the bulk retry is running", got.field(t, "message"))
	job := w.call(http.MethodGet, got.header.Get("Location"))
	require.Equal(t, http.StatusOK, job.status)
	require.Equal(t, "RUNNING", job.field(t, "state"))

	again := w.call(http.MethodPost, retryAllPath)
	require.Equal(t, id, again.field(t, "job_id"))
	require.Equal(t, 1, w.retries.starts())
}

func TestRetryAllAnswers202BeforeAWorkerStartsIt(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.RetryWait = -1 })
	w.retries.holdEarly()
	got := w.call(http.MethodPost, retryAllPath, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "RUNNING", got.field(t, "state"))
	require.Equal(t, true, got.field(t, "counting"))
	require.EqualValues(t, 0, got.field(t, "matched"))
}

func TestRetryAllKeepsItsReasonAndItsRateLimit(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	w.add(1)
	async := "Prefer: respond-async"
	first := w.json(http.MethodPost, retryAllPath, `{"rate_limit":50,"reason":"the bank is back"}`, async)
	require.Equal(t, http.StatusAccepted, first.status, first.body)
	second := w.json(http.MethodPost, retryAllPath, `{"rate_limit":5,"reason":"me too"}`, async)
	require.Equal(t, first.field(t, "job_id"), second.field(t, "job_id"), "the same work joins")
	job := w.call(http.MethodGet, jobsPath+"/"+first.field(t, "job_id").(string))
	require.EqualValues(t, 50, job.field(t, "rate_limit"))
	require.Equal(t, "the bank is back", job.field(t, "request_reason"))
	rows := w.operations()
	require.Equal(t, []any{"me too", "the bank is back"}, []any{rows[0]["reason"], rows[1]["reason"]})
	for _, body := range []string{`{"rate_limit":-1}`, `{"rate_limit":1.5}`, `{"reason":3}`} {
		requireError(t, w.json(http.MethodPost, retryAllPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
	require.Equal(t, 1, w.retries.starts())
}
