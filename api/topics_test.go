package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// fixed returns the results that the test sets. Other calls go to Store.
type fixed struct {
	Store
	page   dlq.Page
	detail dlq.Detail
	chain  dlq.Chain
	topics []dlq.TopicSummary
	// operations are by the tokens of owners of retries.
	operations map[string]dlq.ID
	verdict    dlq.Verdict // the verdict about every message
	err        error
	asked      chan dlq.ListQuery
}

func (f *fixed) Verdicts(_ context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error) {
	verdicts := map[dlq.ID]dlq.Verdict{}
	for _, id := range ids {
		verdicts[id] = f.verdict
	}
	return verdicts, nil
}

func (f *fixed) List(_ context.Context, q dlq.ListQuery) (dlq.Page, error) {
	if f.asked != nil {
		f.asked <- q
	}
	return f.page, f.err
}
func (f *fixed) Details(context.Context, dlq.DetailQuery) ([]dlq.Detail, error) {
	return []dlq.Detail{f.detail}, f.err
}
func (f *fixed) Weigh(context.Context, dlq.DetailQuery) ([]dlq.Weight, error) {
	return []dlq.Weight{{DLQTopic: f.detail.DLQTopic}}, f.err
}
func (f *fixed) Message(context.Context, dlq.ID) (dlq.Message, error) { return f.detail.Message, f.err }
func (f *fixed) Chain(context.Context, dlq.ID) (dlq.Chain, error)     { return f.chain, f.err }
func (f *fixed) TopicsWithin(context.Context, string) ([]dlq.TopicSummary, error) {
	return f.topics, f.err
}
func (f *fixed) RecordOperation(context.Context, dlq.Operation) error { return f.err }
func (f *fixed) OperationsOf(context.Context, []dlq.ID, []string) (map[string]dlq.ID, error) {
	return f.operations, f.err
}
func (f *fixed) Delete(context.Context, *dlq.Operation, dlq.ID) error { return f.err }
func (f *fixed) Job(context.Context, dlq.ID) (dlq.Job, error)         { return dlq.Job{}, f.err }
func (f *fixed) Jobs(context.Context, dlq.JobQuery) (dlq.PageOf[dlq.Job], error) {
	return dlq.PageOf[dlq.Job]{}, f.err
}
func (f *fixed) PreviewJob(context.Context, dlq.JobSpec) (dlq.JobPreview, error) {
	return dlq.JobPreview{}, f.err
}
func (f *fixed) MarkDead(context.Context, *dlq.Operation, dlq.ID) (dlq.Message, error) {
	return dlq.Message{}, f.err
}

func parseID(t *testing.T, s string) dlq.ID {
	t.Helper()
	id, err := dlq.ParseID(s)
	require.NoError(t, err)
	return id
}

// documented is the message in the examples of the documentation.
func documented(t *testing.T) dlq.Message {
	t.Helper()
	created := time.Date(2026, 2, 20, 19, 30, 0, 0, time.FixedZone("JST", 9*3600)) // shown in UTC
	return dlq.Message{
		ID: parseID(t, "550e8400-e29b-41d4-a716-446655440000"), Seq: 130, OriginalTopic: "orders.events.v1", DLQTopic: "orders.events.dlq.v1",
		ErrorMessage: "processing failed", MaxRetries: 3, Payload: json.RawMessage(`{"order_id": "123"}`),
		Status: dlq.StatusPending, CreatedAt: created, UpdatedAt: created,
	}
}

