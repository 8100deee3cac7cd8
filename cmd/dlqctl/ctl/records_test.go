package ctl_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func TestAKeyAndAValueThatIsNoJSONAreShownAsText(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/messages/text":   answer(`{"id": "text", "key": {"base64": "b3JkZXItNw==", "size": 7}, "payload": null, "value": {"base64": "YRtb", "size": 3}}`),
		"GET /api/v1/dlq/messages/binary": answer(`{"id": "binary", "key": {"base64": "/w==", "size": 1}, "payload": {"base64": "YQ==", "size": 1}, "value": {"base64": "e30=", "size": 2}}`),
	})
	require.Equal(t, "id     text\nkey    order-7\nvalue  a\\u001b[\n", s.dlqctl(t, "messages", "get", "text").out)
	require.Equal(t, "id        binary\nkey.size  1\npayload\n    {\n      \"base64\": \"YQ==\",\n      \"size\": 1\n    }\n", s.dlqctl(t, "messages", "get", "binary").out)
	require.Equal(t, "key\norder-7\n", s.dlqctl(t, "messages", "get", "text", "-o", "csv", "--fields", "key").out)
	require.Contains(t, s.dlqctl(t, "messages", "get", "text", "-o", "jsonl", "--fields", "key").out, `"base64":"b3JkZXItNw=="`)
}

func TestSeveralMessagesAreShownOneAfterAnother(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/messages/a": answer(`{"id": "a", "status": "DEAD", "target": {"topic": "orders.v1", "partition": 0, "offset": 7}}`),
		"GET /api/v1/dlq/messages/b": answer(`{"id": "b", "status": "RESOLVED", "target": null}`),
	})
	show := func(args ...string) string {
		ran := s.dlqctl(t, append([]string{"messages", "get", "messages/a", "b"}, args...)...)
		require.Zero(t, ran.code, ran.err)
		return ran.out
	}
	require.Equal(t, "id                a\nstatus            DEAD\ntarget.offset     7\ntarget.partition  0\ntarget.topic      orders.v1\n\nid      b\nstatus  RESOLVED\n", show())
	require.Equal(t, "id  target.offset\na   7\nb\n", show("--fields", "id,target.offset"))
	require.Equal(t, "id,status\na,DEAD\nb,RESOLVED\n", show("--fields", "id,status", "-o", "csv"))
	require.Equal(t, "messages/a\nmessages/b\n", show("-o", "name"))
	require.Equal(t, "a\n", show("--jq", `select(.target.topic == "orders.v1") | .id`))

	ran := s.dlqctl(t, "messages", "get", "a", "gone", "b", "--jq", ".id")
	require.Equal(t, 1, ran.code)
	require.Equal(t, "a\nb\n", ran.out)
	require.Contains(t, ran.err, "gone: ")
}

func TestNamesAsOutputPrintsThemGoIntoFilters(t *testing.T) {
	t.Parallel()
	asked := map[string]string{}
	var planned client.RetryJobRequest
	record := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked[r.URL.Path] = r.URL.Query().Get("group") + r.URL.Query().Get("target_id")
			answer(body)(w, r)
		}
	}
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/orders.dlq.v1": record(`{"messages": [], ` + noMore + `}`),
		"GET /api/v1/audit":             record(`{"operations": [], ` + noMore + `}`),
		"POST /api/v1/plans": func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewDecoder(r.Body).Decode(&planned)
			answer(`{"id": "p", "kind": "retry", "topic": "orders.dlq.v1", "matched": 0}`)(w, r)
		},
	})
	for _, line := range []string{
		"messages list orders.dlq.v1 --group groups/g1", "audit list --target-id jobs/j1", "plan retry orders.dlq.v1 --group groups/g1 --id messages/m1,m2",
	} {
		require.Zero(t, s.dlqctl(t, strings.Fields(line)...).code, line)
	}
	require.Equal(t, map[string]string{"/api/v1/dlq/orders.dlq.v1": "g1", "/api/v1/audit": "j1"}, asked)
	require.Equal(t, "g1", *planned.Group)
	require.Equal(t, []string{"m1", "m2"}, *planned.Ids)
}

func TestAPlanShowsTheCausesWithTheirIDs(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"POST /api/v1/plans": answer(`{"id": "p", "kind": "dead", "topic": "t", "matched": 1203, "skipped": 1, "more_groups": 1100,
		"by_group": [{"id": "5f2b1c9e-7a41-8d3f-9c0e-4b6a2d8e1f70", "title": "no price", "count": 1200}, {"id": null, "title": "in no group", "count": 3}]}`)})
	out := s.dlqctl(t, "plan", "dead", "t").out
	require.Contains(t, out, `
  1 message left out

by cause
       1,200  5f2b1c9e-7a41-8d3f-9c0e-4b6a2d8e1f70  no price
           3                                        in no group
  and 1,100 more causes
`)
}

func TestAJobCountsItsVerifiedMessagesWhenAsked(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: func(w http.ResponseWriter, r *http.Request) {
		answer(job("COMPLETED", `, "verified": {"yes": `+map[bool]string{true: "7", false: "0"}[r.URL.Query().Get("verified") == "true"]+`}`))(w, r)
	}})
	require.Contains(t, s.dlqctl(t, "jobs", "get", jobID, "--verified", "--fields", "verified").out, "verified.yes  7")
}

