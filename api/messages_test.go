package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/kafka"
)

const someID = "550e8400-e29b-41d4-a716-446655440000"

func TestGetMessageReturns404WhenNotFound(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodGet, "/api/v1/dlq/messages/"+someID, "X-Request-Id: req_abc123def456")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_NOT_FOUND","message":"dlq message not found: 550e8400-e29b-41d4-a716-446655440000",`+
		`"request_id":"req_abc123def456","details":[]}}`, got.body)
}

type pointers map[int64]dlq.Record

func (p pointers) Fetch(_ context.Context, origin dlq.Origin, _ time.Time) (dlq.Record, error) {
	record, found := p[*origin.Offset]
	if !found && *origin.Offset < 10 {
		return record, fmt.Errorf("orders[3] at offset %d: %w", *origin.Offset, dlq.ErrGone)
	} else if !found {
		return record, errors.New("dial tcp broker-1:9092: refused")
	}
	return record, nil
}

func TestTheRecordThatAMessagePointsToIsShown(t *testing.T) {
	t.Parallel()
	records := pointers{1: {Key: []byte("k"), Value: []byte{0xff}, Headers: []dlq.Header{{Key: "a"}}}}
	w := start(t, func(o *api.Options) { o.Pointers = records })
	for offset, want := range map[int64]map[string]any{
		1: {"key": map[string]any{"base64": "aw==", "size": 1.0}, "value": map[string]any{"base64": "/w==", "size": 1.0},
			"headers": []any{map[string]any{"key": "a", "value": nil, "text": nil}}, "record_timestamp": nil, "error": nil},
		2:  {"key": nil, "value": nil, "headers": []any{}, "record_timestamp": nil, "error": "orders[3] at offset 2: the record is no longer in Kafka"},
		10: {"key": nil, "value": nil, "headers": []any{}, "record_timestamp": nil, "error": "the record cannot be read now; try again later"},
	} {
		a := dlqtest.Arrival(func(a *dlq.Arrival) {
			a.Origin.Family, a.Origin.Offset, a.Record.Key, a.Record.Value = dlq.FamilyShareGroup, &offset, nil, nil
		})
		_, err := w.store.Ingest(t.Context(), []dlq.Arrival{a}, nil)
		require.NoError(t, err)
		require.Equal(t, want, w.call(http.MethodGet, "/api/v1/dlq/messages/"+a.ID.String()).field(t, "pointed"))
	}
}

func TestGetMessageReturnsMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, id.String(), got.field(t, "id"))
	require.Equal(t, map[string]any{"topic": "orders.v1", "partition": nil, "offset": nil, "family": "topic-name",
		"timestamp": nil, "consumer_group": nil, "attempts": nil}, got.field(t, "origin"))
	require.Equal(t, map[string]any{"base64": "b3JkZXItMQ==", "size": 7.0}, got.field(t, "key"))
	require.Nil(t, got.field(t, "workflow"))
	upper := w.call(http.MethodGet, "/api/v1/dlq/messages/"+strings.ToUpper(id.String()))
	require.Equal(t, got.body, upper.body)
}

func TestGetMessageReturns400ForInvalidID(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/not-a-uuid", "X-Request-Id: req_abc123def456")
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_VALIDATION_ERROR","message":"invalid message id: not-a-uuid",`+
		`"request_id":"req_abc123def456","details":[]}}`, got.body)
	for _, id := range []string{"550e8400e29b41d4a716446655440000", "%7B" + someID + "%7D", someID + "0", "%2e%2e", "%ff", strings.Repeat("a", 500)} {
		for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/retry"}, {"POST", "/dead"}} {
			_, got := w.send(call[0], "/api/v1/dlq/messages/"+id+call[1], nil)
			message, _ := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Less(t, len(message), 200)
		}
	}
}

