package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestCreateBulkRetryNamesEveryBadFieldAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"a/b","status":["PENDING","pending","PENDING"],"error":"","key":7,"created_from":"yesterday",
		"created_to":null,"ids":["x","`+someID+`","`+strings.ToUpper(someID)+`"],"rate_limit":-1,"order":"random","reason":[],
		"ratelimit":5,"ramp":{"steps":[0,"1",1.5],"wait":"1d","max_came_back":2,"surprise":1},"topic":"b.dlq"}`)
	message, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{
		"ratelimit", "topic", "status[1]", "status[2]", "error", "key", "created_from", "created_to", "ids[0]", "ids[2]",
		"reason", "rate_limit", "order", "ramp.surprise", "ramp.steps[0]", "ramp.steps[1]", "ramp.steps[2]", "ramp.wait", "ramp.max_came_back",
	}, fields)
	require.True(t, strings.HasPrefix(message, "invalid request body: ratelimit, topic, "), message)
	require.Zero(t, w.retries.starts())
}

func TestCreateBulkRetryRefusesInvalidFields(t *testing.T) {
	t.Parallel()
	w := start(t)
	many := func(n int) string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = `"` + dlq.NewID().String() + `"`
		}
		return "[" + strings.Join(ids, ",") + "]"
	}
	for field, values := range map[string][]string{
		"topic":         {`""`, `"."`, `"a b"`, `"é"`, `null`, `7`, `["a.dlq"]`, `"` + strings.Repeat("a", 250) + `"`},
		"status":        {`""`, `"pending"`, `null`, `[]`, `{}`, `["DEAD","DEAD","DEAD","DEAD","DEAD"]`},
		"error":         {`""`, `null`, `1`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, `"` + strings.Repeat("é", 1001) + `"`},
		"key":           {`null`, `1`, `{}`, `"\u0000"`, `"` + strings.Repeat("a", 4097) + `"`},
		"created_from":  {`null`, `""`, `"2026-02-20"`, `"2026-02-20T10:30:00"`, `1771583400`, `"9999-12-31T23:00:00-02:00"`, `"0001-01-01T00:00:00+01:00"`},
		"created_to":    {`"2026-02-30T00:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`},
		"ids":           {`null`, `[]`, `"` + someID + `"`, `{"0":"` + someID + `"}`, many(dlq.MaxFilterIDs + 1)},
		"ids[1]":        {`["` + someID + `",null]`, `["` + someID + `","` + someID + `"]`, `["` + someID + `","{` + someID + `}"]`},
		"rate_limit":    {`-1`, `1000001`, `1.5`, `"5"`, `null`, `99999999999999999999`, `true`},
		"order":         {`"KEY"`, `""`, `null`, `1`},
		"ramp":          {`null`, `[]`, `[1,10]`, `"1"`, `true`},
		"ramp.steps":    {`{}`, `{"wait":"30s"}`, `{"steps":[]}`, `{"steps":null}`, `{"steps":5}`, `{"steps":[1,1,1,1,1,1,1,1,1,1,1]}`, `{"steps":[1],"steps":[2]}`},
		"ramp.steps[0]": {`{"steps":[0]}`, `{"steps":[-1]}`, `{"steps":[1.5]}`, `{"steps":[1e-1]}`, `{"steps":["1"]}`, `{"steps":[null]}`, `{"steps":[1000000001]}`},
		"ramp.wait": {`{"steps":[1],"wait":30}`, `{"steps":[1],"wait":""}`, `{"steps":[1],"wait":"999ms"}`, `{"steps":[1],"wait":"24h1s"}`,
			`{"steps":[1],"wait":"-30s"}`, `{"steps":[1],"wait":"30"}`, `{"steps":[1],"wait":null}`},
		"ramp.max_came_back": {`{"steps":[1],"max_came_back":-0.1}`, `{"steps":[1],"max_came_back":1.01}`, `{"steps":[1],"max_came_back":"0.1"}`,
			`{"steps":[1],"max_came_back":1e999}`, `{"steps":[1],"max_came_back":null}`},
		"class":            {`""`, `null`, `1`, `"a\u0000b"`, `"` + strings.Repeat("a", 1001) + `"`},
		"consumer_group":   {`""`, `null`},
		"trace_id":         {`""`, `null`},
		"correlation_id":   {`""`, `null`},
		"origin_partition": {`null`, `-1`, `2147483648`, `1.5`, `"1"`},
		"origin_offset":    {`null`, `-1`, `99999999999999999999`},
		"suspicious":       {`null`, `"true"`, `1`},
		"headers":          {`null`, `{}`, `[]`, `"a"`, `{"":"a"}`, `{"a\u0000":"b"}`},
		"headers.a":        {`{"a":null}`, `{"a":1}`, `{"a":"b","a":"c"}`, `{"a":"\u0000"}`, `{"a":"` + strings.Repeat("a", 1001) + `"}`},
		"payload":          {`null`, `{}`, `[]`, `{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":""}`},
		"payload.a":        {`{"a":1}`, `{"a":{"b":"c"}}`},
		"reason":           {`null`, `1`, `"` + strings.Repeat("a", 1001) + `"`},
	} {
		name, _, _ := strings.Cut(strings.ReplaceAll(field, "[", "."), ".")
		for _, value := range values {
			body := `{"kind":"retry","topic":"orders.dlq.v1","` + name + `":` + value + `}`
			if name == "topic" {
				body = `{"kind":"retry","topic":` + value + `}`
			}
			_, fields := requireError(t, w.json(http.MethodPost, jobsPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Contains(t, fields, field, body)
			for _, one := range fields {
				require.True(t, strings.HasPrefix(one, name), "%s blames %s", body, one)
			}
		}
	}
	require.Zero(t, w.retries.starts())
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","ids":`+many(dlq.MaxFilterIDs)+`}`).status)
}

// JSON has only one kind of number, and JSON Schema counts 1.0 as an integer. Some programs write every number with a point or
// an exponent.
func TestAnIntegerOfABodyMayBeWrittenWithAPointOrAnExponent(t *testing.T) {
	t.Parallel()
	w := start(t)
	for literal, want := range map[string]int{
		"3348": 3348, "3348.0": 3348, "3348.000": 3348, "1e3": 1000, "1E+3": 1000, "0.5e1": 5, "2.50e2": 250, "5000e-3": 5, "1000000.0": 1_000_000,
		"0": 0, "0.0": 0, "-0": 0, "-0.0e5": 0, "0e99999999999999999999": 0, "1" + strings.Repeat("0", 30) + "e-30": 1,
	} {
		got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","rate_limit":`+literal+`}`)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", literal, got.body)
		require.EqualValues(t, want, got.field(t, "rate_limit"), literal)
	}
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","ramp":{"steps":[1.0,1e1,1000000000.0]}}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []any{1.0, 10.0, 1e9}, got.field(t, "ramp", "steps"))

	path, _ := w.startBulk(1)
	got = w.json(http.MethodPatch, path, `{"rate_limit":5e2}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 500, got.field(t, "rate_limit"))
}

func TestIntegersOutOfRangeAndFractionsAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, literal := range []string{
		"1.5", "15e-1", "0.1", "1e-3", "1.0000000000000000000000001", "-1", "-1.0", "-1e3", "1000001", "1000001.0", "1e7",
		"99999999999999999999", "1e18", "1e19", "1e999", "1e99999999999999999999", "1e-99999999999999999999", "1e9223372036854775807",
		"1.1e-9223372036854775808", "1e-9223372036854775808",
	} {
		got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1","rate_limit":`+literal+`}`)
		_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{"rate_limit"}, fields, literal)
		require.Contains(t, got.body, "must be an integer from 0 to 1000000", literal)
	}
	require.Zero(t, w.retries.starts())
}

