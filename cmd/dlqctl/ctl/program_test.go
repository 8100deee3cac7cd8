package ctl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/dlqctl/ctl"
)

// run is one run of dlqctl with its environment.
type run struct {
	env        map[string]string
	stdin      string
	interrupts chan os.Signal
	wait       func(out *output) // runs at the same time as the program
}

// output collects the output of a run.
type output struct {
	mutex sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.bytes.String()
}

type result struct {
	code     int
	out, err string
}

// dlqctl runs the program. Its file of contexts is in a temporary folder of the test.
func (r run) dlqctl(t *testing.T, args ...string) result {
	t.Helper()
	if r.env == nil {
		r.env = map[string]string{}
	}
	if r.env["DLQCTL_CONFIG"] == "" {
		r.env["DLQCTL_CONFIG"] = filepath.Join(t.TempDir(), "config.yaml")
	}
	var out, failed output
	program := ctl.Program{
		Stdin: strings.NewReader(r.stdin), Stdout: &out, Stderr: &failed, Version: "test",
		Getenv: func(name string) string { return r.env[name] }, Interrupts: r.interrupts,
	}
	var beside sync.WaitGroup
	if r.wait != nil {
		beside.Go(func() { r.wait(&out) })
	}
	code := program.Run(t.Context(), args)
	beside.Wait()
	return result{code, out.String(), failed.String()}
}

// server calls the handler for the method and the path of a request.
func server(t *testing.T, handlers map[string]http.HandlerFunc) run {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, ok := handlers[r.Method+" "+r.URL.Path]
		if !ok {
			fail(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "there is no "+r.Method+" "+r.URL.Path)(w, r)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return run{env: map[string]string{"DLQ_URL": s.URL}}
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func fail(status int, code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error": {"code": %q, "message": %q, "request_id": "req_1", "details": []}}`, code, message)
	}
}

const (
	jobID  = "01a214f0-f92f-7000-a46f-36ccec5081f3"
	page   = `{"topics": [{"dlq_topic": "orders.dlq.v1", "counts": {"PENDING": 9007199254740993}}]}`
	noMore = `"pagination": {"page_size": 200, "has_next": false, "next_cursor": null}`
)

func job(state string, more string) string {
	return fmt.Sprintf(`{"id": %q, "kind": "retry", "topic": "orders.dlq.v1", "state": %q, "matched": 10, "retried": 5, "progress": 0.5, "reason": null%s}`, jobID, state, more)
}

func TestTheExitCodeTellsScriptsHowACommandEnded(t *testing.T) {
	t.Parallel()
	plan := fmt.Sprintf(`{"id": %q, "kind": "retry", "topic": "orders.dlq.v1", "matched": 10}`, jobID)
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq":                    answer(page),
		"GET /api/v1/groups":                 fail(http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token has expired"),
		"GET /api/v1/retries":                fail(http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "from is no time"),
		"GET /api/v1/audit":                  fail(http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "you may not"),
		"GET /api/v1/plans/" + jobID:         answer(plan),
		"POST /api/v1/jobs":                  fail(http.StatusConflict, "SYS_DLQ_PLAN_CHANGED", "the plan has changed"),
		"GET /api/v1/jobs/failed":            answer(job("FAILED", "")),
		"GET /api/v1/jobs/cancelled":         answer(job("CANCELLED", "")),
		"GET /api/v1/jobs/done":              answer(job("COMPLETED", `, "failed": 0`)),
		"GET /api/v1/jobs/partly":            answer(job("COMPLETED", `, "failed": 1`)),
		"GET /api/v1/jobs/back":              answer(job("COMPLETED", `, "came_back": 1`)),
		"GET /api/v1/dlq/messages/slow":      func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"POST /api/v1/dlq/messages/no/retry": answer(`{"id": "no", "status": "PENDING", "published": false, "error": "no leader"}`),
		"POST /api/v1/dlq/messages/ok/retry": answer(`{"id": "ok", "status": "RESOLVED", "published": true}`),
	})
	for _, c := range []struct {
		code int
		args string
		says string
	}{
		{0, "topics list", ""},
		{0, "jobs watch done", ""},
		{0, "messages retry ok", ""},
		{0, "--help", ""},
		{1, "jobs get unknown", "there is no GET /api/v1/jobs/unknown"},
		{1, "audit list", "you may not"},
		{1, "jobs watch failed", "the job has failed"},
		{1, "jobs watch cancelled", "the job was cancelled"},
		{2, "topics lits", "did you mean list?"},
		{2, "topcs", "unknown command"},
		{2, "topics list --colour", "unknown flag"},
		{2, "topics list -o yaml", "--output is one of table, wide, json"},
		{2, "topics list --timeout -5s", "--timeout is 0"},
		{2, "topics list --fields nam", `topics have no field "nam"`},
		{2, "topics list --jq .[", "--jq"},
		{2, "retries list --from yesterday", "from is no time"},
		{2, "delete orders.dlq.v1 --status DEAD --yes", "--all"},
		{2, "jobs get", "ID is missing"},
		{2, "jobs get a b", `"b" is one argument too many`},
		{2, "jobs rate " + jobID + " fast", "messages a second"},
		{2, "retry orders.dlq.v1", "--all"},
		{2, "retry orders.dlq.v1 --all --group g", "goes with no filter but --status"},
		{2, "retry orders.dlq.v1 --header x", "NAME=VALUE"},
		{2, "plan resend orders.dlq.v1", "no kind of job"},
		{2, "plan retry orders.dlq.v1 --ramp-wait 5s", "need --ramp"},
		{2, "apply " + jobID, "add --yes"},
		{2, "groups hold g", "say until when"},
		{2, "messages send orders.dlq.v1", "there are no messages"},
		{3, "jobs watch partly", "1 failed"},
		{3, "jobs watch back", "1 came back"},
		{3, "messages retry no", ""},
		{4, "groups list", "Sign in"},
		{5, "apply --yes " + jobID, "Make a new plan"},
		{124, "messages get slow --timeout 50ms", "the time of --timeout is over"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			ran := run{env: map[string]string{"DLQ_URL": s.env["DLQ_URL"]}}.dlqctl(t, strings.Fields(c.args)...)
			require.Equal(t, c.code, ran.code, "%s%s", ran.out, ran.err)
			require.Contains(t, ran.err, c.says)
		})
	}
}

