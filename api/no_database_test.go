package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/memory"
)

// startWithoutDatabase is start with messages in memory.
func startWithoutDatabase(t *testing.T, change ...func(*api.Options)) *world {
	t.Helper()
	kept := memory.New(newTopics(t))
	inMemory := func(o *api.Options) { o.Store, o.Database = kept, nil }
	w := startWithTokens(t, append(change, inMemory)...)
	w.kept, w.retries.messages = kept, kept
	return w
}

const listPath = "/api/v1/dlq/orders.dlq.v1"

// worksWithoutDatabase are the routes about messages in the documents of k1s0's DLQ manager.
var worksWithoutDatabase = []string{
	"GET /api/v1/dlq/:topic", "GET /api/v1/dlq/messages/:id", "DELETE /api/v1/dlq/messages/:id", "POST /api/v1/dlq/messages/:id/retry",
	"POST /api/v1/dlq/messages/:id/dead", "POST /api/v1/dlq/:topic/retry-all",
	"GET /metrics", "GET /debug/log-level", "PUT /debug/log-level", "GET /debug/pprof/:profile",
}

func TestWithoutADatabaseEveryOtherRouteNamesTheSetting(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	works := map[string]bool{}
	for _, route := range worksWithoutDatabase {
		works[route] = true
	}
	for route := range tableOfRoutes(t) {
		got := w.callRoute(route, w.add(1)[0].String(), "admin")
		if works[route] {
			require.Equal(t, http.StatusOK, got.status, route+": "+got.body)
			continue
		}
		message, fields := requireError(t, got, http.StatusNotImplemented, "SYS_DLQ_NEEDS_DATABASE")
		require.Contains(t, message, "database.host", route)
		require.Empty(t, fields)
		require.Equal(t, http.StatusUnauthorized, w.callRoute(route, someID, "").status, route)
	}
}

func TestWithoutADatabaseAMessageIsListedShownRetriedAndDeleted(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t, func(o *api.Options) { o.ArchiveAfter, o.PurgeAfter = time.Hour, time.Hour })
	ids := w.add(3)
	first, admin := ids[0].String(), bearer("admin")
	list := w.call(http.MethodGet, listPath+"?status=PENDING&page_size=2", admin)
	require.Equal(t, http.StatusOK, list.status, list.body)
	require.EqualValues(t, 3, list.field(t, "pagination", "total_count"))
	next := w.call(http.MethodGet, listPath+"?status=PENDING&page_size=2&cursor="+list.field(t, "pagination", "next_cursor").(string), admin)
	require.Equal(t, first, next.field(t, "messages").([]any)[0].(map[string]any)["id"])

	w.retries.fail(errors.New("refused"))
	require.Equal(t, "PENDING", w.json(http.MethodPost, retryPath(ids[0]), `{"reason":"fixed"}`, admin).field(t, "status"))
	w.retries.deliver = nil
	retried := w.call(http.MethodPost, retryPath(ids[0]), admin)
	require.Equal(t, "RESOLVED", retried.field(t, "status"))
	detail := w.call(http.MethodGet, "/api/v1/dlq/messages/"+first, admin)
	require.Equal(t, http.StatusOK, detail.status, detail.body)
	require.Len(t, detail.field(t, "attempts"), 1)
	for _, unknown := range []string{"verified", "target", "operation_id", "group_id", "archive_at"} {
		require.Nil(t, detail.field(t, unknown), unknown)
	}
	requireError(t, w.call(http.MethodPost, retryPath(ids[0]), admin), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, "DEAD", w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[1].String()+"/dead", admin).field(t, "status"))
	require.Equal(t, http.StatusOK, w.call(http.MethodDelete, "/api/v1/dlq/messages/"+first, admin).status)
	requireError(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+first, admin), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

