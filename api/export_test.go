package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

const exportPath = "/api/v1/dlq/orders.dlq.v1/export"

// export reads an export to its end, and returns its messages and its last line.
func (w *world) export(path string, headers ...string) (messages []map[string]any, end map[string]any) {
	w.t.Helper()
	got := w.call(http.MethodGet, path, headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	require.Equal(w.t, "application/x-ndjson", got.header.Get("Content-Type"))
	require.True(w.t, strings.HasSuffix(got.body, "\n"))
	for line := range strings.Lines(got.body) {
		require.Nil(w.t, end, "a line after the end")
		object := decodeLine(w.t, line)
		if object["end"] != nil {
			end, _ = object["end"].(map[string]any)
			continue
		}
		messages = append(messages, object)
	}
	require.NotNil(w.t, end, got.body)
	count, _ := end["count"].(json.Number).Int64()
	require.EqualValues(w.t, len(messages), count)
	return messages, end
}

// decodeLine decodes a line, and keeps the form of numbers.
func decodeLine(t testing.TB, line string) (object map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&object), line)
	return object
}

func idsOfExport(messages []map[string]any) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m["id"].(string))
	}
	return ids
}

func texts(ids []dlq.ID) (texts []string) {
	for _, id := range ids {
		texts = append(texts, id.String())
	}
	return texts
}

// requireBytes requires that bytes in a line are the bytes of a record.
func requireBytes(t testing.TB, want []byte, got any) {
	t.Helper()
	if want == nil {
		require.Nil(t, got)
		return
	}
	object := got.(map[string]any)
	require.Equal(t, base64.StdEncoding.EncodeToString(want), object["base64"])
	require.Equal(t, fmt.Sprint(len(want)), object["size"].(json.Number).String())
	requireText(t, want, object["text"])
}

func requireText(t testing.TB, want []byte, got any) {
	t.Helper()
	if utf8.Valid(want) {
		require.Equal(t, string(want), got)
		return
	}
	require.Nil(t, got)
}

func TestAnExportHasEveryByteOfARecord(t *testing.T) {
	t.Parallel()
	w := start(t)
	records := []dlq.Record{
		{}, {Key: []byte{}, Value: []byte{}}, {Key: []byte("k\x00\xff"), Value: []byte("\xff\xfe")},
		{Key: []byte("\"\\\n\u2028<&>\x01\x7f"), Value: []byte("null"), Headers: []dlq.Header{
			{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{0xff}}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("")},
			{Key: "n\xff", Value: []byte("\r\n")}, {Key: "a", Value: []byte("1")},
		}},
		{Value: []byte("{\"n\":\r\n 9007199254740993, \"e\": 1.0e2,\n\t\"b\": 2, \"a\": 1, \"a\": \"\\n\"}")}, {Value: []byte(strings.Repeat("ü\x00", 100_000))},
	}
	ids := make([]dlq.ID, 0, len(records))
	for _, r := range records {
		ids = append(ids, w.add(1, func(a *dlq.Arrival) {
			a.Record = r
			a.Payload = dlq.PayloadOf(r.Value)
			a.ErrorMessage, a.StackTrace = "bad \"<&>\"", "at\tline\r\n\x01 1"
		})[0])
	}
	got := w.call(http.MethodGet, exportPath)
	messages, _ := w.export(exportPath)
	require.Equal(t, texts(ids), idsOfExport(messages))
	for i, m := range messages {
		require.Equal(t, `bad "<&>"`, m["error_message"])
		require.Equal(t, "at\tline\r\n\x01 1", m["stack_trace"])
		requireBytes(t, records[i].Key, m["key"])
		requireBytes(t, records[i].Value, m["value"])
		headers := m["headers"].([]any)
		require.Len(t, headers, len(records[i].Headers))
		for j, h := range records[i].Headers {
			header := headers[j].(map[string]any)
			require.Equal(t, strings.ToValidUTF8(h.Key, "\ufffd"), header["key"])
			if !utf8.ValidString(h.Key) {
				require.Equal(t, base64.StdEncoding.EncodeToString([]byte(h.Key)), header["key_base64"])
			}
			if h.Value == nil {
				require.Nil(t, header["value"])
				require.Nil(t, header["text"])
				continue
			}
			require.Equal(t, base64.StdEncoding.EncodeToString(h.Value), header["value"])
			requireText(t, h.Value, header["text"])
		}
	}
	require.Contains(t, got.body, `"payload":{"n": 9007199254740993, "e": 1.0e2,`+"\t"+`"b": 2, "a": 1, "a": "\n"},`, "byte for byte")
	require.Nil(t, messages[0]["payload"])
	require.Nil(t, messages[2]["payload"])
}

