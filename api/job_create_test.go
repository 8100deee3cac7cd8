package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

const wholeTopic = `{"kind":"retry","topic":"orders.dlq.v1"}`

func TestCreateBulkRetryAnswers200WhenItEndsInTime(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(3)
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","reason":"the payment service is back"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "retried"))
	require.Equal(t, true, got.field(t, "published"))
	require.Equal(t, "the payment service is back", got.field(t, "request_reason"))
	for _, id := range ids {
		require.Equal(t, "RESOLVED", w.status(id))
	}
	id := got.field(t, "id").(string)
	require.Equal(t, jobsPath+"/"+id, got.header.Get("Location"))
	kept := w.call(http.MethodGet, jobsPath+"/"+id)
	require.Equal(t, strings.Replace(got.body, `,"published":true`, "", 1), kept.body)
}

func TestCreateBulkRetryAnswers202WithALocationThatCanBeReadAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	w.add(3)
	got := w.json(http.MethodPost, jobsPath, wholeTopic, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "respond-async", got.header.Get("Preference-Applied"))
	require.Equal(t, "RUNNING", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "matched"))
	require.NotContains(t, got.decode(t), "published")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, got.header.Get("Location")).status)
}

func TestABulkRetryCanBeReadAndCancelledBeforeAWorkerStartsIt(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.RetryWait = -1 })
	ids := w.add(1)
	w.retries.hold()
	w.retries.holdEarly()
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","rate_limit":7}`, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	path := jobsPath + "/" + got.field(t, "id").(string)
	require.Equal(t, path, got.header.Get("Location"))
	cancelled := make(chan response, 1)
	for _, got := range []response{got, w.call(http.MethodGet, path)} {
		require.Equal(t, "RUNNING", got.field(t, "state"))
		require.Equal(t, true, got.field(t, "counting"))
		require.EqualValues(t, 0, got.field(t, "matched"))
		require.EqualValues(t, 7, got.field(t, "rate_limit"))
	}
	go func() {
		_, got := w.send(http.MethodPost, path+"/cancel", nil)
		cancelled <- got
	}()
	require.Eventually(t, func() bool { return w.retries.cancelled() }, 20*time.Second, time.Millisecond)
	w.retries.releaseEarly()
	got = <-cancelled
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "CANCELLED", got.field(t, "state"))
	require.Equal(t, "PENDING", w.status(ids[0]))
}

func TestABulkRetryWhoseWorkflowCannotBeStartedIsStartedByTheNextCall(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	w.retries.unavailable = dlq.ErrUnavailable
	requireError(t, w.json(http.MethodPost, jobsPath, wholeTopic), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	w.retries.unavailable = nil
	listed := w.call(http.MethodGet, jobsPath).field(t, "jobs").([]any)
	require.Len(t, listed, 1)
	require.Equal(t, "RUNNING", listed[0].(map[string]any)["state"])
	got := w.json(http.MethodPost, jobsPath, wholeTopic)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, listed[0].(map[string]any)["id"], got.field(t, "id"))
	require.EqualValues(t, 2, got.field(t, "retried"))
}

func TestABulkRetryWhoseWorkflowWasTerminatedIsClosedAndNotJoined(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"long form": jobsPath, "short form": retryAllPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			w.add(2)
			ask := func(headers ...string) response {
				if path == retryAllPath {
					return w.call(http.MethodPost, path, headers...)
				}
				return w.json(http.MethodPost, path, wholeTopic, headers...)
			}
			w.retries.terminate(true)
			got := ask() // the workflow is terminated during the call
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, "FAILED", got.field(t, "state"))
			require.Contains(t, got.field(t, "reason"), "terminated")

			w.retries.terminate(true)
			left := ask("Prefer: respond-async") // the workflow is terminated after the call
			require.Equal(t, http.StatusAccepted, left.status, left.body)
			w.retries.terminate(false)
			require.Eventually(t, func() bool {
				got = ask()
				return got.field(t, "state") == "COMPLETED"
			}, 20*time.Second, time.Millisecond)
			require.EqualValues(t, 2, got.field(t, "retried"))
			first := w.call(http.MethodGet, left.header.Get("Location"))
			require.Equal(t, "FAILED", first.field(t, "state"))
		})
	}
}

// unansweredRetries starts workflows, but does not answer calls that wait for their end.
type unansweredRetries struct{ *retries }

func (unansweredRetries) AwaitJob(context.Context, dlq.Job) (workflows.JobResult, error) {
	return workflows.JobResult{}, dlq.ErrUnavailable
}

func TestCreateBulkRetryAnswers202WhenTemporalFailsAfterTheStart(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.Retries = unansweredRetries{o.Retries.(*retries)} })
	w.retries.hold()
	w.add(3)
	got := w.json(http.MethodPost, jobsPath, wholeTopic)
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.EqualValues(t, 3, got.field(t, "matched"))
}