func TestWithoutAServerTheErrorSaysHowToChooseOne(t *testing.T) {
	t.Parallel()
	ran := run{}.dlqctl(t, "topics", "list")
	require.Equal(t, 2, ran.code)
	require.Contains(t, ran.err, "dlqctl contexts set NAME --server")
}

func TestJSONIsTheServersAnswerByteForByte(t *testing.T) {
	t.Parallel()
	odd := "{\"topics\" : [ {\"dlq_topic\":\"<\\u003c\u009b\u202e\", \"n\":1.0, \"counts\":{\"PENDING\":9007199254740993}} ],\n\t\"new\":1e3}"
	query := ""
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		answer(odd)(w, r)
	}})
	require.Empty(t, query)
	require.Equal(t, odd+"\n", s.dlqctl(t, "topics", "list", "-o", "json").out)
}

func TestNumbersBeyondAFloatStayExact(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": answer(page)})
	for _, args := range []string{"-o table", "-o csv", "-o jsonl", "--jq .topics[0].counts.PENDING", "-o jsonl --fields counts.PENDING", "-o jsonl --jq .counts.PENDING"} {
		require.Contains(t, s.dlqctl(t, append([]string{"topics", "list"}, strings.Fields(args)...)...).out, "9007199254740993", args)
	}
}

func TestEachFormatShowsTheRecords(t *testing.T) {
	t.Parallel()
	list := `{"messages": [{"id": "m1", "status": "DEAD", "created_at": "2026-01-31T08:00:00.000+00:00", "retry_count": 3, "error_message": "=HYPERLINK(\"x\")\u001b[31m", "payload": {"a": [1, "b"]}}], ` + noMore + `}`
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq/orders.dlq.v1": answer(list)})
	show := func(args ...string) string {
		ran := s.dlqctl(t, append([]string{"messages", "list", "orders.dlq.v1"}, args...)...)
		require.Zero(t, ran.code, ran.err)
		return ran.out
	}
	require.Regexp(t, `^ID\s+STATUS\s+CREATED\s+RETRIES\s+ERROR\nm1\s+DEAD\s+2026-\S+\s+3\s+=HYPERLINK\("x"\)\\u001b\[31m\n$`, show())
	require.Contains(t, show("-o", "wide"), `{"a":[1,"b"]}`)
	require.Equal(t, "messages/m1\n", show("-o", "name"))
	require.Equal(t, "id,error_message\nm1,\"'=HYPERLINK(\"\"x\"\")\x1b[31m\"\n", show("-o", "csv", "--fields", "id,error_message"))
	require.JSONEq(t, `{"id": "m1", "payload.a.0": 1}`, show("-o", "jsonl", "--fields", "id,payload.a.0"))
	require.Equal(t, "m1 DEAD\n", show("-o", "jsonl", "--jq", `.id + " " + .status`))
}