func TestAnExportHasTheStoredPayloadOfADecodedValueAndOfAnotherProgram(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1, func(a *dlq.Arrival) {
		a.Record.Value, a.Payload = []byte("\x00\x00\x00\x00\x07rest"), json.RawMessage(`{"n": 9007199254740993}`)
		a.Schema = dlq.Schema{ID: 7, Format: "AVRO", Subject: "orders-value", Version: 3}
	})
	_, err := w.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload) VALUES ('orders.v1', 'boom', '{"n": 9007199254740993}')`)
	require.NoError(t, err)
	messages, _ := w.export("/api/v1/dlq/orders.v1/export")
	require.Len(t, messages, 2)
	for _, m := range messages {
		require.Equal(t, map[string]any{"n": json.Number("9007199254740993")}, m["payload"])
	}
	require.Equal(t, "AVRO", messages[0]["schema"].(map[string]any)["format"])
	requireBytes(t, []byte("\x00\x00\x00\x00\x07rest"), messages[0]["value"])
	require.Nil(t, messages[1]["schema"])
	requireBytes(t, []byte(`{"n": 9007199254740993}`), messages[1]["value"])
}

func TestATopicCanHaveTheNameOfAPath(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "messages" })[0]
	_, got := w.send(http.MethodGet, "/api/v1/dlq/messages/export", nil) // two paths of the specification match this path
	require.Contains(t, got.body, id.String())
	require.Contains(t, got.body, `{"end":{"count":1,`)
}

func TestHostileDeadLettersAreExported(t *testing.T) {
	t.Parallel()
	w := start(t)
	hostile := dlqtest.Hostile()
	for name, arrival := range hostile {
		arrival.DLQTopic = "orders.dlq.v1"
		arrival.Source.Offset = nextOffset()
		stored, err := w.store.Ingest(t.Context(), []dlq.Arrival{arrival}, nil)
		require.NoError(t, err, name)
		require.Len(t, stored, 1, name)
	}
	messages, _ := w.export(exportPath)
	require.Len(t, messages, len(hostile))
	for _, arrival := range hostile {
		i := slices.IndexFunc(messages, func(m map[string]any) bool { return m["id"] == arrival.ID.String() })
		require.GreaterOrEqual(t, i, 0)
		requireBytes(t, arrival.Record.Key, messages[i]["key"])
		requireBytes(t, arrival.Record.Value, messages[i]["value"])
	}
}

// Every field of the detail that describes the stored record must also be in the line, with the same value.
func TestALineSaysAllThatTheDetailSays(t *testing.T) {
	t.Parallel()
	w := start(t)
	family := int32(3)
	id := w.add(1, dlqtest.Cause("no price"), func(a *dlq.Arrival) {
		a.StackTrace, a.ErrorClass, a.CauseClass, a.TraceID, a.CorrelationID = "at 1", "E", "C", "trace", "correlation"
		a.Origin.Partition, a.Origin.Offset, a.Origin.ConsumerGroup, a.Attempts = &family, new(int64(9007199254740993)), "billing", 4
		a.Origin.Timestamp = time.Date(2026, 2, 20, 10, 29, 57, 0, time.UTC)
		a.Suspicion = "an attack"
		a.Record.Headers = []dlq.Header{{Key: "a", Value: []byte("b")}}
	})[0]
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryTransient, Err: http.ErrServerClosed})
	for range 2 {
		require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(id)).status)
	}
	w.retries.fail(nil)
	w.retries.deliver = nil
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(id)).status)
	detail := decodeLine(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).body)
	messages, _ := w.export(exportPath)
	require.Len(t, messages, 1)
	line := messages[0]
	require.NotEmpty(t, line["attempts"])
	require.NotNil(t, line["verified"])
	for name, want := range detail {
		switch name {
		case "key", "value":
			shown := line[name].(map[string]any)
			delete(shown, "text")
			require.Equal(t, want, shown, name)
		case "pointed", "decoded_key", "grouped_by":
			require.NotContains(t, line, name)
		default:
			require.Contains(t, line, name)
			require.Equal(t, want, line[name], name)
		}
	}
	for name := range line {
		require.True(t, name == "cursor" || detail[name] != nil || line[name] == nil, name)
	}
}

func TestAnExportWithoutMessagesHasItsEnd(t *testing.T) {
	t.Parallel()
	w := start(t)
	messages, end := w.export(exportPath)
	require.Empty(t, messages)
	id := w.add(1)[0]
	messages, next := w.export(exportPath + "?cursor=" + end["cursor"].(string))
	require.Equal(t, []string{id.String()}, idsOfExport(messages))
	messages, last := w.export(exportPath + "?cursor=" + next["cursor"].(string))
	require.Empty(t, messages)
	require.Equal(t, next["cursor"], last["cursor"])
}

func TestAnExportContinuesAtTheCursorOfAnyLine(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := texts(w.add(9))
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[4]+"/dead").status)
	all, _ := w.export(exportPath)
	require.Equal(t, ids, idsOfExport(all), "the oldest first, whatever the status")
	for i, m := range all {
		rest, _ := w.export(exportPath + "?cursor=" + m["cursor"].(string))
		require.Equal(t, ids[i+1:], append([]string{}, idsOfExport(rest)...))
	}
	cursor, found := "", []string{}
	for len(found) < len(ids) {
		path := exportPath + "?limit=2"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		part, end := w.export(path)
		require.LessOrEqual(t, len(part), 2)
		found, cursor = append(found, idsOfExport(part)...), end["cursor"].(string)
	}
	require.Equal(t, ids, found)
	list := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?sort=created_at&page_size=3").field(t, "pagination", "next_cursor").(string)
	rest, _ := w.export(exportPath + "?cursor=" + list)
	require.Equal(t, ids[3:], idsOfExport(rest))
}

func TestAnExportTakesTheFiltersOfTheList(t *testing.T) {
	t.Parallel()
	w := start(t)
	plain := w.add(1)[0].String()
	other := w.add(1, dlqtest.Cause("no price"), dlqtest.Key("other"), dlqtest.Error("no such price"), dlqtest.Value(`{"n":7}`), dlqtest.Headers(dlq.Header{Key: "tenant", Value: []byte("a")}),
		func(a *dlq.Arrival) { a.ErrorClass, a.TraceID = "java.lang.Error", "trace-1" })[0].String()
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+other+"/dead").status)
	for filter, want := range map[string][]string{
		"status=PENDING": {plain}, "status=DEAD": {other}, "status=DEAD,PENDING": {plain, other}, "key=other": {other}, "error=PRICE": {other},
		"header.tenant=a": {other}, "payload.n=7": {other}, "class=Error": {other}, "trace_id=trace-1": {other}, "not.key=other": {plain},
		"group=" + w.groupOf(other): {other}, "created_from=2999-01-01T00:00:00Z": nil, "created_to=2000-01-01T00:00:00Z": nil, "suspicious=true": nil,
		"header.tenant=nobody": nil, "error=price&limit=5": {other}, "not.error=price": {plain}, "verified=yes": nil,
	} {
		messages, _ := w.export(exportPath + "?" + filter)
		require.Equal(t, want, idsOfExport(messages), filter)
	}
	messages, _ := w.export("/api/v1/dlq/orders.v1/export?key=other")
	require.Equal(t, []string{other}, idsOfExport(messages), "by the original topic")
	recorded := len(w.operations())
	for query, field := range map[string]string{
		"page=1": "page", "sort=created_at": "sort", "colour=red": "colour", "limit=0": "limit", "limit=x": "limit", "limit=99999999999": "limit",
		"cursor=x": "cursor", "status=LOST": "status", "key=a&key=b": "key", "reason=x": "reason",
	} {
		_, fields := requireError(t, w.call(http.MethodGet, exportPath+"?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, query)
	}
	newest := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page_size=1").field(t, "pagination", "next_cursor").(string)
	requireError(t, w.call(http.MethodGet, exportPath+"?cursor="+newest), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	requireError(t, w.call(http.MethodGet, "/api/v1/dlq/%2e%2e/export"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Len(t, w.operations(), recorded, "a malformed request is not recorded")
}

func TestASearchThatFindsLittleExportsAll(t *testing.T) {
	t.Parallel()
	w := start(t, wrapped(func(s Store) Store { return shortSearches{s} }))
	var want []string
	for i := range 20 {
		ids := w.add(1, dlqtest.Headers(dlq.Header{Key: "tenant", Value: fmt.Appendf(nil, "t%d", i%5)}))
		if i%5 == 3 {
			want = append(want, ids[0].String())
		}
	}
	messages, end := w.export(exportPath + "?header.tenant=t3")
	require.Equal(t, want, idsOfExport(messages))
	more, _ := w.export(exportPath + "?header.tenant=t3&cursor=" + url.QueryEscape(end["cursor"].(string)))
	require.Empty(t, more)
}

func TestOnlyThoseWhoMayExportDo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	own := w.add(1)[0].String()
	foreign := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })[0]
	back := w.add(1, func(a *dlq.Arrival) { a.PreviousID = foreign })[0].String()
	export := func(topic, token string) []string {
		messages, _ := w.export("/api/v1/dlq/"+topic+"/export", bearer(token))
		return idsOfExport(messages)
	}
	require.Equal(t, []string{own, back}, export("orders.dlq.v1", "operator"))
	require.Equal(t, []string{own, foreign.String(), back}, export("orders.v1", "admin"))
	require.Equal(t, []string{own, back}, export("orders.v1", "operator/orders.*"))
	require.Equal(t, []string{own, back}, export("orders.v1", "operator/orders.*+viewer"))
	require.Empty(t, export("stock.dlq.v1", "operator/orders.*"), "a hidden topic is empty")
	for token, path := range map[string]string{
		"viewer": exportPath, "viewer/orders.*": exportPath, "operator/orders.*+viewer": "/api/v1/dlq/stock.dlq.v1/export",
	} {
		message, _ := requireError(t, w.call(http.MethodGet, path, bearer(token)), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		require.Contains(t, message, "dlq:message:export", token)
	}
	for token, want := range map[string]any{"operator": foreign.String(), "operator/orders.*": nil, "operator/orders.*+operator/stock.*": foreign.String()} {
		messages, _ := w.export(exportPath, bearer(token))
		require.Equal(t, want, messages[1]["previous_id"], token)
	}
	_, got := w.send(http.MethodHead, exportPath, nil, bearer("viewer"))
	require.Equal(t, http.StatusForbidden, got.status)
}

func TestAnExportIsInTheAudit(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(3)
	_, end := w.export(exportPath+"?limit=1&status=PENDING&header.tenant=secret&not.key=secret&created_from=2020-01-01T00:00:00Z", bearer("operator"))
	w.export(exportPath+"?limit=2&cursor="+end["cursor"].(string), bearer("operator/orders.*"))
	requireError(t, w.call(http.MethodGet, exportPath, bearer("viewer")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	_, head := w.send(http.MethodHead, exportPath, nil, bearer("operator"))
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
	rows := w.operations(bearer("admin"))
	require.Len(t, rows, 5)
	var outcomes []any
	for _, row := range rows {
		outcomes = append(outcomes, row["outcome"])
		require.Equal(t, "dlq:message:export", row["action"])
		require.Equal(t, "orders.dlq.v1", row["topic"])
		require.Equal(t, "message", row["target"])
		require.Nil(t, row["target_id"])
	}
	require.Equal(t, []any{"refused", "done", "accepted", "done", "accepted"}, outcomes)
	require.Equal(t, "operator", rows[4]["subject"])
	require.Equal(t, "operator/orders.*", rows[1]["subject"])
	require.Equal(t, rows[4]["request_id"], rows[3]["request_id"])
	require.Equal(t, map[string]any{"messages": 0.0}, rows[3]["detail"])
	require.Equal(t, map[string]any{"messages": 2.0}, rows[1]["detail"])
	begun := rows[4]["detail"].(map[string]any)
	require.EqualValues(t, 1, begun["limit"])
	require.Equal(t, map[string]any{
		"topic": "orders.dlq.v1", "statuses": []any{"PENDING"}, "headers": map[string]any{"tenant": ""}, "created_from": "2020-01-01T00:00:00Z",
		"not": []any{map[string]any{"key": ""}},
	}, begun["filter"], "without data of messages")
	require.Equal(t, end["cursor"], rows[2]["detail"].(map[string]any)["cursor"])
	listed := operations(t, w.call(http.MethodGet, auditPath+"?action=dlq:message:export&outcome=done", bearer("admin")))
	require.Len(t, listed, 2)
}

func TestAnExportThatCannotBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, wrapped(func(s Store) Store { return unrecorded{s} }))
	w.add(1)
	requireError(t, w.call(http.MethodGet, exportPath), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

// The filter ids of a list and of an export can be combined with every other filter.
func TestMessagesAreChosenByTheirIDs(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(5, dlqtest.Key("k"), dlqtest.Headers(dlq.Header{Key: "tenant", Value: []byte("a")}))
	list := "?ids=" + ids[3].String() + "," + strings.ToUpper(ids[1].String()) + "," + someID
	chosen := []string{ids[1].String(), ids[3].String()}
	messages, _ := w.export(exportPath + list)
	require.Equal(t, chosen, idsOfExport(messages))
	messages, _ = w.export(exportPath + "?ids=" + ids[3].String() + "&ids=" + ids[1].String())
	require.Equal(t, chosen, idsOfExport(messages))
	for _, filter := range []string{
		"", "&status=PENDING", "&key=k", "&error=processing", "&header.tenant=a", "&not.key=x", "&created_from=2020-01-01T00:00:00Z",
	} {
		got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1"+list+"&sort=created_at"+filter)
		require.Equal(t, http.StatusOK, got.status, got.body)
		var shown []string
		for _, m := range got.field(t, "messages").([]any) {
			shown = append(shown, m.(map[string]any)["id"].(string))
		}
		require.Equal(t, chosen, shown, filter)
	}
	for _, wrong := range []string{"?ids=", "?ids=x", "?not.ids=" + someID} {
		require.Equal(t, http.StatusBadRequest, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1"+wrong).status, wrong)
	}
}