func TestEveryRouteRefusesAnEmptyInterval(t *testing.T) {
	t.Parallel()
	w := start(t)
	const from = "2026-02-20T10:30:00Z"
	sent := func(path string) func(string) response {
		return func(to string) response {
			return w.json(http.MethodPost, path, `{"kind":"retry","topic":"orders.dlq.v1","created_from":"`+from+`","created_to":"`+to+`"}`)
		}
	}
	for route, ask := range map[string]func(to string) response{
		"list": func(to string) response {
			return w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?created_from="+from+"&created_to="+url.QueryEscape(to))
		},
		"creation": sent(jobsPath),
		"plan":     sent(plansPath),
	} {
		for _, to := range []string{from, "2026-02-20T12:30:00+02:00", "2026-02-20T10:29:59.999Z", "2025-02-20T10:30:00Z"} {
			got := ask(to)
			requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Equal(t, []any{map[string]any{"field": "created_to", "message": "must be later than created_from"}},
				got.field(t, "error", "details"), "%s: %s", route, to)
		}
		require.Zero(t, w.retries.starts(), route)
	}
	for route, ask := range map[string]func(to string) response{"creation": sent(jobsPath), "plan": sent(plansPath)} {
		require.Equal(t, http.StatusOK, ask("2026-02-20T10:30:00.001Z").status, route)
	}
}

