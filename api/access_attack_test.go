package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

type everyRecord struct{}

func (everyRecord) Fetch(context.Context, dlq.Origin, time.Time) (dlq.Record, error) {
	return dlq.Record{Value: []byte("secret")}, nil
}

// Whoever writes to a dead-letter topic chooses the record that a pointer names.
func TestAForgedPointerShowsNoRecordOfAnotherTopic(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, func(o *api.Options) { o.Pointers = everyRecord{} })
	pointer := func(topic string) func(*dlq.Arrival) {
		return func(a *dlq.Arrival) {
			a.Origin.Topic, a.Origin.Family = topic, dlq.FamilyShareGroup
			a.Record.Key, a.Record.Value, a.Payload = nil, nil, nil
		}
	}
	forged, own := w.add(1, pointer("payments.v1"))[0].String(), w.add(1, pointer("orders.v1"))[0].String()
	get := func(id, token string) response {
		return w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, bearer(token))
	}
	hidden := get(forged, "viewer/orders.*")
	require.Nil(t, hidden.field(t, "pointed", "value"))
	require.Contains(t, hidden.field(t, "pointed", "error"), "another topic")
	require.NotNil(t, get(own, "viewer/orders.*").field(t, "pointed", "value"))
	require.NotNil(t, get(forged, "viewer").field(t, "pointed", "value"))
}

// A job on an original topic also has the messages of other dead-letter topics.
func TestALimitedOperatorSteersNoWiderJob(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]int{"orders.v1": http.StatusForbidden, "orders.dlq.v1": http.StatusOK} {
		w := startWithTokens(t)
		w.retries.hold()
		w.add(1)
		job := w.json(http.MethodPost, bulksPath, `{"topic":"`+topic+`"}`, bearer("admin"), "Prefer: respond-async")
		path := job.header.Get("Location")
		require.Equal(t, want, w.call(http.MethodPost, path+"/pause", bearer("operator/orders.*")).status, topic)
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, path, bearer("operator/orders.*")).status)
	}
	w := startWithTokens(t)
	w.retries.hold()
	w.add(1)
	own := w.json(http.MethodPost, bulksPath, `{"topic":"orders.v1"}`, bearer("operator/orders.*"), "Prefer: respond-async")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, own.header.Get("Location")+"/pause", bearer("operator/orders.*")).status)
}

func TestAJobThatReplacesATerminatedOneHasItsOwnRow(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1)
	w.retries.terminate(true)
	first := w.json(http.MethodPost, bulksPath, wholeTopic, bearer("operator"), "Prefer: respond-async").field(t, "id")
	w.retries.terminate(false)
	second := w.json(http.MethodPost, bulksPath, wholeTopic, bearer("admin"), "Prefer: respond-async").field(t, "id")
	require.NotEqual(t, first, second)
	creators := map[any]any{}
	for _, row := range w.operations(bearer("admin")) {
		if row["outcome"] == "accepted" {
			creators[row["target_id"]] = row["subject"]
		} else if row["target_id"] == first {
			require.Equal(t, "operator", row["subject"], "the end of a job belongs to its creator")
		}
	}
	require.Equal(t, map[any]any{first: "operator", second: "admin"}, creators)
}

func TestOneSenderCannotFillTheAuditWithRefusals(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for range 150 {
		w.send(http.MethodDelete, "/api/v1/dlq/messages/"+someID, nil, bearer("viewer"))
	}
	w.send(http.MethodDelete, "/api/v1/dlq/messages/"+someID, nil, bearer("operator"))
	rows := w.operations(bearer("admin"))
	require.Less(t, len(rows), 130)
	require.Greater(t, len(rows), 100)
	require.Equal(t, "operator", rows[0]["subject"], "another sender")
}

// A browser sends the requests of any page to loopback addresses too.
func TestForeignWebPagesAreRefusedWithoutAuthentication(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.LocalOnly, o.CORSOrigins = true, []string{"https://ops.example"} })
	id := w.add(1)[0].String()
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site", "Origin: http://localhost:3000"},
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, // a form
	} {
		got := w.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", headers...)
		requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	}
	require.Equal(t, "PENDING", w.status(mustID(t, id)))
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
		{"Sec-Fetch-Site: cross-site", "Origin: https://ops.example"},
	} {
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", headers...).status, headers)
	}
	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1": 200, "[::1]:1": 200, "127.9.9.9:1": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "192.0.2.1": 403, "localhost.evil.example:80": 403,
	} {
		got := w.raw("GET /api/v1/dlq HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		require.Equal(t, want, got.status, host)
	}
}

func mustID(t *testing.T, text string) dlq.ID {
	t.Helper()
	id, err := dlq.ParseID(text)
	require.NoError(t, err)
	return id
}
