package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

const handInPath = "/api/v1/dlq/orders.dlq.v1/messages"

// handedIn are the ids in the answer.
func (r response) handedIn(t testing.TB) (ids []dlq.ID) {
	t.Helper()
	for _, m := range r.field(t, "messages").([]any) {
		id, err := dlq.ParseID(m.(map[string]any)["id"].(string))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestALetterIsStoredAsItWasHandedIn(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.json(http.MethodPost, handInPath, `{"value": {"z": 1.0, "a": []}, "key": "k", "headers": [{"key": "h", "value": "1"}, {"key": "h", "value_base64": "/w=="}],
		"error": {"message": "timed out", "class": "Timeout", "cause_class": "Io", "stack_trace": "at x"},
		"origin": {"topic": "orders.v1", "partition": 0, "offset": 7, "timestamp": "2026-02-20T10:30:00Z", "consumer_group": "billing"}, "attempts": 4}`)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	id := got.handedIn(t)[0]
	require.Equal(t, "/api/v1/dlq/messages/"+id.String(), got.header.Get("Location"))
	d, err := dlqtest.Detail(t.Context(), w.store, id)
	require.NoError(t, err)
	require.Equal(t, `{"z": 1.0, "a": []}`, string(d.Record.Value))
	require.Equal(t, "k", string(d.Record.Key))
	require.Equal(t, []dlq.Header{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte{255}}}, d.Record.Headers)
	require.Equal(t, []string{"timed out", "Timeout", "Io", "at x"}, []string{d.ErrorMessage, d.ErrorClass, d.Failure.CauseClass, d.Failure.StackTrace})
	require.Equal(t, "billing", d.Failure.Origin.ConsumerGroup)
	require.EqualValues(t, 7, *d.Failure.Origin.Offset)
	require.Equal(t, 4, d.Failure.Attempts)
	require.False(t, d.GroupID.IsZero(), "it has a group")
	shown := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
	require.Nil(t, shown.field(t, "source"))
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(id)).status)
	require.Equal(t, "RESOLVED", w.status(id))
}

func TestWhatALetterDoesNotSayFollowsFromItsHeadersAndItsTopic(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.json(http.MethodPost, handInPath, `{"messages": [{"value": 1},
		{"value": 2, "headers": {"__connect.errors.topic": "source", "__connect.errors.exception.message": "bad", "correlation-id": "c-1"}}]}`)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	ids := got.handedIn(t)
	plain, err := dlqtest.Detail(t.Context(), w.store, ids[0])
	require.NoError(t, err)
	require.Equal(t, []string{"orders.v1", dlq.UnknownError, "topic-name"}, []string{plain.OriginalTopic, plain.ErrorMessage, plain.Failure.Origin.Family})
	connect, err := dlqtest.Detail(t.Context(), w.store, ids[1])
	require.NoError(t, err)
	require.Equal(t, []string{"source", "bad", "c-1"}, []string{connect.OriginalTopic, connect.ErrorMessage, connect.Failure.CorrelationID})
}

func TestABodyThatIsNotJSONIsTheValueOfARecord(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, got := w.send(http.MethodPost, handInPath, strings.NewReader("\x00\xff"), "Content-Type: application/octet-stream", "Dlq-Binary-Key: /w==",
		"Dlq-Header-Trace: a", "Dlq-Binary-Header-B: AA==", "Dlq-Error: boom", "Dlq-Error-Class: Boom", "Dlq-Original-Topic: orders.v1", "Authorization: secret",
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, http.StatusCreated, got.status, got.body)
	d, err := dlqtest.Detail(t.Context(), w.store, got.handedIn(t)[0])
	require.NoError(t, err)
	require.Equal(t, "\x00\xff", string(d.Record.Value))
	require.Equal(t, []byte{255}, d.Record.Key)
	require.Equal(t, []string{"boom", "Boom", "0af7651916cd43dd8448eb211c80319c"}, []string{d.ErrorMessage, d.ErrorClass, d.Failure.TraceID})
	names := map[string]string{}
	for _, h := range d.Record.Headers {
		names[h.Key] = string(h.Value)
	}
	require.Equal(t, "a", names["trace"])
	require.Equal(t, "\x00", names["b"])
	require.Equal(t, "application/octet-stream", names["content-type"])
	require.NotContains(t, fmt.Sprint(names), "secret")
}

func TestARepeatedRequestWithAKeyIsAnsweredAsTheFirst(t *testing.T) {
	t.Parallel()
	w := start(t)
	first := w.json(http.MethodPost, handInPath, `{"value": 1}`, "Idempotency-Key: a-1")
	require.Equal(t, http.StatusCreated, first.status)
	again := w.json(http.MethodPost, handInPath, `{"value": 1}`, "Idempotency-Key: a-1")
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, first.body, again.body)
	message, _ := requireError(t, w.json(http.MethodPost, handInPath, `{"value": 2}`, "Idempotency-Key: a-1"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, "use a new key")
	elsewhere := w.json(http.MethodPost, "/api/v1/dlq/users.dlq/messages", `{"value": 1}`, "Idempotency-Key: a-1")
	require.Equal(t, http.StatusCreated, elsewhere.status, "the key of another topic is another one")
	require.NotEqual(t, first.handedIn(t), w.json(http.MethodPost, handInPath, `{"value": 1}`).handedIn(t), "without a key, each request counts")
}

func TestABadLetterStoresNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	for body, field := range map[string]string{
		``:                 "body",
		`{}`:               "body",
		`[]`:               "body",
		`{"messages": []}`: "messages",
		`{"messages": [{"value": 1}, {"value": 1, "x": 2}]}`:                                 "messages[1].x",
		`{"messages": [{"value": 1}, {"value": 1, "headers": [{"key": 1, "value": null}]}]}`: "messages[1].headers[0].key",
		`{"messages": [{"value": 1}, {"value": 1, "headers": {"a": 1}}]}`:                    "messages[1].headers.a",
		`{"messages": [{"value": 1}], "value": 2}`:                                           "value",
		`{"value": 1, "origin": {"topic": "a b"}}`:                                           "origin.topic",
		`{"value": 1, "origin": {"offset": 1}}`:                                              "origin.topic",
		`{"value": 1, "origin": {"topic": "a", "offset": -1}}`:                               "origin.offset",
		`{"value": 1, "error": {"message": 1}}`:                                              "error.message",
		`{"value": 1, "error": {"message": "\u0000"}}`:                                       "error.message",
		`{"value": 1, "attempts": -1}`:                                                       "attempts",
		"{\"value\": \"\xff\"}":                                                              "body",
		`{"messages": [` + strings.Repeat(`{"value":1},`, dlq.MaxLetters) + `{"value":1}]}`:  "messages",
	} {
		_, fields := requireError(t, w.json(http.MethodPost, handInPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Contains(t, fields, field, body)
	}
	requireError(t, w.json(http.MethodPost, "/api/v1/dlq/orders/messages", `{"value": 1}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	requireError(t, w.json(http.MethodPost, handInPath, `{"value": 1}`, "Idempotency-Key: "+strings.Repeat("x", 256)), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	_, got := w.send(http.MethodPost, handInPath, strings.NewReader("x"), "Content-Type: text/plain", "Dlq-Binary-Key: ?")
	requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	_, got = w.send(http.MethodPost, handInPath, strings.NewReader("x"), "Content-Type: text/plain", "Content-Encoding: gzip")
	requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	topics, err := w.store.TopicsWithin(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, topics)
}

// Otherwise a sender with a grant for a dead-letter topic could read every record of the original topic.
func TestALetterIsNoPointer(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, func(o *api.Options) { o.Pointers = everyRecord{} })
	const pointer = `"headers": {"__dlq.errors.topic": "orders.v1", "__dlq.errors.partition": "0", "__dlq.errors.offset": "7"}`
	for body, field := range map[string]string{
		`{` + pointer + `}`: "headers",
		`{"messages": [{"value": 1}, {"value": null, "origin": {"topic": "orders.v1"}, ` + pointer + `}]}`: "messages[1].headers",
	} {
		_, fields := requireError(t, w.json(http.MethodPost, handInPath, body, bearer("operator/orders.dlq.*")), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields)
	}
	_, got := w.send(http.MethodPost, handInPath, nil, bearer("operator/orders.dlq.*"), "Content-Type: text/plain", "Dlq-Header-__dlq.errors.topic: orders.v1")
	require.Equal(t, http.StatusCreated, got.status, "its value is empty, and not null")
	require.Nil(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+got.handedIn(t)[0].String(), bearer("admin")).field(t, "pointed"))
	require.Equal(t, http.StatusCreated, w.json(http.MethodPost, handInPath, `{"value": 1, `+pointer+`}`, bearer("operator/orders.*")).status)
}

func TestAnIdempotencyKeyBelongsToItsSender(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	ids := map[dlq.ID]bool{}
	for _, token := range []string{"operator", "operator/orders.*", "admin"} {
		got := w.json(http.MethodPost, handInPath, `{"value": 1}`, bearer(token), "Idempotency-Key: a-1")
		require.Equal(t, http.StatusCreated, got.status, got.body)
		ids[got.handedIn(t)[0]] = true
		other := w.json(http.MethodPost, handInPath, `{"value": "other"}`, bearer(token), "Idempotency-Key: a-1")
		requireError(t, other, http.StatusConflict, "SYS_DLQ_CONFLICT")
	}
	require.Len(t, ids, 3)
}

// A message that came back is linked to the message that was sent, and counts for its job.
func TestALetterOfALimitedSenderIsLinkedToNoHiddenMessage(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	hidden := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })[0].String()
	own := w.add(1)[0].String()
	for token, linked := range map[string]map[string]bool{
		"operator/orders.*": {hidden: false, own: true}, "operator/orders.*+viewer/stock.*": {hidden: false, own: true}, "operator": {hidden: true, own: true},
	} {
		for previous, want := range linked {
			got := w.json(http.MethodPost, handInPath, `{"value": 1, "headers": {"dlq-message-id": "`+previous+`"}}`, bearer(token))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			shown := w.call(http.MethodGet, "/api/v1/dlq/messages/"+got.handedIn(t)[0].String(), bearer("viewer"))
			require.Equal(t, want, shown.field(t, "previous_id") == previous, token)
		}
	}
}

func TestWhoMaySeeSomeTopicsCannotHandInForAnother(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	operator := bearer("operator/orders.*")
	require.Equal(t, http.StatusCreated, w.json(http.MethodPost, handInPath, `{"value": 1}`, operator).status)
	requireError(t, w.json(http.MethodPost, handInPath, `{"value": 1, "origin": {"topic": "payments"}}`, operator), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	requireError(t, w.json(http.MethodPost, handInPath, `{"value": 1, "headers": {"original_topic": "payments", "error": "x"}}`, operator), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	requireError(t, w.json(http.MethodPost, "/api/v1/dlq/payments.dlq/messages", `{"value": 1}`, operator), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	requireError(t, w.json(http.MethodPost, handInPath, `{"value": 1}`, bearer("viewer")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
}