func TestAListReadsPageAfterPage(t *testing.T) {
	t.Parallel()
	var sizes []string
	var mutex sync.Mutex
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs": func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		sizes = append(sizes, r.URL.Query().Get("page_size"))
		mutex.Unlock()
		next := `"` + r.URL.Query().Get("cursor") + `x"`
		if next == `"xxx"` {
			next = "null"
		}
		answer(fmt.Sprintf(`{"jobs": [{"id": "j%s"}], "pagination": {"page_size": 1, "has_next": true, "next_cursor": %s}}`, r.URL.Query().Get("cursor"), next))(w, r)
	}})
	ran := s.dlqctl(t, "jobs", "list", "-o", "name", "--limit", "0")
	require.Equal(t, "jobs/j\njobs/jx\njobs/jxx\n", ran.out)
	require.Empty(t, ran.err)
	ran = s.dlqctl(t, "jobs", "list", "-o", "name", "--limit", "2")
	require.Equal(t, "jobs/j\njobs/jx\n", ran.out)
	require.Equal(t, []string{"200", "200", "200", "2", "1"}, sizes)
	require.Contains(t, s.dlqctl(t, "jobs", "list", "--limit", "2").err, "--limit 0 shows all")
}

func TestPagesBeforeAnErrorAreWritten(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			fail(http.StatusInternalServerError, "SYS_DLQ_INTERNAL_ERROR", "a row is damaged")(w, r)
			return
		}
		answer(`{"jobs": [{"id": "j1"}], "pagination": {"page_size": 1, "has_next": true, "next_cursor": "x"}}`)(w, r)
	}})
	ran := s.dlqctl(t, "jobs", "list", "--limit", "0", "-o", "csv", "--fields", "id")
	require.Equal(t, 1, ran.code)
	require.Equal(t, "id\nj1\n", ran.out)
	require.Contains(t, ran.err, "a row is damaged")
}

func TestAnEmptyListSaysSo(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs": answer(`{"jobs": [], ` + noMore + `}`)})
	require.Contains(t, s.dlqctl(t, "jobs", "list").err, "There are no jobs that match")
	require.Empty(t, s.dlqctl(t, "jobs", "list", "-o", "csv").err)
}

func TestARecordIsShownWithItsPageOfTheConsole(t *testing.T) {
	t.Parallel()
	body := `{"id": "j1", "state": "RUNNING"}`
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/j1": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<https://dlq.test/jobs/j1>; rel="alternate"; type="text/html"`)
		answer(body)(w, r)
	}})
	require.Equal(t, "id     j1\nstate  RUNNING\npage   https://dlq.test/jobs/j1\n", s.dlqctl(t, "jobs", "get", "j1").out)
	require.Equal(t, body+"\n", s.dlqctl(t, "jobs", "get", "j1", "-o", "json").out)
	require.NotContains(t, s.dlqctl(t, "jobs", "get", "j1", "--fields", "id,state").out, "page")
}

func TestARecordIsShownFieldByField(t *testing.T) {
	t.Parallel()
	message := `{"id": "m1", "status": "DEAD", "stack_trace": "at a\n\tat b\u0007", "origin": {"topic": "orders.v1", "partition": 3}, "payload": {"n": 1.50, "deep": {"x": null}}, "attempts": [{"number": 1}, {"number": 2}],
		"headers": [{"key": "h", "text": "a\nb", "value": "YQpi"}, {"key": "raw", "text": null, "value": "/w=="}], "target": null, "value": {"base64": "e30="}}`
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq/messages/m1": answer(message)})
	out := s.dlqctl(t, "messages", "get", "messages/m1").out
	require.Equal(t, `id                m1
origin.partition  3
origin.topic      orders.v1
status            DEAD
attempts
    {"number":1}
    {"number":2}
headers
    h: a\nb
    raw: base64 /w==
payload
    {
      "deep": {
        "x": null
      },
      "n": 1.50
    }
stack_trace
    at a
    	at b\u0007
`, out)
}

