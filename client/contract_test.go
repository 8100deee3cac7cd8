package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/client"
)

// media is a body of the contract with its examples.
type media struct {
	Example  any
	Examples map[string]struct{ Value any }
}

func (m media) all() (all []any) {
	if m.Example != nil {
		all = append(all, m.Example)
	}
	for _, example := range m.Examples {
		all = append(all, example.Value)
	}
	return all
}

type operation struct {
	OperationID string `yaml:"operationId"` //nolint:tagliatelle // the name is OpenAPI's
	RequestBody struct{ Content map[string]media }
	Responses   map[string]struct{ Content map[string]media }
}

// operations returns the operations of the contract that answer with its JSON.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	content, err := os.ReadFile("../api/openapi.yaml")
	require.NoError(t, err)
	var contract struct {
		Paths map[string]map[string]operation
	}
	require.NoError(t, yaml.Unmarshal(content, &contract))
	for _, methods := range contract.Paths {
		for _, o := range methods {
			if !slices.Contains([]string{"docs", "openapi", "metrics", "profile"}, o.OperationID) {
				all = append(all, o)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// call calls the method of an operation with a body, and returns the value of the answer.
func call(t *testing.T, c *client.Client, o operation, body any) (any, error) {
	t.Helper()
	method := reflect.ValueOf(c).MethodByName(strings.ToUpper(o.OperationID[:1]) + o.OperationID[1:])
	require.True(t, method.IsValid(), "%s has no method; run make client", o.OperationID)
	arguments := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < method.Type().NumIn()-1; i++ {
		kind := method.Type().In(i)
		argument := reflect.New(kind)
		switch {
		case kind.Kind() == reflect.String:
			argument.Elem().SetString("0199c0de-7000-7000-8000-000000000002")
		case body != nil && i == method.Type().NumIn()-2:
			require.NoError(t, json.Unmarshal(encode(t, body), argument.Interface()))
		}
		arguments = append(arguments, argument.Elem())
	}
	results := method.Call(arguments)
	err, _ := results[1].Interface().(error)
	if err != nil {
		return nil, err
	}
	return results[0].Elem().FieldByName("Value").Interface(), nil
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	require.NoError(t, err)
	return content
}

// normal decodes JSON, and writes times alike.
func normal(t *testing.T, content []byte) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(content, &value))
	var walk func(any) any
	walk = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			for name := range v {
				v[name] = walk(v[name])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC().String()
			}
		}
		return value
	}
	return walk(value)
}

// serve is a server that answers everything with handler.
func serve(t *testing.T, config client.Config, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, config)
	require.NoError(t, err)
	return c
}

func answer(w http.ResponseWriter, status int, content string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, content)
}

func TestEveryExampleAnswerSurvivesItsTypes(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, o := range operations(t) {
		for status, response := range o.Responses {
			code, err := strconv.Atoi(status)
			if err != nil || code >= 300 {
				continue
			}
			for _, example := range response.Content["application/json"].all() {
				content := encode(t, example)
				c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { answer(w, code, string(content)) })
				value, err := call(t, c, o, nil)
				require.NoError(t, err, o.OperationID)
				require.Equal(t, normal(t, content), normal(t, encode(t, value)), "%s %s", o.OperationID, status)
				union, ok := value.(interface{ ValueByDiscriminator() (any, error) })
				if !ok {
					continue
				}
				member, err := union.ValueByDiscriminator()
				require.NoError(t, err, o.OperationID)
				require.Equal(t, normal(t, content), normal(t, encode(t, member)), "%s %s as %T", o.OperationID, status, member)
				seen[reflect.TypeOf(member).Name()]++
			}
		}
	}
	require.NotEmpty(t, seen["RetryJob"])
	require.NotEmpty(t, seen["RetryPlan"])
}

func TestEveryExampleRequestSurvivesItsTypes(t *testing.T) {
	t.Parallel()
	for _, o := range operations(t) {
		for _, example := range o.RequestBody.Content["application/json"].all() {
			content := encode(t, example)
			var got []byte
			c := serve(t, client.Config{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
				got, _ = io.ReadAll(r.Body)
				answer(w, http.StatusConflict, `{}`)
			})
			_, err := call(t, c, o, example)
			require.Error(t, err)
			require.Equal(t, normal(t, content), normal(t, got), o.OperationID)
		}
	}
}

func TestUnionsFindTheTypeOfEachKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"revive", "dead", "delete", "restore"} {
		var plan client.Plan
		require.NoError(t, json.Unmarshal([]byte(`{"kind": "`+kind+`", "matched": 9007199254740993}`), &plan))
		value, err := plan.ValueByDiscriminator()
		require.NoError(t, err)
		require.Equal(t, client.ChangePlan{Kind: client.ChangeKind(kind), Matched: 9007199254740993}, value)

		var job client.Job
		require.NoError(t, json.Unmarshal([]byte(`{"kind": "`+kind+`", "state": "COMPLETED", "changed": 3}`), &job))
		summary, err := job.Summary()
		require.NoError(t, err)
		require.True(t, summary.Ended())
		change, err := job.AsChangeJob()
		require.NoError(t, err)
		require.EqualValues(t, 3, change.Changed)
	}
	var plan client.Plan
	require.NoError(t, json.Unmarshal([]byte(`{"kind": "invented"}`), &plan))
	_, err := plan.ValueByDiscriminator()
	require.ErrorContains(t, err, "invented")
}

func TestAnAnswerOfANewerServerIsRead(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"messages": [{"status": "INVENTED", "payload": {"n": 9007199254740993}, "invented": 1}], "pagination": {}}`)
	})
	page, err := c.ListMessages(t.Context(), "orders.dlq.v1", nil)
	require.NoError(t, err)
	require.Equal(t, client.Status("INVENTED"), page.Value.Messages[0].Status)
	require.JSONEq(t, `{"n": 9007199254740993}`, string(page.Value.Messages[0].Payload))
	require.Contains(t, string(page.Value.Messages[0].Payload), "9007199254740993")
}

func TestRequestsSayWhatTheContractNames(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	c := serve(t, client.Config{UserAgent: "ops/1"}, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		answer(w, http.StatusOK, `{}`)
	})
	_, err := c.ListMessages(t.Context(), "a b", &client.ListMessagesParams{
		Status: &[]client.Status{client.StatusPENDING, client.StatusDEAD}, NotError: &[]string{"a,b", "c"}, Key: new(""),
		CreatedFrom: new(time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)), PageSize: new(int64(5)), Suspicious: new(false),
	}, client.Query("header.tenant", "acme"))
	require.NoError(t, err)
	require.Equal(t, "/api/v1/dlq/a%20b", got.URL.EscapedPath())
	require.Equal(t, map[string][]string{
		"status": {"PENDING,DEAD"}, "not.error": {"a,b", "c"}, "key": {""}, "created_from": {"2026-02-20T00:00:00Z"},
		"page_size": {"5"}, "suspicious": {"false"}, "header.tenant": {"acme"},
	}, map[string][]string(got.URL.Query()))
	require.Equal(t, "ops/1", got.UserAgent())
	require.Empty(t, got.Header.Get("Content-Type"))

	_, err = c.RetryMessage(t.Context(), "id", nil, &client.RetryRequest{Key: &client.OrNull[string]{}, Value: json.RawMessage("null")})
	require.NoError(t, err)
	require.JSONEq(t, `{"key": null, "value": null}`, string(body))

	status := client.StatusFilter{client.StatusDEAD}
	var start client.JobStart
	require.NoError(t, start.FromRetryJobRequest(client.RetryJobRequest{
		Kind: client.RetryJobRequestKindRetry, Topic: "t", Status: &status, Not: &client.Negations{OriginOffset: client.Values[int64]{7}},
	}))
	_, err = c.CreateJob(t.Context(), nil, start)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind": "retry", "topic": "t", "status": ["DEAD"], "not": {"origin_offset": [7]}}`, string(body))

	var one client.StatusFilter
	require.NoError(t, json.Unmarshal([]byte(`"DEAD"`), &one))
	require.Equal(t, status, one)
}