func TestListMessagesEmptyTopic(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false,`+
		`"total_count_exact":true,"next_cursor":null}}`, got.body)
}

func TestListMessagesReturnsStoredMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for _, topic := range []string{"orders.dlq.v1", "orders.v1", "orders%2Edlq%2Ev1"} {
		_, got := w.send(http.MethodGet, "/api/v1/dlq/"+topic, nil)
		messages := got.field(t, "messages").([]any)
		require.Len(t, messages, 1, topic)
		message := messages[0].(map[string]any)
		require.Equal(t, id.String(), message["id"])
		require.Equal(t, "PENDING", message["status"])
		require.Equal(t, map[string]any{"order_id": "123"}, message["payload"])
		require.EqualValues(t, 1, got.field(t, "pagination", "total_count"))
	}
	require.Empty(t, w.call(http.MethodGet, "/api/v1/dlq/payments.dlq.v1").field(t, "messages"))
}

func TestListMessagesHasTheDocumentedBodyByteForByte(t *testing.T) {
	t.Parallel()
	w := start(t, with(&fixed{page: dlq.Page{Messages: []dlq.Message{documented(t)}, Total: 150, TotalExact: true, HasNext: true}}))
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.events.v1")
	require.Equal(t, `{"messages":[{"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1",`+
		`"error_message":"processing failed","retry_count":0,"max_retries":3,"payload":{"order_id":"123"},"status":"PENDING",`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:00.000+00:00","last_retry_at":null,`+
		`"dlq_topic":"orders.events.dlq.v1","error_class":null,"group_id":null,"verified":null,"verified_reason":null,"archive_at":null,"purge_at":null}],`+
		`"pagination":{"total_count":150,"page":1,"page_size":20,"has_next":true,`+
		`"total_count_exact":true,"next_cursor":"v7YpVQAGSz7nPzoAAAAAAAAAAII"}}`, got.body)
}

func TestListMessagesPagesByNumber(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(5)
	var seen []string
	for page := 1; page <= 3; page++ {
		got := w.call(http.MethodGet, fmt.Sprintf("/api/v1/dlq/orders.dlq.v1?page=%d&page_size=2", page))
		for _, m := range got.field(t, "messages").([]any) {
			seen = append(seen, m.(map[string]any)["id"].(string))
		}
		require.EqualValues(t, page, got.field(t, "pagination", "page"))
		require.EqualValues(t, 2, got.field(t, "pagination", "page_size"))
		require.EqualValues(t, 5, got.field(t, "pagination", "total_count"))
		require.Equal(t, page < 3, got.field(t, "pagination", "has_next"))
	}
	require.Equal(t, []string{ids[4].String(), ids[3].String(), ids[2].String(), ids[1].String(), ids[0].String()}, seen)
}

func TestListMessagesFollowsCursorsWhileOthersArrive(t *testing.T) {
	t.Parallel()
	for sort, order := range map[string][]int{"-created_at": {4, 3, 2, 1, 0}, "created_at": {0, 1, 2, 3, 4, 5, 6}} {
		w := start(t)
		ids := w.add(5)
		var seen []string
		path, cursor := "/api/v1/dlq/orders.dlq.v1?page_size=2&sort="+sort, ""
		for first := true; first || cursor != ""; first = false {
			where := path
			if cursor != "" {
				where += "&page=7&cursor=" + cursor
			}
			got := w.call(http.MethodGet, where)
			require.Equal(t, http.StatusOK, got.status, got.body)
			for _, m := range got.field(t, "messages").([]any) {
				seen = append(seen, m.(map[string]any)["id"].(string))
			}
			if cursor != "" {
				require.EqualValues(t, 7, got.field(t, "pagination", "page"))
			}
			if first {
				ids = append(ids, w.add(2)...)
			}
			cursor, _ = got.field(t, "pagination", "next_cursor").(string)
			require.Equal(t, cursor != "", got.field(t, "pagination", "has_next"))
		}
		var want []string
		for _, i := range order {
			want = append(want, ids[i].String())
		}
		require.Equal(t, want, seen, sort)
	}
}

func TestListMessagesPassesEveryFilterToTheStore(t *testing.T) {
	t.Parallel()
	store := &fixed{asked: make(chan dlq.ListQuery, 1)}
	w := start(t, with(store))
	from, to := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC), time.Date(2026, 2, 21, 10, 30, 0, 500_000_000, time.UTC)
	no, partition, offset := false, int32(math.MaxInt32), int64(math.MaxInt64)
	for query, want := range map[string]dlq.ListQuery{
		"":                                     {Page: 1, PageSize: 20},
		"page=3&page_size=200&sort=created_at": {Page: 3, PageSize: 200, OldestFirst: true},
		"status=PENDING&status=DEAD,RETRYING&status=DEAD": {Page: 1, PageSize: 20, Filter: dlq.Filter{
			Statuses: []dlq.Status{dlq.StatusPending, dlq.StatusRetrying, dlq.StatusDead}}},
		"error=" + url.QueryEscape("100% of é & co"): {Page: 1, PageSize: 20, Filter: dlq.Filter{ErrorContains: "100% of é & co"}},
		"key=order-1": {Page: 1, PageSize: 20, Filter: dlq.Filter{Key: []byte("order-1")}},
		"key=":        {Page: 1, PageSize: 20, Filter: dlq.Filter{Key: []byte{}}},
		"created_from=2026-02-20T10:30:00.000+00:00&created_to=2026-02-21T12:30:00.5%2B02:00": {
			Page: 1, PageSize: 20, Filter: dlq.Filter{CreatedFrom: from, CreatedTo: to}},
		"class=a.B&consumer_group=billing&trace_id=t&correlation_id=c&suspicious=false": {Page: 1, PageSize: 20, Filter: dlq.Filter{
			Class: "a.B", ConsumerGroup: "billing", TraceID: "t", CorrelationID: "c", Suspicious: &no}},
		"origin_partition=2147483647&origin_offset=9223372036854775807": {Page: 1, PageSize: 20, Filter: dlq.Filter{
			OriginPartition: &partition, OriginOffset: &offset}},
		"header.a.b=%C3%A9&header.c=&payload.lines.0.sku=x%3D": {Page: 1, PageSize: 20, Filter: dlq.Filter{
			Headers: map[string]string{"a.b": "é", "c": ""}, Payload: map[string]string{"lines.0.sku": "x="}}},
		"created_from=2026-02-20t10:30:00z": {Page: 1, PageSize: 20, Filter: dlq.Filter{CreatedFrom: from}}, // RFC 3339 allows t and z
	} {
		got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query)
		require.Equal(t, http.StatusOK, got.status, got.body)
		want.Topic = "orders.dlq.v1"
		require.Equal(t, want, <-store.asked, query)
	}
}

func TestListMessagesNamesEveryBadParameterAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page=0&page_size=201&status=pending&created_from=yesterday&sort=id&cursor=x&pagesize=3&error=a&error=b")
	message, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.ElementsMatch(t, []string{"page", "page_size", "status", "created_from", "sort", "cursor", "pagesize", "error"}, fields)
	require.Contains(t, message, "pagesize")

	for query, field := range map[string]string{
		"page=-1": "page", "page=1.5": "page", "page=": "page", "page=99999999999999999999": "page", "page=1000001": "page",
		"page_size=0": "page_size", "page=1&page=2": "page", "status=": "status", "status=PENDING,": "status",
		"created_from=2026-02-20": "created_from", "created_to=1": "created_to", "sort=": "sort", "created_to=0001-01-01T00:00:00Z": "created_to",
		"created_from=2026-02-21T00:00:00Z&created_to=2026-02-20T00:00:00Z": "created_to",
		"class=": "class", "consumer_group=": "consumer_group", "trace_id=": "trace_id", "correlation_id=": "correlation_id", "suspicious=yes": "suspicious",
		"origin_partition=-1": "origin_partition", "origin_partition=2147483648": "origin_partition", "origin_offset=": "origin_offset",
		"origin_offset=9223372036854775808": "origin_offset", "header.=a": "header.", "header=a": "header", "headers.a=b": "headers.a",
		"header.a=b&header.a=c": "header.a", "header.a=%00": "header.a", "payload.=1": "payload.", "header.a=b&page=2": "page",
		"header.1=&header.2=&header.3=&header.4=&header.5=&header.6=&payload.1=&payload.2=&payload.3=&payload.4=&payload.5=": "payload",
		"error=%00": "error", "key=%ff": "key", "error=%zz": "query", "error=a;b": "query", "Page=1": "Page",
	} {
		_, fields := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, query)
	}
}