func TestGetMessageHasTheDocumentedBodyByteForByte(t *testing.T) {
	t.Parallel()
	m := documented(t)
	retried := time.Date(2026, 2, 20, 10, 31, 0, 0, time.UTC)
	m.RetryCount, m.Status, m.UpdatedAt, m.LastRetryAt = 1, dlq.StatusRetrying, retried, &retried
	m.ErrorClass = "java.lang.IllegalStateException"
	m.Owner = dlq.Owner{WorkflowID: "retry-message-" + someID, Token: "run/1"}
	m.PreviousID = parseID(t, "0199c0de-7000-7000-8000-000000000009")
	partition, offset := int32(3), int64(4711)
	detail := dlq.Detail{
		Message: m,
		Record: dlq.Record{
			Key: []byte{}, Value: []byte{0xff, 0x00},
			Headers:   []dlq.Header{{Key: "a", Value: []byte("<b>")}, {Key: "a"}, {Key: "c", Value: []byte{}}, {Key: "d", Value: []byte{0xfe}}},
			Timestamp: time.Date(2026, 2, 20, 10, 29, 59, 999_900_000, time.UTC),
		},
		Source: dlq.Source{Partition: 5, Offset: 42},
		Failure: dlq.Failure{
			Origin: dlq.Origin{Topic: "orders.events.v1", Partition: &partition, Offset: &offset, Family: "spring-kafka"},
		},
		Attempts: []dlq.Attempt{{
			Number: 1, Owner: dlq.Owner{WorkflowID: "w", Token: "r"}, StartedAt: retried, EndedAt: retried.Add(time.Second),
			Result: dlq.ResultFailed, Category: dlq.CategoryTransient, Error: "no <leader> & co",
		}},
	}
	w := start(t, with(&fixed{detail: detail, operations: map[string]dlq.ID{"run/1": m.PreviousID}}), func(o *api.Options) {
		o.TemporalUI, o.TemporalNamespace = "http://127.0.0.1:8233/", "a b"
	})
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+someID)
	require.Equal(t, `{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1","error_message":"processing failed",`+
		`"retry_count":1,"max_retries":3,"payload":{"order_id":"123"},"status":"RETRYING",`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:31:00.000+00:00","last_retry_at":"2026-02-20T10:31:00.000+00:00",`+
		`"dlq_topic":"orders.events.dlq.v1","origin":{"topic":"orders.events.v1","partition":3,"offset":4711,"family":"spring-kafka",`+
		`"timestamp":null,"consumer_group":null,"attempts":null},`+
		`"source":{"partition":5,"offset":42},"key":{"base64":"","size":0},"value":{"base64":"/wA=","size":2},`+
		`"headers":[{"key":"a","value":"PGI+","text":"<b>"},{"key":"a","value":null,"text":null},{"key":"c","value":"","text":""},`+
		`{"key":"d","value":"/g==","text":null}],"record_timestamp":"2026-02-20T10:29:59.999+00:00",`+
		`"error_class":"java.lang.IllegalStateException","stack_trace":null,`+
		`"attempts":[{"number":1,"started_at":"2026-02-20T10:31:00.000+00:00","ended_at":"2026-02-20T10:31:01.000+00:00","result":"failed",`+
		`"category":"transient","error":"no <leader> & co","workflow":{"workflow_id":"w","run_id":"r",`+
		`"url":"http://127.0.0.1:8233/namespaces/a%20b/workflows/w/r/history"},"operation_id":null}],`+
		`"workflow":{"workflow_id":"retry-message-550e8400-e29b-41d4-a716-446655440000","run_id":"run/1",`+
		`"url":"http://127.0.0.1:8233/namespaces/a%20b/workflows/retry-message-550e8400-e29b-41d4-a716-446655440000/run%2F1/history"},"operation_id":"0199c0de-7000-7000-8000-000000000009",`+
		`"previous_id":"0199c0de-7000-7000-8000-000000000009","resolution":null,"target":null,"cause_class":null,`+
		`"trace_id":null,"correlation_id":null,"suspicion":null,"pointed":null,"group_id":null,"edited_from":null,"replaced_by":null,"schema":null,"decode_error":null,"decoded_key":null,"verified":null,"verified_reason":null,"archive_at":null,"purge_at":null}`, got.body)
}

func TestGetMessageDistinguishesNullAndEmpty(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) {
		a.Record = dlq.Record{}
		a.Payload = nil
	})[0]
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
	for _, name := range []string{"payload", "key", "value", "record_timestamp", "error_class", "stack_trace", "workflow", "previous_id"} {
		require.Nil(t, got.field(t, name), name)
	}
	require.Contains(t, got.body, `"headers":[]`)
	require.Contains(t, got.body, `"attempts":[]`)
}