func TestCreateBulkRetryJoinsTheSameAndRefusesAnother(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	ids := w.add(3)
	one, other := ids[0].String(), ids[1].String()
	ask := func(body string) response { return w.json(http.MethodPost, jobsPath, body, "Prefer: respond-async") }
	first := ask(`{"kind":"retry","topic":"orders.dlq.v1","status":["DEAD","PENDING"],"ids":["` + one + `","` + other + `"],"order":"key","rate_limit":0}`)
	id := first.field(t, "id").(string)
	again := ask(`{"kind":"retry","ids":["` + strings.ToUpper(other) + `","` + one + `"],"status":["PENDING","DEAD"],"topic":"orders.dlq.v1"}`)
	require.Equal(t, id, again.field(t, "id"), "the order of lists and defaults mean nothing")
	faster := ask(`{"kind":"retry","topic":"orders.dlq.v1","status":["PENDING","DEAD"],"ids":["` + one + `","` + other + `"],"rate_limit":5}`)
	require.Equal(t, id, faster.field(t, "id"))
	require.EqualValues(t, 0, faster.field(t, "rate_limit"), "the job keeps its rate limit")
	require.Equal(t, 1, w.retries.starts())

	busy := func(got response) {
		message, fields := requireError(t, got, http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Contains(t, message, id)
		require.Equal(t, []string{"job_id"}, fields)
		require.Contains(t, got.body, `"message":"`+id+`"`)
	}
	busy(ask(wholeTopic))
	busy(w.call(http.MethodPost, retryAllPath))
	require.Equal(t, 1, w.retries.starts())
	w.retries.release()
	require.Equal(t, http.StatusAccepted, ask(`{"kind":"retry","topic":"payments.dlq"}`).status, "another topic")
}

func TestRetryAllIsTheShortFormOfABulkRetry(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	w.add(1)
	short := w.call(http.MethodPost, retryAllPath, "Prefer: respond-async")
	long := w.json(http.MethodPost, jobsPath, wholeTopic, "Prefer: respond-async")
	require.Equal(t, short.field(t, "job_id"), long.field(t, "id"))
}

func TestCreateBulkRetrySendsOnlyMatchingMessages(t *testing.T) {
	t.Parallel()
	w := start(t)
	wanted := w.add(1, func(a *dlq.Arrival) { a.ErrorMessage, a.Record.Key = "Timeout after 5 s", []byte("order-7") })[0]
	others := append(w.add(1, func(a *dlq.Arrival) { a.Record.Key = []byte("order-7") }),
		w.add(1, func(a *dlq.Arrival) { a.ErrorMessage = "Timeout after 5 s" })...)
	for _, none := range []string{
		`{"kind":"retry","topic":"orders.dlq.v1","status":"DEAD"}`, `{"kind":"retry","topic":"orders.dlq.v1","created_to":"2026-01-01T00:00:00Z"}`,
		`{"kind":"retry","topic":"orders.dlq.v1","key":""}`, `{"kind":"retry","topic":"orders.dlq.v1","ids":["` + someID + `"]}`,
	} {
		require.EqualValues(t, 0, w.json(http.MethodPost, jobsPath, none).field(t, "matched"), none)
	}
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","status":"PENDING","error":"timeout","key":"order-7",
		"created_from":"2026-02-20T10:30:00.000+00:00","ids":["`+wanted.String()+`","`+others[0].String()+`"]}`)
	require.EqualValues(t, 1, got.field(t, "matched"), got.body)
	require.Equal(t, "RESOLVED", w.status(wanted))
	for _, id := range others {
		require.Equal(t, "PENDING", w.status(id))
	}
}

func TestCreateBulkRetrySaysWhenNothingWasPublished(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.silent = true
	w.add(1)
	require.Equal(t, false, w.json(http.MethodPost, jobsPath, wholeTopic).field(t, "published"))
}

func TestCreateBulkRetryReturnsTheJobWhenItsWorkflowWasStopped(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(3)
	w.retries.stopped = true
	got := w.json(http.MethodPost, jobsPath, wholeTopic)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
}

func TestCreateBulkRetryReturnsErrorsOfWorkflowsAndStore(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.unavailable = fmt.Errorf("dial: %w", dlq.ErrUnavailable)
	requireError(t, w.json(http.MethodPost, jobsPath, wholeTopic), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	w.retries.unavailable = errors.New("secret")
	message, _ := requireError(t, w.json(http.MethodPost, jobsPath, wholeTopic), http.StatusInternalServerError, "SYS_DLQ_INTERNAL_ERROR")
	require.Equal(t, "internal error", message)
	w = start(t, with(&fixed{err: dlq.ErrUnavailable}))
	requireError(t, w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"a.dlq"}`), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

func TestAPlanShowsTheEffectAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(2, func(a *dlq.Arrival) { a.ErrorClass = "java.net.SocketTimeoutException" })
	dead := w.add(1)[0]
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+dead.String()+"/dead")
	got := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1","rate_limit":1}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Empty(t, got.header.Get("Location"))
	require.Len(t, got.field(t, "hash"), 64)
	require.EqualValues(t, 2, got.field(t, "matched"))
	require.EqualValues(t, 1, got.field(t, "skipped"))
	require.Equal(t, map[string]any{"PENDING": 2.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 1.0}, got.field(t, "by_status"))
	require.Equal(t, []any{map[string]any{"name": "java.net.SocketTimeoutException", "count": 2.0}}, got.field(t, "by_error_class"))
	require.Equal(t, []any{map[string]any{"name": "orders.v1", "count": 2.0}}, got.field(t, "by_target_topic"))
	require.Equal(t, []any{map[string]any{"name": "dead", "count": 1.0}}, got.field(t, "skip_reasons"))
	sample := got.field(t, "sample").([]any)
	require.Len(t, sample, 2)
	require.Equal(t, ids[0].String(), sample[0].(map[string]any)["id"])

	require.Zero(t, w.retries.starts())
	require.Equal(t, "PENDING", w.status(ids[0]))
	require.Equal(t, `{"jobs":[],"pagination":{"page_size":20,"has_next":false,"next_cursor":null}}`, w.call(http.MethodGet, jobsPath).body)
	none := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"none.dlq"}`)
	require.Contains(t, none.body, `,"kind":"retry","topic":"none.dlq","matched":0,"skipped":0,"by_status":{"DEAD":0,"PENDING":0,"RESOLVED":0,"RETRYING":0},`+
		`"sample":[],"by_group":[],"more_groups":0,"filters":{},"request_reason":null,"by_error_class":[],"by_target_topic":[],"skip_reasons":[],`+
		`"rate_limit":0,"order":"key","ramp":null}`)
}

// previewer records the specifications that it gets.
type previewer struct {
	unkept
	asked dlq.JobSpec
}

func (p *previewer) PreviewJob(_ context.Context, spec dlq.JobSpec) (dlq.JobPreview, error) {
	p.asked = spec
	return previewOf(0), nil
}

func TestCreateBulkRetryPassesEveryFieldToTheStore(t *testing.T) {
	t.Parallel()
	store := &previewer{}
	w := start(t, with(store))
	from, to := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC), time.Date(2026, 2, 21, 10, 30, 0, 500_000_000, time.UTC)
	plain := dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq.v1"}, Order: dlq.OrderKey}
	for body, change := range map[string]func(*dlq.JobSpec){
		``:                               func(*dlq.JobSpec) {},
		`,"status":"DEAD"`:               func(s *dlq.JobSpec) { s.Statuses = []dlq.Status{dlq.StatusDead} },
		`,"error":"100% of é & 😀"`:       func(s *dlq.JobSpec) { s.ErrorContains = "100% of é & 😀" },
		`,"error":"\ud83d\ude00 \ufffd"`: func(s *dlq.JobSpec) { s.ErrorContains = "😀 \ufffd" },
		`,"key":"order-1"`:               func(s *dlq.JobSpec) { s.Key = []byte("order-1") },
		`,"key":""`:                      func(s *dlq.JobSpec) { s.Key = []byte{} },
		`,"created_from":"2026-02-20T10:30:00.000+00:00","created_to":"2026-02-21T12:30:00.5+02:00"`: func(s *dlq.JobSpec) {
			s.CreatedFrom, s.CreatedTo = from, to
		},
		`,"rate_limit":1000000,"order":"none","reason":"why"`: func(s *dlq.JobSpec) {
			s.RateLimit, s.Order, s.Reason = 1_000_000, dlq.OrderNone, "why"
		},
		`,"ramp":{"steps":[1,10,100],"wait":"1m30s","max_came_back":0.25}`: func(s *dlq.JobSpec) {
			s.Ramp = &dlq.Ramp{Steps: []int{1, 10, 100}, Wait: 90 * time.Second, MaxCameBack: 0.25}
		},
		`,"class":"a.B","consumer_group":"billing","trace_id":"t","correlation_id":"c","suspicious":true,"origin_partition":1,"origin_offset":0`: func(s *dlq.JobSpec) {
			yes, partition, offset := true, int32(1), int64(0)
			s.Class, s.ConsumerGroup, s.TraceID, s.CorrelationID, s.Suspicious = "a.B", "billing", "t", "c", &yes
			s.OriginPartition, s.OriginOffset = &partition, &offset
		},
		`,"headers":{"a b":"é","c":""},"payload":{"lines.0.sku":"x"}`: func(s *dlq.JobSpec) {
			s.Headers, s.Payload = map[string]string{"a b": "é", "c": ""}, map[string]string{"lines.0.sku": "x"}
		},
		`,"ramp":{"steps":[5]}`: func(s *dlq.JobSpec) { s.Ramp = &dlq.Ramp{Steps: []int{5}, Wait: 30 * time.Second, MaxCameBack: 0.1} },
	} {
		got := w.json(http.MethodPost, plansPath, ` {"kind":"retry","topic":"orders.dlq.v1"`+body+"}\n")
		require.Equal(t, http.StatusOK, got.status, got.body)
		want := plain
		change(&want)
		require.Equal(t, want, store.asked, body)
	}
}

func TestAJobThatEndsInTimeIsShownWithItsFilters(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","error":"failed","key":"order-1"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
	require.Equal(t, "failed", got.field(t, "filters", "error"))
	require.Equal(t, "order-1", got.field(t, "filters", "key"))
}