func TestBodiesThatAreNotOneJSONObjectAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	for body, field := range map[string]string{
		"": "kind topic", " \n": "kind topic", "{}": "kind topic", // an empty body counts as an object without fields
		"null": "body", "[]": "body", `"a"`: "body", "1": "body", "true": "body", "{": "body", `{"topic"}`: "body", "topic=a": "body",
		`{"kind":"retry","topic":"a.dlq"}{}`: "body", `{"kind":"retry","topic":"a.dlq"} x`: "body", `{"kind":"retry","topic":"a.dlq",}`: "body", `{'topic':"a.dlq"}`: "body",
		"\ufeff" + wholeTopic: "body", "{\"topic\":\"a\xff.dlq\"}": "body", strings.Repeat("[", 20_000): "body",
		`{"kind":"retry","Topic":"a.dlq","topic":"a.dlq"}`: "Topic", `{"kind":"retry","topic":"a.dlq","topic":"a.dlq"}`: "topic", `{"kind":"retry","topic":"a.dlq","\u0074opic":"b.dlq"}`: "topic",
		`{"kind":"retry","topic":"a.dlq","":1}`: "", `{"kind":"retry","topic":"a.dlq","topic\u0000":1}`: "topic\u2400",
	} {
		_, fields := requireError(t, w.json(http.MethodPost, jobsPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, field, strings.Join(fields, " "), body)
	}
	for header, field := range map[string]string{
		"Content-Type: application/x-www-form-urlencoded": "Content-Type", "Content-Type: text/plain": "Content-Type", "X-None: 1": "Content-Type",
		"Content-Type: ;": "Content-Type",
	} {
		_, got := w.send(http.MethodPost, jobsPath, strings.NewReader(wholeTopic), header)
		_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, header)
	}
	_, fields := requireError(t, w.json(http.MethodPost, jobsPath, wholeTopic, "Content-Encoding: gzip"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{"Content-Encoding"}, fields)
	require.Zero(t, w.retries.starts())
	for _, kind := range []string{"application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"} {
		_, got := w.send(http.MethodPost, jobsPath, strings.NewReader(wholeTopic), "Content-Type: "+kind)
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
}

func TestBodiesWithManyInvalidFieldsGetOneShortAnswer(t *testing.T) {
	t.Parallel()
	w := start(t)
	var fields strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&fields, `"f%d":1,`, i)
	}
	got := w.json(http.MethodPost, jobsPath, "{"+fields.String()+`"topic":"orders.dlq.v1"}`)
	requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Less(t, len(got.body), 50_000)
}

func TestRetryAllTakesNoFilters(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for body, field := range map[string]string{`{"error":"timeout"}`: "error", `[]`: "body", `{`: "body"} {
		_, fields := requireError(t, w.json(http.MethodPost, retryAllPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields)
	}
	require.Zero(t, w.retries.starts())
	require.Equal(t, "PENDING", w.status(id))
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryAllPath, "{}").status)
}