func TestFiltersReachListsAsParametersAndPlansAsFields(t *testing.T) {
	t.Parallel()
	var query string
	var planned map[string]any
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/orders.dlq.v1": func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.Query().Encode()
			answer(`{"messages": [], `+noMore+`}`)(w, r)
		},
		"POST /api/v1/plans": func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewDecoder(r.Body).Decode(&planned)
			answer(`{"id": "p", "kind": "retry", "topic": "t", "matched": 0}`)(w, r)
		},
	})
	filters := []string{
		"--error", "time out", "--status", "PENDING,DEAD", "--consumer-group", "billing", "--origin-partition", "0", "--suspicious=false",
		"--header", "tenant=acme=x", "--payload", "lines.0.sku=A7", "--not", "key=42", "--not", "consumer-group=c", "--not", "header.X-Y=z", "--not", "origin_offset=7",
	}
	ran := s.dlqctl(t, append([]string{"messages", "list", "orders.dlq.v1"}, filters...)...)
	require.Zero(t, ran.code, ran.err)
	require.Equal(t, "consumer_group=billing&error=time+out&header.tenant=acme%3Dx&not.consumer_group=c&not.header.X-Y=z&not.key=42&not.origin_offset=7"+
		"&origin_partition=0&page_size=50&payload.lines.0.sku=A7&status=PENDING%2CDEAD&suspicious=false", query)

	ran = s.dlqctl(t, append([]string{
		"plan", "retry", "orders.dlq.v1", "-o", "json", "--id", "a,b", "--rate", "50", "--ramp", "1,10", "--ramp-wait", "5s", "--ramp-confirm", "verified", "--target-topic", "t", "--reason", "why",
	}, filters...)...)
	require.Zero(t, ran.code, ran.err)
	require.Equal(t, map[string]any{
		"kind": "retry", "topic": "orders.dlq.v1", "error": "time out", "status": []any{"PENDING", "DEAD"}, "consumer_group": "billing", "origin_partition": 0.0,
		"suspicious": false, "headers": map[string]any{"tenant": "acme=x"}, "payload": map[string]any{"lines.0.sku": "A7"}, "ids": []any{"a", "b"},
		"not": map[string]any{
			"key": []any{"42"}, "consumer_group": []any{"c"}, "headers": []any{map[string]any{"X-Y": "z"}}, "origin_offset": []any{7.0},
		},
		"rate_limit": 50.0, "ramp": map[string]any{"steps": []any{1.0, 10.0}, "wait": "5s", "confirm": "verified"}, "target_topic": "t", "reason": "why",
	}, planned)
}

func TestAProxysPageIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>\x1b]0;sign in</html>")
	}})
	ran := s.dlqctl(t, "topics", "list")
	require.Equal(t, 1, ran.code)
	require.Contains(t, ran.err, "a proxy or another program may be in between")
	require.NotContains(t, ran.out+ran.err, "\x1b")
}

func TestFollowingWritesTheJobAsItChanges(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: func(w http.ResponseWriter, r *http.Request) {
		look := looks.Add(1)
		if look == 2 {
			panic(http.ErrAbortHandler) // the API is away for this request
		}
		answer(job(map[bool]string{true: "COMPLETED", false: "RUNNING"}[look > 2], `, "x": "<"`))(w, r)
	}})
	ran := s.dlqctl(t, "jobs", "watch", jobID)
	require.Zero(t, ran.code, ran.err)
	lines := strings.Split(strings.TrimSpace(ran.out), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, job("COMPLETED", `, "x": "<"`), lines[1])
}

func TestCtrlCLeavesAJobRunningWhenNobodyCanBeAsked(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: answer(job("RUNNING", ""))})
	s.interrupts = make(chan os.Signal)
	s.wait = func(out *output) {
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "RUNNING") }, wait, tick)
		s.interrupts <- os.Interrupt
	}
	ran := s.dlqctl(t, "jobs", "watch", jobID)
	require.Equal(t, 130, ran.code)
	require.Contains(t, ran.err, "the job goes on; watch it with: dlqctl jobs watch "+jobID)
}

