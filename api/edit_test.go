package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// edited sends an edit and returns the id of the copy.
func (w *world) edited(id dlq.ID, body string) dlq.ID {
	w.t.Helper()
	got := w.json(http.MethodPost, retryPath(id), body)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	require.Equal(w.t, id.String(), got.field(w.t, "edited_from"))
	copied, err := dlq.ParseID(got.field(w.t, "id").(string))
	require.NoError(w.t, err)
	require.NotEqual(w.t, id, copied)
	return copied
}

// sent are the delivered records, by the ids of their messages.
func (w *world) sent() map[dlq.ID]dlq.Record {
	records := map[dlq.ID]dlq.Record{}
	w.retries.mu.Lock()
	defer w.retries.mu.Unlock()
	w.retries.deliver = func(e dlq.Envelope) error { records[e.ID] = e.Record; return nil }
	return records
}

func TestAnEditedCopyIsSentAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := start(t)
	headers := dlqtest.Headers(dlq.Header{Key: "a", Value: []byte("1")}, dlq.Header{Key: "b"})
	for body, want := range map[string]dlq.Record{
		`{"value": {"z": 1.0, "a": [2]}}`:               {Key: []byte("k"), Value: []byte(`{"z": 1.0, "a": [2]}`), Headers: []dlq.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		`{"value": null}`:                               {Key: []byte("k"), Headers: []dlq.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		`{"value_base64": "AP8=", "headers": []}`:       {Key: []byte("k"), Value: []byte{0, 255}, Headers: []dlq.Header{}},
		`{"key": "é", "headers": {"y": null, "x": ""}}`: {Key: []byte("é"), Value: []byte("v"), Headers: []dlq.Header{{Key: "x", Value: []byte{}}, {Key: "y"}}},
		`{"key": null, "headers": [{"key": "b", "value": "2"}, {"key": "b", "value_base64": "/w=="}, {"key": "b", "value": null}]}`: {Value: []byte("v"),
			Headers: []dlq.Header{{Key: "b", Value: []byte("2")}, {Key: "b", Value: []byte{255}}, {Key: "b"}}},
		`{"key_base64": "", "reason": "the key was wrong"}`: {Key: []byte{}, Value: []byte("v"), Headers: []dlq.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
	} {
		id := w.add(1, dlqtest.Key("k"), dlqtest.Value("v"), headers)[0]
		records := w.sent()
		copied := w.edited(id, body)
		require.Len(t, records, 1, "only the copy is sent: %s", body)
		got := records[copied]
		require.Equal(t, want.Key, got.Key, body)
		require.Equal(t, want.Value, got.Value, body)
		require.Len(t, got.Headers, len(want.Headers), body)
		for i := range want.Headers {
			require.Equal(t, want.Headers[i].Key, got.Headers[i].Key, body)
			require.Equal(t, want.Headers[i].Value == nil, got.Headers[i].Value == nil, body)
			require.Equal(t, string(want.Headers[i].Value), string(got.Headers[i].Value), body)
		}
		shown := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
		require.Equal(t, "replaced", shown.field(t, "resolution"))
		require.Equal(t, copied.String(), shown.field(t, "replaced_by"))
		shown = w.call(http.MethodGet, "/api/v1/dlq/messages/"+copied.String())
		require.Equal(t, "delivered", shown.field(t, "resolution"))
		require.Equal(t, id.String(), shown.field(t, "edited_from"))
		require.Equal(t, id.String(), shown.field(t, "previous_id"))
		require.Nil(t, shown.field(t, "source"))
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/messages/"+copied.String()+"/chain").status)
	}
}

func TestASecondEditNamesTheCopy(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	copied := w.edited(id, `{"value": 1}`)
	for _, body := range []string{`{"value": 2}`, `{}`} {
		message, _ := requireError(t, w.json(http.MethodPost, retryPath(id), body), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Contains(t, message, copied.String(), body)
	}
	require.Equal(t, 1, w.retries.starts())
}

func TestAnImpossibleEditChangesNothing(t *testing.T) {
	t.Parallel()
	suspicion := func(headers []dlq.Header) string {
		if len(headers) > 0 && headers[0].Key == "retry_topic-attempts" {
			return "retry_topic-attempts has no bytes"
		}
		return ""
	}
	w := start(t, func(o *api.Options) { o.Suspicion = suspicion })
	typed := dlqtest.Headers(dlq.Header{Key: "spring_json_header_types", Value: []byte(`{}`)})
	for body, field := range map[string]string{
		`{"value": 1, "value_base64": "AA=="}`:                       "value",
		`{"value_base64": "?"}`:                                      "value_base64",
		`{"value_base64": null}`:                                     "value_base64",
		`{"key": 1}`:                                                 "key",
		`{"key": "\u0000"}`:                                          "key",
		`{"headers": 1}`:                                             "headers",
		`{"headers": [1]}`:                                           "headers[0]",
		`{"headers": [{"value": "x"}]}`:                              "headers[0].key",
		`{"headers": [{"key": "x"}]}`:                                "headers[0].value",
		`{"headers": [{"key": "x", "value": 1}]}`:                    "headers[0].value",
		`{"headers": [{"key": "x", "value": "", "type": 1}]}`:        "headers[0].type",
		`{"headers": {"x": {}}}`:                                     "headers.x",
		`{"headers": {}}`:                                            "headers", // the type headers are missing
		`{"headers": {"spring_json_header_types": "{\"a\":\"b\"}"}}`: "headers",
		`{"headers": {"retry_topic-attempts": "", "spring_json_header_types": "{}"}}`: "headers",
		`{"topic": "x"}`:                      "topic",
		`{"value": 1, "target_topic": "a b"}`: "target_topic",
	} {
		id := w.add(1, typed)[0]
		_, fields := requireError(t, w.json(http.MethodPost, retryPath(id), body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Contains(t, fmt.Sprint(fields), field, body)
		require.Equal(t, "PENDING", w.status(id), body)
	}
	require.Zero(t, w.retries.starts())
	id := w.add(1, typed)[0]
	w.edited(id, `{"headers": {"spring_json_header_types": "{}", "x": "y"}}`)
}

func TestADeadMessageIsRevivedBeforeItIsEdited(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.addDead(1)[0]
	requireError(t, w.json(http.MethodPost, retryPath(id), `{"value": 1}`), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/revive").status)
	w.edited(id, `{"value": 1}`)
}

func TestACopyThatCannotBeSentNowIsNamed(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.retries.mu.Lock()
	w.retries.unavailable = fmt.Errorf("%w: temporal", dlq.ErrUnavailable)
	w.retries.mu.Unlock()
	message, _ := requireError(t, w.json(http.MethodPost, retryPath(id), `{"value": 1}`), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	d, err := dlqtest.Detail(t.Context(), w.store, id)
	require.NoError(t, err)
	require.Contains(t, message, d.Edits.By.String())
	require.Equal(t, "PENDING", w.status(d.Edits.By))
	w.retries.mu.Lock()
	w.retries.unavailable = nil
	w.retries.mu.Unlock()
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(d.Edits.By)).status)
	require.Equal(t, "RESOLVED", w.status(d.Edits.By))
}

func TestAFailedCopyCanBeRetriedAndTheMessageCannot(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryAuth, Err: errors.New("refused")})
	copied := w.edited(id, `{"value": 1}`)
	require.Equal(t, "PENDING", w.status(copied))
	require.Equal(t, "RESOLVED", w.status(id))
	records := w.sent()
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(copied)).status)
	require.Len(t, records, 1)
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusConflict, "SYS_DLQ_CONFLICT")
}