func TestASearchOfHeadersTellsHowFarItLooked(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(3)
	w.add(1, dlqtest.Headers(dlq.Header{Key: "tenant", Value: []byte("a b")}))
	w.add(2)
	first := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page_size=1&header.tenant=a+b")
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.Len(t, first.field(t, "messages"), 1)
	require.Equal(t, true, first.field(t, "pagination", "has_next"))
	require.Equal(t, false, first.field(t, "pagination", "total_count_exact"))
	require.EqualValues(t, 3, first.field(t, "pagination", "searched", "messages"))
	require.Equal(t, false, first.field(t, "pagination", "searched", "complete"))
	second := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page_size=1&header.tenant=a+b&cursor="+first.field(t, "pagination", "next_cursor").(string))
	require.Empty(t, second.field(t, "messages"))
	require.EqualValues(t, len(ids), second.field(t, "pagination", "searched", "messages"))
	require.Equal(t, true, second.field(t, "pagination", "searched", "complete"))
	require.Nil(t, second.field(t, "pagination", "next_cursor"))
	require.NotContains(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1").body, "searched")
}

func TestListMessagesRefusesCursorsThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(3)
	cursor := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page_size=1").field(t, "pagination", "next_cursor").(string)
	for _, query := range []string{
		"sort=created_at&cursor=" + cursor, "cursor=", "cursor=AQ", "cursor=" + cursor + "AA", "cursor=" + cursor + "%3D%3D",
		"cursor=AQAAAAAAAAAAgg" /* too short */, "cursor=AwAABks-5z86AAAAAAAAAACC", /* of another version */
		"cursor=w7YpVQAGSz7nPzoAAAAAAAAAAII" /* of a list that does not exist */, "cursor=v7YpVQAGSz7nPzoA__________8", /* seq -1 */
	} {
		_, fields := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{"cursor"}, fields, query)
	}
}

func TestListMessagesReturnsErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/dlq", "/api/v1/dlq/orders.dlq.v1", "/api/v1/jobs",
		"/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000"} {
		secret := start(t, with(&fixed{err: errors.New("password=hunter2 rejected")})).call(http.MethodGet, path)
		message, fields := requireError(t, secret, http.StatusInternalServerError, "SYS_DLQ_INTERNAL_ERROR")
		require.Equal(t, "internal error", message)
		require.Empty(t, fields)

		unavailable := start(t, with(&fixed{err: fmt.Errorf("pool: %w", dlq.ErrUnavailable)})).call(http.MethodGet, path)
		requireError(t, unavailable, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	}
}

func TestListMessagesSaysWhenTheTotalIsNotExact(t *testing.T) {
	t.Parallel()
	w := start(t, with(&fixed{page: dlq.Page{Messages: []dlq.Message{documented(t)}, Total: dlq.CountLimit, HasNext: true}}))
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.events.v1")
	require.EqualValues(t, 10_000, got.field(t, "pagination", "total_count"))
	require.Equal(t, false, got.field(t, "pagination", "total_count_exact"))
}

func TestTopicsAreCountedByStatus(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.Equal(t, `{"topics":[]}`, w.call(http.MethodGet, "/api/v1/dlq").body)
	ids := w.add(3)
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/dead")
	got := w.call(http.MethodGet, "/api/v1/dlq")
	topic := got.field(t, "topics").([]any)[0].(map[string]any)
	require.Equal(t, "orders.dlq.v1", topic["dlq_topic"])
	require.Equal(t, "orders.v1", topic["original_topic"])
	require.Equal(t, map[string]any{"PENDING": 2.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 1.0}, topic["counts"])
	require.NotNil(t, topic["oldest_pending"])
	require.NotNil(t, topic["newest_arrival"])
	require.EqualValues(t, 0, topic["lost"])
	require.Nil(t, topic["lost_at"])
	require.Equal(t, false, topic["ingest_held"])
}

func TestTopicsShowAStoppedIngest(t *testing.T) {
	t.Parallel()
	summaries := []dlq.TopicSummary{
		{DLQTopic: "few.dlq", Counts: map[dlq.Status]int64{dlq.StatusPending: 4}},
		{DLQTopic: "many.dlq", Counts: map[dlq.Status]int64{dlq.StatusPending: 5}},
	}
	for limits, want := range map[[2]int64][]any{
		{0, 0}: {false, false}, {0, 5}: {false, true}, {9, 0}: {true, true}, {10, 6}: {false, false},
	} {
		w := start(t, with(&fixed{topics: summaries}), func(o *api.Options) { o.MaxPending, o.MaxPendingPerTopic = limits[0], limits[1] })
		var held []any
		for _, topic := range w.call(http.MethodGet, "/api/v1/dlq").field(t, "topics").([]any) {
			held = append(held, topic.(map[string]any)["ingest_held"])
		}
		require.Equal(t, want, held, limits)
	}
}