func TestGetMessageTellsWhichHeadersAreNotSentBack(t *testing.T) {
	t.Parallel()
	headers := []dlq.Header{
		{Key: "kafka_dlt-exception-message", Value: []byte("no price")}, {Key: "tenant", Value: []byte("acme")}, {Key: "dlq-retry-count", Value: []byte("1")},
	}
	marked := func(w *world, id dlq.ID, headers ...string) (names []string) {
		var view struct {
			Headers []struct {
				Key     string `json:"key"`
				Removed bool   `json:"removed_on_retry"`
			} `json:"headers"`
		}
		require.NoError(t, json.Unmarshal([]byte(w.call(http.MethodGet, messagePath(id), headers...).body), &view))
		for _, header := range view.Headers {
			if header.Removed {
				names = append(names, header.Key)
			}
		}
		return names
	}
	comesOff := func(o *api.Options) { o.ComesOff = kafka.ComesOff }
	w := start(t, comesOff)
	id := w.add(1, func(a *dlq.Arrival) { a.Record.Headers = headers })[0]
	require.Equal(t, []string{"kafka_dlt-exception-message", "dlq-retry-count"}, marked(w, id))
	w = startWithTokens(t, comesOff, masked(t, dlq.MaskRule{Topics: []string{"*"}, Headers: []string{"tenant"}, As: "remove"}))
	id = w.add(1, func(a *dlq.Arrival) { a.Record.Headers = headers })[0]
	require.Equal(t, []string{"kafka_dlt-exception-message", "dlq-retry-count"}, marked(w, id, bearer("admin")), "with a hidden header before them")
	w = start(t, comesOff)
	pointer := dlqtest.Arrival(func(a *dlq.Arrival) {
		a.Origin.Family, a.Record.Key, a.Record.Value, a.Record.Headers = dlq.FamilyShareGroup, nil, nil, headers
	})
	_, err := w.store.Ingest(t.Context(), []dlq.Arrival{pointer}, nil)
	require.NoError(t, err)
	require.Len(t, marked(w, pointer.ID), 3, "only the record that it points to is sent")
}

func TestGetMessageTellsOwnLinesOfTheStackTrace(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) {
		a.StackTrace = "a.E: x\n\tat java.lang.Thread.run(Thread.java:9)\n\tat shop.A.run(A.java:1)"
	})[0]
	require.Equal(t, []any{2.0}, w.call(http.MethodGet, messagePath(id)).field(t, "own_lines"))
	require.NotContains(t, w.call(http.MethodGet, messagePath(w.add(1)[0])).body, "own_lines")
	require.NotContains(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1/export").body, "own_lines")
}

func TestGetMessageKeepsNumbersOfThePayloadExact(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) { a.Payload = json.RawMessage(`{"n": 12345678901234567890.10}`) })[0]
	require.Contains(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).body, `"payload":{"n":12345678901234567890.10}`)
}

func TestDeleteMessageReturnsOK(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	got := w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id.String())
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"success":true,"message":"message `+id.String()+` deleted"}`, got.body)
	require.Equal(t, http.StatusNotFound, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).status)
}

func TestDeleteMessageReturnsErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	message, _ := requireError(t, w.call(http.MethodDelete, "/api/v1/dlq/messages/"+someID), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	require.Equal(t, "dlq message not found: "+someID, message)

	w.retries.hold()
	id := w.add(1)[0]
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/retry", "Prefer: respond-async")
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	message, _ = requireError(t, w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id.String()), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, "retry-message-"+id.String())
	require.Equal(t, "RETRYING", w.status(id))
}

func TestDeleteMessageReturnsErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	path := "/api/v1/dlq/messages/" + someID
	secret := start(t, with(&fixed{err: errors.New("password=hunter2 rejected")})).call(http.MethodDelete, path)
	message, _ := requireError(t, secret, http.StatusInternalServerError, "SYS_DLQ_INTERNAL_ERROR")
	require.Equal(t, "internal error", message)

	unavailable := start(t, with(&fixed{err: fmt.Errorf("pool: %w", dlq.ErrUnavailable)})).call(http.MethodDelete, path)
	requireError(t, unavailable, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

func TestMarkDeadEndsAMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	path := "/api/v1/dlq/messages/" + id.String() + "/dead"
	for range 2 { // the second call changes nothing
		got := w.call(http.MethodPost, path)
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, `{"id":"`+id.String()+`","status":"DEAD","message":"message `+id.String()+` marked dead","retry_count":0,"max_retries":3}`, got.body)
	}
	requireError(t, w.call(http.MethodPost, "/api/v1/dlq/messages/"+someID+"/dead"), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")

	resolved := w.add(1)[0]
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+resolved.String()+"/retry")
	message, _ := requireError(t, w.call(http.MethodPost, "/api/v1/dlq/messages/"+resolved.String()+"/dead"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, "message cannot be marked dead: status=RESOLVED", message)
}