func TestAnEditIsInTheAuditWithoutItsData(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.audited("ann")
	id := w.add(1)[0]
	got := w.json(http.MethodPost, retryPath(id), `{"value": {"card": "4111"}, "reason": "wrong card"}`, "Authorization: Bearer ann")
	require.Equal(t, http.StatusOK, got.status, got.body)
	all := fmt.Sprint(w.operations("Authorization: Bearer ann"))
	require.NotContains(t, all, "4111")
	require.Contains(t, all, "wrong card")
	require.Contains(t, all, "copy_id:"+got.field(t, "id").(string))
	require.Equal(t, 2, strings.Count(all, "wrong card"), "the edit, and the retry of the copy")
}

// The publisher would send the record that the headers name, and not the copy.
func TestACopyIsNoPointer(t *testing.T) {
	t.Parallel()
	w := start(t)
	pointer := dlqtest.Headers(dlq.Header{Key: "__dlq.errors.topic", Value: []byte("orders.v1")})
	family := func(a *dlq.Arrival) { a.Origin.Family, a.Record.Key, a.Record.Value = dlq.FamilyShareGroup, nil, nil }
	added := `{"key": null, "value": null, "headers": {"__dlq.errors.topic": "orders.v1"}}`
	for name, id := range map[string]dlq.ID{
		"of a pointer":                 w.add(1, pointer, family)[0],
		"of a message with a record":   w.add(1)[0],
		"of a record of a share group": w.add(1, pointer, family, dlqtest.Key("k"))[0],
	} {
		requireError(t, w.json(http.MethodPost, retryPath(id), added), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, "PENDING", w.status(id), name)
	}
	require.Zero(t, w.retries.starts())
}

