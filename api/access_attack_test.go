package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

type everyRecord struct{}

func (everyRecord) Fetch(context.Context, dlq.Origin, time.Time) (dlq.Record, error) {
	return dlq.Record{Value: []byte("secret")}, nil
}

// Anybody who may write to a dead-letter topic chooses the record that a pointer names.
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

// Anybody who may write to a dead-letter topic chooses the original topic too.
func TestALimitedOperatorSendsToNoForgedOrigin(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, toTargets(t, knownTopics{"orders.retry": true}))
	from := func(topic string) func(*dlq.Arrival) { return func(a *dlq.Arrival) { a.Origin.Topic = topic } }
	pointer := func(a *dlq.Arrival) { a.Record.Key, a.Record.Value, a.Payload = nil, nil, nil }
	own, covered := w.add(1)[0], w.add(1, from("orders.eu"))[0]
	for _, c := range []struct {
		id   dlq.ID
		text string
	}{
		{w.add(1, from("payments.v1"))[0], "does not follow from the name of orders.dlq.v1; to send it there needs the permission dlq:message:retry on topic payments.v1"},
		{w.add(1, from("routed.payments"))[0], "on topic routed.payments"}, // that its topic has a route gives no permission
		{w.add(1, from("orders.eu"), pointer)[0], "may name a record of another topic"},
		{w.add(1, from("payments.v1"), pointer)[0], "on topic payments.v1"},
	} {
		for _, body := range []string{`{}`, `{"value":1}`, `{"target_topic":"orders.retry"}`} {
			message, _ := requireError(t, w.json(http.MethodPost, retryPath(c.id), body, bearer("operator/orders.*")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
			require.Contains(t, message, c.text)
		}
		m, err := w.store.Message(t.Context(), c.id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, m.Status)
	}
	require.Zero(t, w.retries.starts())
	preview := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`, bearer("operator/orders.*"))
	require.EqualValues(t, 2, preview.field(t, "matched"), preview.body)
	require.EqualValues(t, 4, preview.field(t, "skipped"))
	require.Contains(t, preview.body, dlq.SkipForeign)
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(own), "", bearer("operator/orders.*")).status)
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(covered), "", bearer("operator/orders.*")).status)
}

func TestNobodySendsToAnInternalTopic(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "_schemas" })[0]
	message, _ := requireError(t, w.json(http.MethodPost, retryPath(id), ""), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, `its original topic "_schemas" is an internal topic, to which nothing is sent unless targets.allowed has its exact name`)
	handedIn := w.json(http.MethodPost, handInPath, `{"value": 1, "origin": {"topic": "__consumer_offsets"}}`)
	require.Equal(t, http.StatusCreated, handedIn.status, "it is stored")
	requireError(t, w.json(http.MethodPost, retryPath(handedIn.handedIn(t)[0]), ""), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Zero(t, w.retries.starts())
}

// A job on an original topic may also have messages of other dead-letter topics.
func TestALimitedOperatorSteersNoWiderJob(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]int{"orders.v1": http.StatusNotFound, "orders.dlq.v1": http.StatusOK} {
		w := startWithTokens(t)
		w.retries.hold()
		w.add(1)
		job := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"`+topic+`"}`, bearer("admin"), "Prefer: respond-async")
		path := job.header.Get("Location")
		require.Equal(t, want, w.call(http.MethodPost, path+"/pause", bearer("operator/orders.*")).status, topic)
		require.Equal(t, want, w.call(http.MethodGet, path, bearer("operator/orders.*")).status)
	}
	w := startWithTokens(t)
	w.retries.hold()
	w.add(1)
	own := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1"}`, bearer("operator/orders.*"), "Prefer: respond-async")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, own.header.Get("Location")+"/pause", bearer("operator/orders.*")).status)
}