// If a filter were ignored, the request would act on all messages.
func TestWithoutADatabaseWhatIsNotKeptInMemoryIsRefusedByName(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	id := w.add(1)[0]
	refused := func(got response, want ...string) {
		t.Helper()
		message, fields := requireError(t, got, http.StatusNotImplemented, "SYS_DLQ_NEEDS_DATABASE")
		require.Contains(t, message, "database.host")
		require.Equal(t, want, fields)
	}
	refused(w.call(http.MethodGet, listPath+"?sort=created_at&key=a&page=1", bearer("admin")), "key", "sort")
	refused(w.call(http.MethodGet, listPath+"?header.trace=a", bearer("admin")), "header.trace")
	refused(w.json(http.MethodPost, retryPath(id), `{"value":"{}","reason":"typo"}`, bearer("admin")), "value")
	refused(w.json(http.MethodPost, retryAllPath, `{"group":"`+someID+`"}`, bearer("admin")), "group")
	refused(w.json(http.MethodPost, retryAllPath, `{"target_topic":"orders.retry"}`, bearer("admin")), "target_topic")
	refused(w.json(http.MethodPost, retryAllPath, `{"rate_limit":5,"reason":"typo"}`, bearer("admin")), "rate_limit", "reason")
	requireError(t, w.call(http.MethodGet, listPath+"?colour=red", bearer("admin")), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Zero(t, w.retries.starts())
}

func TestWithoutADatabaseRetryAllSendsInOrderAndCountsOnlyTheAcknowledged(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	ids := w.add(105) // more messages than a page has
	suspicious := w.add(1, func(a *dlq.Arrival) { a.Suspicion = "an attack" })[0]
	w.add(1, dlqtest.FromTopic("orders.dlq.v1", "orders.dlq.v1")) // has no original topic
	w.add(1, dlqtest.Retries(3, 3))
	var sent []dlq.ID
	w.retries.deliver = func(e dlq.Envelope) error {
		sent = append(sent, e.ID)
		switch e.ID {
		case ids[1]:
			return &dlq.DeliveryError{Category: dlq.CategoryTransient, Err: errors.New("away")}
		case ids[2]:
			return &dlq.DeliveryError{Category: dlq.CategoryBadData, Err: errors.New("too large")}
		default:
			return nil
		}
	}
	got := w.call(http.MethodPost, retryAllPath, bearer("admin"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, `{"retried":103,"message":"103 messages retried in topic orders.dlq.v1; 2 could not be delivered","matched":106,`+
		`"failed":1,"dead":1,"skipped":1,"state":"COMPLETED","reason":null,"published":true}`, strings.TrimSpace(got.body))
	require.Equal(t, ids, sent)
	require.Equal(t, "PENDING", w.call(http.MethodGet, "/api/v1/dlq/messages/"+suspicious.String(), bearer("admin")).field(t, "status"))
}

func TestWithoutADatabaseRetryAllContinuesAfterItsCallAndIsJoined(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	w.add(2)
	w.retries.hold()
	got := w.call(http.MethodPost, retryAllPath, "Prefer: wait=0", bearer("admin"))
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "0 messages retried in topic orders.dlq.v1 so far; the bulk retry is running", got.field(t, "message"))
	message, _ := requireError(t, w.call(http.MethodPost, "/api/v1/dlq/orders.v1/retry-all", bearer("admin")), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, "one runs at a time")
	w.add(1) // stored after the start of the retry
	w.retries.release()
	joined := w.call(http.MethodPost, retryAllPath, bearer("admin"))
	require.Equal(t, http.StatusOK, joined.status, joined.body)
	if joined.field(t, "matched") == 2.0 { // the first retry was still running and was joined
		require.EqualValues(t, 2, joined.field(t, "retried"))
		joined = w.call(http.MethodPost, retryAllPath, bearer("admin"))
	}
	require.EqualValues(t, 1, joined.field(t, "retried"))
}

func TestWithoutADatabaseRetryAllStopsWhileTemporalIsAwayAndContinuesLater(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	w.add(1)
	w.retries.unavailable = dlq.ErrUnavailable
	requireError(t, w.call(http.MethodPost, retryAllPath, bearer("admin")), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	w.retries.unavailable = nil
	require.EqualValues(t, 1, w.call(http.MethodPost, retryAllPath, bearer("admin")).field(t, "retried"))
}

func TestWithoutADatabaseRetryAllSendsOnlyWhatItsSenderMaySend(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t)
	own := w.add(1)[0]
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
	w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "payments" })
	got := w.call(http.MethodPost, "/api/v1/dlq/orders.v1/retry-all", bearer("operator/orders.*"))
	require.EqualValues(t, 1, got.field(t, "retried"))
	require.EqualValues(t, 1, got.field(t, "matched"))
	require.Equal(t, "RESOLVED", w.call(http.MethodGet, "/api/v1/dlq/messages/"+own.String(), bearer("admin")).field(t, "status"))
	foreign := w.call(http.MethodPost, "/api/v1/dlq/payments/retry-all", bearer("operator/orders.*"))
	require.Equal(t, http.StatusForbidden, foreign.status, foreign.body)
	require.EqualValues(t, 0, w.call(http.MethodPost, retryAllPath, bearer("operator/orders.*")).field(t, "matched"))
}