// If a message was stored without a Schema Registry, its schema is unknown.
func TestAValueInConfluentsFormatIsNotReplacedByJSON(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, dlqtest.Value("\x00\x00\x00\x00\x07abc"))[0]
	_, fields := requireError(t, w.json(http.MethodPost, retryPath(id), `{"value": {"a": 1}}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{"value"}, fields)
	require.Equal(t, "PENDING", w.status(id))
	w.edited(id, `{"value_base64": "AAAAAAhhYmM="}`)
}

func TestAnEditedValueIsEncodedWithItsSchema(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.Decoder = decoder{} })
	original := "\x00\x00\x00\x00\x07abc"
	id := w.add(1, dlqtest.Value(original))[0]
	message, fields := requireError(t, w.json(http.MethodPost, retryPath(id), `{"value": [1]}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{"value"}, fields)
	require.Contains(t, message, "this edit is not possible")
	message, _ = requireError(t, w.json(http.MethodPost, retryPath(id), `{"value": "away"}`), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "so nothing was changed")
	require.Equal(t, "PENDING", w.status(id))

	records := w.sent()
	copied := w.edited(id, `{"value": {"a": 2}}`)
	require.Equal(t, original[:5]+`{"a": 2}`, string(records[copied].Value))
	d, err := dlqtest.Detail(t.Context(), w.store, copied)
	require.NoError(t, err)
	require.JSONEq(t, `{"a": 2}`, string(d.Payload))
	require.Equal(t, dlq.Schema{Format: "AVRO", ID: 7, Subject: "orders.v1-value"}, d.Schema)
}

func TestASuspiciousMessageGetsNoOtherSuspiciousHeader(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) {
		o.Suspicion = func(headers []dlq.Header) string {
			for _, h := range headers {
				if strings.HasPrefix(h.Key, "bad") {
					return h.Key
				}
			}
			return ""
		}
	})
	suspicious := func(a *dlq.Arrival) { a.Suspicion = "bad-1" }
	id := w.add(1, suspicious, dlqtest.Headers(dlq.Header{Key: "bad-1"}))[0]
	requireError(t, w.json(http.MethodPost, retryPath(id), `{"headers": {"bad-2": ""}}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	w.edited(id, `{"headers": {"bad-1": null, "x": "y"}}`)
}

func TestAnEditCanHaveAsManyHeadersAsItsMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.edited(id, `{"headers": [`+strings.Repeat(`{"key": "h", "value": "1"},`, 4999)+`{"key": "h", "value": null}]}`)
}

func TestAnEditDoesNotHideThatTheOriginIsForged(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) {
		require.NoError(t, o.Topics.LimitOrigins(map[string][]string{"*": {"orders.eu"}}))
	})
	for origin, want := range map[string]any{
		"payments": "its original topic payments is not among those of * in kafka.origins", "orders.eu": nil, "orders.v1": nil,
	} {
		id := w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = origin })[0]
		copied := w.edited(id, `{"headers": {"a": "b"}}`)
		require.Equal(t, want, w.call(http.MethodGet, "/api/v1/dlq/messages/"+copied.String()).field(t, "suspicion"), origin)
	}
}

// Another program has changed the stored headers, so the original record is unknown.
func TestAMessageWithDamagedHeadersIsShownAndNotEdited(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(2)
	damaged, sound := ids[0], ids[1]
	_, err := w.pool.Exec(t.Context(), `UPDATE dlq.dlq_message_bodies SET headers = '\x0400' WHERE message_id = $1`, [16]byte(damaged))
	require.NoError(t, err)

	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+damaged.String())
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, `"headers":[],`)
	require.Contains(t, got.body, `"headers_error":"message `+damaged.String()+`: stored headers are damaged`)
	require.NotContains(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+sound.String()).body, "headers_error")

	messages, _ := w.export(exportPath)
	require.Len(t, messages, 2, "an export goes on after it")

	got = w.json(http.MethodPost, "/api/v1/dlq/messages/"+damaged.String()+"/retry", `{"value": {"a": 1}}`)
	require.Equal(t, http.StatusConflict, got.status, got.body)
	require.Contains(t, got.body, "stored headers are damaged")
}