// The job's filter, reason and counts tell about dead letters of other topics.
func TestAJobOnAnOriginalTopicIsHiddenFromWhoSeesOnlyAPartOfIt(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"kind":"retry","topic":"orders.v1","error":"stock secret","reason":"a stock secret"}`,
		`{"kind":"dead","topic":"orders.v1","error":"stock secret","reason":"a stock secret"}`,
	} {
		for creator, seenBy := range map[string]map[string]bool{
			"admin":             {"viewer": true, "admin/orders.*": false, "viewer/orders.*": false, "viewer/stock.*": false},
			"operator/orders.*": {"viewer": true, "viewer/orders.*": true, "viewer/*.dlq.*": false, "viewer/stock.*": false},
		} {
			w := startWithTokens(t)
			w.retries.hold()
			w.add(1)
			w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
			job := w.json(http.MethodPost, jobsPath, body, bearer(creator), "Prefer: respond-async")
			require.Equal(t, http.StatusAccepted, job.status, job.body)
			for viewer, isSeen := range seenBy {
				got := w.call(http.MethodGet, job.header.Get("Location"), bearer(viewer))
				want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[isSeen]
				require.Equal(t, want, got.status, "%s by %s for %s", jobsPath, creator, viewer)
				require.Equal(t, want, w.call(http.MethodGet, job.header.Get("Location")+"/series", bearer(viewer)).status)
				for _, list := range []string{jobsPath, "/api/v1/audit", "/api/v1/audit?target_id=" + job.field(t, "id").(string)} {
					got = w.call(http.MethodGet, list, bearer(viewer))
					require.Equal(t, isSeen, strings.Contains(got.body, "secret"), "%s of %s for %s: %s", list, creator, viewer, got.body)
				}
			}
		}
	}
}

func TestAJobThatReplacesATerminatedOneHasItsOwnRow(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1)
	w.retries.terminate(true)
	first := w.json(http.MethodPost, jobsPath, wholeTopic, bearer("operator"), "Prefer: respond-async").field(t, "id")
	w.retries.terminate(false)
	second := w.json(http.MethodPost, jobsPath, wholeTopic, bearer("admin"), "Prefer: respond-async").field(t, "id")
	require.NotEqual(t, first, second)
	creators := map[any]any{}
	for _, row := range w.operations(bearer("admin")) {
		if row["outcome"] == "accepted" {
			creators[row["target_id"]] = row["subject"]
		} else if row["target_id"] == first {
			require.Equal(t, "outside the API", row["subject"], "nobody asked the API for its end")
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
	require.Len(t, rows, 2, "the others are counted")
	require.Equal(t, "operator", rows[0]["subject"], "another sender")
}

// A browser sends requests of any web page to loopback addresses too.
func TestForeignWebPagesAreRefusedWithoutAuthentication(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.CORSOrigins = []string{"https://ops.example"} })
	id := w.add(1)[0].String()
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site", "Origin: http://localhost:3000"},
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, // a form that is sent
		{"Origin: http://evil.example"}, {"Origin: http://127.0.0.1:1"}, {"Origin: null"},
	} {
		got := w.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", headers...)
		requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	}
	require.Equal(t, "PENDING", w.status(mustID(t, id)))
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
		{"Sec-Fetch-Site: cross-site", "Origin: https://ops.example"}, {"Origin: https://ops.example"}, {"Origin: http://" + w.address},
	} {
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", headers...).status, headers)
	}
}

// An attacker lets the name of a web page resolve to this server. For the browser, the page and the server then have the same
// origin.
func TestForeignNamesOfTheServerAreRefusedWhereNoTokenIsNeeded(t *testing.T) {
	t.Parallel()
	ask := func(w *world, path, host string, headers ...string) response {
		headers = append(headers, "Origin: http://"+strings.ToLower(host), "Connection: close")
		return w.raw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n")
	}
	named := func(o *api.Options) { o.Hosts, o.Open = []string{"dlq.example"}, api.PublicRoutes }
	open, tokens := start(t, named), startWithTokens(t, named)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/api/v1/dlq", "/api/v1/me", "/debug/log-level"} {
		for _, host := range []string{"localhost:8080", "LOCALHOST", "127.0.0.1", "[::1]:1", "[2001:db8::1]", "192.0.2.1:80", "DLQ.example", "dlq.example:8443"} {
			require.Equal(t, http.StatusOK, ask(open, path, host).status, "%s %s", host, path)
			require.Equal(t, http.StatusOK, ask(tokens, path, host, bearer("admin")).status, "%s %s", host, path)
		}
		for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.dlq.example", "dlq.example."} {
			message, _ := requireError(t, ask(open, path, host), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
			require.Contains(t, message, "server.allowed_hosts", host)
			got := ask(tokens, path, host, bearer("admin"))
			if strings.HasPrefix(path, "/api") || strings.HasPrefix(path, "/debug") { // these paths can only be read with a token
				require.Equal(t, http.StatusOK, got.status, "%s %s", host, path)
				continue
			}
			requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		}
	}
	requireError(t, open.raw("GET /api/v1/dlq HTTP/1.0\r\n\r\n"), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
}

func TestSeveralAuthorizationHeadersAreRefused(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for _, headers := range [][]string{{bearer("admin"), bearer("viewer")}, {bearer("admin"), bearer("admin")}, {bearer("admin"), "Authorization: Basic eA=="}} {
		message, _ := requireError(t, w.call(http.MethodGet, "/api/v1/me", headers...), http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED")
		require.Equal(t, "the request has more than one Authorization header", message)
	}
}

var jobsOnOriginalTopic = []string{`{"kind":"retry","topic":"orders.v1"}`, `{"kind":"dead","topic":"orders.v1"}`}

// When the creation of a job is refused, the audit has the topic of the request, and not the running job.
func TestTheRowOfAConflictNamesNoHiddenJob(t *testing.T) {
	t.Parallel()
	for _, body := range jobsOnOriginalTopic {
		w := startWithTokens(t)
		w.retries.hold()
		w.add(1)
		running := w.json(http.MethodPost, jobsPath, body, bearer("admin"), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, running.status, running.body)
		for _, token := range []string{"admin/orders.dlq.*", "admin"} { // only the second sender may see the running job
			other := strings.Replace(body, "orders.v1", topicOfAccess, 1)
			require.Equal(t, http.StatusConflict, w.json(http.MethodPost, jobsPath, other, bearer(token)).status)
			rows := w.operations(bearer(token))
			require.NotEmpty(t, rows, "the sender sees the row")
			row := rows[0]
			require.Equal(t, []any{"refused", topicOfAccess, nil, token}, []any{row["outcome"], row["topic"], row["target_id"], row["subject"]})
		}
	}
}

func TestALimitedOperatorCancelsNoWiderAction(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]int{"orders.v1": http.StatusNotFound, topicOfAccess: http.StatusOK} {
		w := startWithTokens(t)
		w.retries.hold()
		w.add(1)
		job := w.json(http.MethodPost, jobsPath, `{"kind":"dead","topic":"`+topic+`"}`, bearer("admin"), "Prefer: respond-async")
		path := job.header.Get("Location")
		require.Equal(t, want, w.call(http.MethodPost, path+"/cancel", bearer("operator/orders.*")).status, topic)
		require.Equal(t, want, w.call(http.MethodGet, path, bearer("operator/orders.*")).status)
	}
}

// Both teams may read the original topic. Each team has its own dead-letter topic.
func TestALimitedJobOnASharedOriginalTopicIsHiddenFromOtherTeams(t *testing.T) {
	t.Parallel()
	const shared = "+operator/orders.v1"
	for _, body := range jobsOnOriginalTopic {
		w := startWithTokens(t)
		w.retries.hold()
		w.add(1)
		w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
		job := w.json(http.MethodPost, jobsPath, body, bearer("operator/stock.*"+shared), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, job.status, job.body)
		id, location := job.field(t, "id").(string), job.header.Get("Location")
		for token, seen := range map[string]bool{
			"admin": true, "viewer": true, "viewer/stock.*+viewer/orders.v1": true, "operator/stock.*+viewer/orders.*" + shared: true,
			"operator/orders.dlq.*" + shared: false, "viewer/orders.*": false,
		} {
			require.Equal(t, seen, w.call(http.MethodGet, location, bearer(token)).status == http.StatusOK, token)
			require.Equal(t, seen, strings.Contains(w.call(http.MethodGet, jobsPath+"?page_size=1", bearer(token)).body, id), token)
		}
		other := "operator/orders.dlq.*" + shared
		require.Equal(t, http.StatusNotFound, w.call(http.MethodPost, location+"/cancel", bearer(other)).status)
		own := w.json(http.MethodPost, jobsPath, body, bearer(other), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, own.status, own.body)
		require.Contains(t, w.call(http.MethodGet, jobsPath+"?page_size=1", bearer("operator/stock.*"+shared)).body, id, "behind a hidden job")
		require.NotContains(t, w.call(http.MethodGet, auditPath, bearer(other)).body, `"within"`)
		require.Less(t, w.call(http.MethodPost, location+"/cancel", bearer("operator/stock.*"+shared)).status, 300)
	}
}

func TestAnEditOutsideTheGrantChangesNothing(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, toTargets(t, knownTopics{"orders.retry": true, "stock.retry": true}))
	orders := w.add(1)[0]
	stock := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })[0]
	for _, c := range []struct {
		id          dlq.ID
		body, token string
		status      int
	}{
		{stock, `{"value":1}`, "operator/orders.*", http.StatusNotFound},
		{stock, `{"value":1,"target_topic":"orders.retry"}`, "operator/orders.*", http.StatusNotFound},
		{stock, `{"value":1}`, "viewer+operator/orders.*", http.StatusForbidden},
		{orders, `{"value":1}`, "viewer", http.StatusForbidden},
		{orders, `{"value":1,"target_topic":"stock.retry"}`, "operator/orders.*", http.StatusForbidden},
		{orders, `{"value":1,"target_topic":"http:shop"}`, "operator/orders.*", http.StatusForbidden},
	} {
		got := w.json(http.MethodPost, retryPath(c.id), c.body, bearer(c.token))
		require.Equal(t, c.status, got.status, got.body)
		require.Equal(t, "refused", w.operations(bearer("admin"))[0]["outcome"], c)
	}
	require.Zero(t, w.retries.starts())
	for _, id := range []dlq.ID{orders, stock} {
		d, err := dlqtest.Detail(t.Context(), w.store, id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, d.Status)
		require.Zero(t, d.Edits, "no copy is stored")
	}
}

// PostgreSQL refuses long regular expressions. Each grant in this test is short enough, but not all together.
func TestGrantsThatNameTooManyTopicsAreForbidden(t *testing.T) {
	t.Parallel()
	p := dlq.Principal{Subject: "ann", Method: "oidc"}
	for i := range 100 {
		g, err := dlq.NewGrant(dlq.RoleOperator, []string{fmt.Sprintf("%03d.%s", i, strings.Repeat("a", 200))})
		require.NoError(t, err)
		p.Grants = append(p.Grants, g)
	}
	w := start(t, func(o *api.Options) { o.Auth = one(p) })
	for _, path := range []string{"/api/v1/dlq", "/api/v1/dlq/orders.dlq.v1", jobsPath, auditPath} {
		message, _ := requireError(t, w.call(http.MethodGet, path, bearer("any")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		require.Contains(t, message, "too many topics")
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/me", bearer("any")).status)
}

// one authenticates everybody as the same principal.
type one dlq.Principal

func (o one) Authenticate(context.Context, string) (dlq.Principal, error) {
	return dlq.Principal(o), nil
}

func mustID(t *testing.T, text string) dlq.ID {
	t.Helper()
	id, err := dlq.ParseID(text)
	require.NoError(t, err)
	return id
}
