package api_test

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/dlq"
)

// The contract has every filter of the table in all places where the filter may be used, and no other filter.
func TestTheContractHasTheFiltersOfTheTable(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	var contract struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct {
					Ref string `yaml:"$ref"`
				}
			}
		}
		Components struct {
			Parameters map[string]struct{ Name string }
			Schemas    map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &contract))
	fields := func(use dlq.FilterUse, more ...string) (names []string) {
		for _, field := range dlq.FilterFields {
			if field.Is(use) {
				names = append(names, field.Name)
			}
		}
		return append(names, more...)
	}
	schemas := contract.Components.Schemas
	require.ElementsMatch(t, fields(dlq.InJobs, "not"), slices.Collect(maps.Keys(schemas["Filters"].Properties)))
	require.ElementsMatch(t, fields(dlq.Negatable), slices.Collect(maps.Keys(schemas["Negations"].Properties)))
	for _, request := range []string{"RetryJobRequest", "ChangeJobRequest"} {
		for _, name := range fields(dlq.InJobs, "not") {
			filter := schemas["Filters"].Properties[name].(map[string]any)
			property := schemas[request].Properties[name].(map[string]any)
			require.NotEmpty(t, filter["$ref"], name)
			require.Equal(t, filter["$ref"], property["$ref"], "%s %s", request, name)
		}
	}
	want := []string{"page", "page_size", "cursor", "sort", "If-None-Match"}
	for _, field := range dlq.FilterFields {
		if field.Is(dlq.InLists) {
			want = append(want, field.Parameter())
		}
		if field.Is(dlq.Negatable) {
			want = append(want, "not."+field.Parameter())
		}
	}
	for _, path := range []string{"/api/v1/dlq/{topic}", "/api/v1/archive/messages"} {
		var names []string
		for _, parameter := range contract.Paths[path].Get.Parameters {
			name := contract.Components.Parameters[strings.TrimPrefix(parameter.Ref, "#/components/parameters/")].Name
			if name != "" && name != "topic" {
				names = append(names, name)
			}
		}
		require.ElementsMatch(t, want, names, path)
	}
}

func TestAListPassesNegationsToTheStore(t *testing.T) {
	t.Parallel()
	store := &fixed{asked: make(chan dlq.ListQuery, 1)}
	w := start(t, with(store))
	for query, want := range map[string][]dlq.Filter{
		"not.error=a&not.key=b&not.class=c":   {{Class: "c"}, {ErrorContains: "a"}, {Key: []byte("b")}},
		"not.class=b&not.class=a&not.class=b": {{Class: "a"}, {Class: "b"}},
		"not.header.tenant=a&not.header.tenant=b&not.payload.lines.0.sku=x": {
			{Headers: map[string]string{"tenant": "a"}}, {Headers: map[string]string{"tenant": "b"}}, {Payload: map[string]string{"lines.0.sku": "x"}}},
		"not.origin_partition=0&not.origin_offset=0":                 {{OriginOffset: new(int64(0))}, {OriginPartition: new(int32(0))}},
		"not.consumer_group=g&not.trace_id=t&not.correlation_id=%25": {{ConsumerGroup: "g"}, {CorrelationID: "%"}, {TraceID: "t"}},
	} {
		got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.ElementsMatch(t, want, (<-store.asked).Not, query)
	}
}