func TestAChangeOfManyAsksFirst(t *testing.T) {
	t.Parallel()
	var started bool
	s := server(t, map[string]http.HandlerFunc{
		"POST /api/v1/plans": answer(fmt.Sprintf(`{"id": %q, "kind": "delete", "topic": "orders.dlq.v1", "matched": 12431, "by_group": [{"id": null, "title": "in\u001b no group", "count": 12431}]}`, jobID)),
		"POST /api/v1/jobs": func(w http.ResponseWriter, r *http.Request) {
			started = true
			answer(job("RUNNING", ""))(w, r)
		},
	})
	ran := s.dlqctl(t, "delete", "orders.dlq.v1", "--all")
	require.Equal(t, 2, ran.code)
	require.Contains(t, ran.err, "Delete 12,431 messages of orders.dlq.v1?")
	require.Contains(t, ran.err, `in\u001b no group`)
	require.False(t, started)
	ran = s.dlqctl(t, "delete", "orders.dlq.v1", "--all", "--yes", "-o", "name")
	require.Zero(t, ran.code, ran.err)
	require.Equal(t, "jobs/"+jobID+"\n", ran.out)
	require.True(t, started)
}

func TestSentMessagesGoInBatchesWithAKey(t *testing.T) {
	t.Parallel()
	keys := map[string]int{}
	s := server(t, map[string]http.HandlerFunc{"POST /api/v1/dlq/orders.dlq.v1/messages": func(w http.ResponseWriter, r *http.Request) {
		var sent struct{ Messages []json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&sent)
		keys[r.Header.Get("Idempotency-Key")] = len(sent.Messages)
		answer(`{"messages": [{"id": "m"}]}`)(w, r)
	}})
	s.stdin = strings.Repeat("{\"value\": 1.0}\n", 150)
	ran := s.dlqctl(t, "messages", "send", "orders.dlq.v1")
	require.Zero(t, ran.code, ran.err)
	require.Len(t, keys, 2)
	require.NotContains(t, keys, "")
	clear(keys)
	s.stdin = strings.Repeat("{\"value\": \""+strings.Repeat("x", 300_000)+"\"}\n", 3)
	require.Zero(t, s.dlqctl(t, "messages", "send", "orders.dlq.v1").code)
	require.Len(t, keys, 3, "a request is small")
	clear(keys)
	s.stdin = strings.Repeat("{\"value\": 1.0}\n", 120) + "{"
	ran = s.dlqctl(t, "messages", "send", "orders.dlq.v1", "--skip", "10")
	require.Equal(t, 2, ran.code)
	require.Contains(t, ran.err, "110 messages were handed in, continue with --skip 110: message 121: unexpected EOF")
	s.stdin = "{\"value\": 1}\n[]"
	require.Contains(t, s.dlqctl(t, "messages", "send", "orders.dlq.v1").err, "message 2 is no JSON object")
}

func TestADurationCountsFromTheServersClock(t *testing.T) {
	t.Parallel()
	var change string
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/me": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", "Sat, 31 Jan 2026 08:00:00 GMT")
			answer(`{"subject": "alice"}`)(w, r)
		},
		"PATCH /api/v1/groups/g": func(w http.ResponseWriter, r *http.Request) {
			content, _ := io.ReadAll(r.Body)
			change = string(content)
			answer(`{"id": "g", "state": "held"}`)(w, r)
		},
	})
	ran := s.dlqctl(t, "groups", "hold", "g", "--until", "90m", "--note", "")
	require.Zero(t, ran.code, ran.err)
	require.JSONEq(t, `{"state": "held", "note": "", "until": {"at": "2026-01-31T09:30:00Z"}}`, change)
	require.Contains(t, s.dlqctl(t, "groups", "hold", "g", "--until", "tomorrow").err, "write it as 2026-01-31T08:00:00Z")
}

func TestCompletionAsksTheServer(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq":    answer(page),
		"GET /api/v1/groups": answer(`{"groups": [{"id": "g1", "title": "a\u001bb"}], ` + noMore + `}`),
		"GET /api/v1/jobs":   answer(`{"jobs": [` + job("RUNNING", "") + `], ` + noMore + `}`),
	})
	complete := func(args ...string) string { return s.dlqctl(t, append([]string{"__complete"}, args...)...).out }
	require.Contains(t, complete("messages", "list", "ord"), "orders.dlq.v1\t9007199254740993 PENDING\n")
	require.NotContains(t, complete("messages", "list", "x"), "orders")
	require.Contains(t, complete("groups", "get", ""), "g1\ta\\u001bb\n")
	require.Contains(t, complete("jobs", "pause", ""), jobID+"\tretry orders.dlq.v1 RUNNING\n")
	require.Contains(t, complete("topics", "list", "-o", "js"), "jsonl\n")
	require.Contains(t, complete("plan", "re"), "revive\n")
	require.Equal(t, 0, run{}.dlqctl(t, "__complete", "messages", "list", "").code, "without a server")
}