func TestAnEmptyArgumentIsAnError(t *testing.T) {
	t.Parallel()
	s := server(t, nil)
	for _, args := range [][]string{{"jobs", "get", ""}, {"messages", "get", "a", ""}, {"messages", "list", ""}, {"jobs", "rate", jobID, ""}} {
		ran := s.dlqctl(t, args...)
		require.Equal(t, 2, ran.code, args)
		require.Contains(t, ran.err, " is empty", args)
	}
}

func TestAnEditedValueIsJSONForASchemaAndBytesOtherwise(t *testing.T) {
	t.Parallel()
	sent := map[string]map[string]any{}
	retry := func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		_ = json.NewDecoder(r.Body).Decode(&request)
		sent[r.URL.Path] = request
		answer(`{"id": "m", "status": "RESOLVED", "published": true}`)(w, r)
	}
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/messages/plain": answer(`{"id": "plain", "schema": null}`), "POST /api/v1/dlq/messages/plain/retry": retry,
		"GET /api/v1/dlq/messages/avro": answer(`{"id": "avro", "schema": {"id": 7}}`), "POST /api/v1/dlq/messages/avro/retry": retry,
	})
	s.stdin = `{"amount": 10}`
	for _, id := range []string{"plain", "avro"} {
		ran := s.dlqctl(t, "messages", "retry", id, "--value", "-")
		require.Zero(t, ran.code, ran.err)
	}
	require.Equal(t, map[string]map[string]any{
		"/api/v1/dlq/messages/plain/retry": {"value_base64": "eyJhbW91bnQiOiAxMH0="}, "/api/v1/dlq/messages/avro/retry": {"value": map[string]any{"amount": 10.0}},
	}, sent)
	s.stdin = "\x00\x00\x00\x00\x07"
	require.Zero(t, s.dlqctl(t, "messages", "retry", "avro", "--value", "-").code)
	require.Equal(t, map[string]any{"value_base64": "AAAAAAc="}, sent["/api/v1/dlq/messages/avro/retry"])
}

func TestAFixedGroupIsShownWithTheMarksOfItsTopics(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"POST /api/v1/groups/g/fixed": answer(`{"group": {"id": "g", "state": "fixed"}, "unmarked": [{"topic": "orders", "reason": "gone"}], "note": "a note"}`),
	})
	require.Equal(t, "groups/g\n", s.dlqctl(t, "groups", "fix", "g", "-o", "name").out)
	require.Equal(t, "group.state  fixed\nnote         a note\n", s.dlqctl(t, "groups", "fix", "g", "--fields", "group.state,note").out)
}

func TestAChainIsATableOfItsMessages(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq/messages/m/chain": answer(`{"id": "m", "truncated": false, "hops": [
		{"id": "m", "dlq_topic": "t", "status": "RESOLVED", "resolution": "delivered", "retry_count": 1}, {"id": "n", "dlq_topic": "t", "status": "PENDING", "retry_count": 1}]}`)})
	require.Equal(t, "ID  TOPIC  STATUS    RESOLUTION  CREATED  RETRIES\nm   t      RESOLVED  delivered            1\nn   t      PENDING                        1\n",
		s.dlqctl(t, "messages", "chain", "m").out)
	require.Equal(t, "m\nn\n", s.dlqctl(t, "messages", "chain", "m", "--jq", ".hops[].id").out)
}

func TestARetryIsFollowedUntilItHasEndedAlsoBeforeAWorkerHasClaimedTheMessage(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		state string
		code  int
	}{
		"delivered": {`"status": "RESOLVED", "retry_count": 1, "updated_at": "2026-01-31T08:00:03.000+00:00"`, 0},
		"failed":    {`"status": "PENDING", "retry_count": 1, "updated_at": "2026-01-31T08:00:03.000+00:00"`, 3},
		"cancelled": {`"status": "PENDING", "retry_count": 0, "updated_at": "2026-01-31T08:00:03.000+00:00"`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := []string{`"status": "PENDING", "retry_count": 0, "updated_at": "2026-01-31T08:00:01.000+00:00"`,
				`"status": "RETRYING", "retry_count": 1, "updated_at": "2026-01-31T08:00:02.000+00:00"`, end.state}
			s := server(t, map[string]http.HandlerFunc{
				"POST /api/v1/dlq/messages/m/retry": func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", "/api/v1/dlq/messages/m")
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusAccepted)
					answer(`{"id": "m", "workflow_id": "w", "status": "PENDING", "retry_count": 0}`)(w, r)
				},
				"GET /api/v1/dlq/messages/m": func(w http.ResponseWriter, r *http.Request) {
					answer(`{"id": "m", `+states[0]+`}`)(w, r)
					states = states[min(1, len(states)-1):]
				},
			})
			ran := s.dlqctl(t, "messages", "retry", "m")
			require.Equal(t, end.code, ran.code, ran.err)
			require.Equal(t, []string{end.state}, states, "it reads the message until the end")
		})
	}
}