// If a negation were ignored, the messages that it should keep would be deleted.
func TestANegationThatExcludesNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	for query, field := range map[string]string{
		"not.error=": "not.error", "not.key=": "not.key", "not.group=x": "not.group", "not.class=": "not.class", "not.header.a=": "not.header.a",
		"not.header.=a": "not.header.", "not.header=a": "not.header", "not.payload.a=": "not.payload.a", "not.status=DEAD": "not.status",
		"not.ids=a": "not.ids", "not.not.key=a": "not.not.key", "not.=a": "not.", "not=a": "not", "not.verified=no": "not.verified",
		"not.suspicious=true": "not.suspicious", "not.created_from=2026-02-20T10:30:00Z": "not.created_from", "not.origin_offset=-1": "not.origin_offset",
		"not.key=%00": "not.key", "not.key=%ff": "not.key", "not.key=%c3&not.key=%a9": "not.key", "not.class=" + strings.Repeat("a", 1001): "not.class", "not.class=a&page=2": "page",
		"not.class=a" + strings.Repeat("&not.class=a", 10): "not", "not.key=a" + strings.Repeat("&not.class=b", 10): "not",
		"not.headers.a=b": "not.headers.a", "not.header.%ff=a": "not.header.\ufffd", "not.payload.%00=a": "not.payload.\u2400",
	} {
		_, fields := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, query)
	}
	for not, field := range map[string]string{
		`null`: "not", `[]`: "not", `{}`: "not", `"a"`: "not", `{"key":""}`: "not.key", `{"key":[]}`: "not.key", `{"key":["a",""]}`: "not.key",
		`{"key":null}`: "not.key", `{"key":[["a"]]}`: "not.key", `{"key":{"a":"b"}}`: "not.key", `{"key":"\ud800"}`: "not.key", `{"key":"\u0000"}`: "not.key",
		`{"class":7}`: "not.class", `{"group":"` + dlq.ID{}.String() + `"}`: "not.group", `{"headers":{}}`: "not.headers", `{"headers":[]}`: "not.headers",
		`{"headers":{"a":""}}`: "not.headers.a", `{"headers":{"a":["b"]}}`: "not.headers.a", `{"headers":"a"}`: "not.headers", `{"payload":{"":"a"}}`: "not.payload",
		`{"status":"DEAD"}`: "not.status", `{"ids":["` + someID + `"]}`: "not.ids", `{"topic":"a"}`: "not.topic", `{"not":{"key":"a"}}`: "not.not",
		`{"Key":"a"}`: "not.Key", `{"key":"a","key":"b"}`: "not.key", `{"error":["1","2","3","4","5","6"],"key":["1","2","3","4","5"]}`: "not",
		`{"error":"` + strings.Repeat("a", 1<<20-200) + `"}`: "not.error",
	} {
		for _, kind := range []string{"retry", "delete"} {
			body := `{"kind":"` + kind + `","topic":"orders.dlq.v1","not":` + not + "}"
			_, fields := requireError(t, w.json(http.MethodPost, jobsPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Equal(t, []string{field}, fields, not[:min(len(not), 100)])
		}
	}
	require.Zero(t, w.retries.starts())
}

func TestAJobIsShownWithItsNegations(t *testing.T) {
	t.Parallel()
	w := start(t)
	const not = `"not":{"key":["b","a","b"],"headers":[{"tenant":"secret-1","region":"eu"},{"tenant":"secret-2"}],"class":"Late"}`
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1",`+not+`}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, map[string]any{"key": []any{"a", "b"}, "class": []any{"Late"}, "headers": []any{
		map[string]any{"region": "eu"}, map[string]any{"tenant": "secret-1"}, map[string]any{"tenant": "secret-2"}}}, got.field(t, "filters", "not"))
	shown := w.json(http.MethodGet, jobsPath+"/"+got.field(t, "id").(string), "")
	require.Equal(t, got.field(t, "filters"), shown.field(t, "filters"))

	got = w.json(http.MethodPost, jobsPath, `{"kind":"dead","topic":"orders.v1",`+not+`}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Len(t, got.field(t, "filters", "not"), 3)
	audit := w.call(http.MethodGet, auditPath).body
	require.Contains(t, audit, `"not":[`)
	require.Contains(t, audit, `"tenant":""`)
	require.NotContains(t, audit, "secret-")
}

// The original topic of the job also has messages of other dead-letter topics.
func TestOnlyWhoSeesAJobSeesItsNegations(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1","not":{"key":"hidden-key"}}`, bearer("admin"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	path := jobsPath + "/" + got.field(t, "id").(string)
	require.Contains(t, w.call(http.MethodGet, path, bearer("admin")).body, "hidden-key")
	hidden := w.call(http.MethodGet, path, bearer("admin/stock.*"))
	require.Equal(t, http.StatusNotFound, hidden.status)
	for _, path := range []string{path, jobsPath, auditPath} {
		require.NotContains(t, w.call(http.MethodGet, path, bearer("admin/stock.*")).body, "hidden-key")
	}
}
