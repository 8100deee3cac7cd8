package api_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// tokens authenticates the tokens of these tests. The token "operator" has the role for all topics, and "operator/orders.*" has
// it for some topics.
type tokens struct{ t testing.TB }

func (k tokens) Authenticate(_ context.Context, token string) (dlq.Principal, error) {
	if token == "away" {
		return dlq.Principal{}, fmt.Errorf("issuer: %w", dlq.ErrUnavailable)
	}
	p := dlq.Principal{Subject: token, Method: "token"}
	for one := range strings.SplitSeq(token, "+") {
		role, topics, limited := strings.Cut(one, "/")
		var globs []string
		if limited {
			globs = []string{topics}
		}
		g, err := dlq.NewGrant(dlq.Role(role), globs)
		if err != nil {
			return dlq.Principal{}, fmt.Errorf("the token is unknown: %w", dlq.ErrUnauthenticated)
		}
		p.Grants = append(p.Grants, g)
	}
	return p, nil
}

func startWithTokens(t testing.TB, change ...func(*api.Options)) *world {
	t.Helper()
	return start(t, append([]func(*api.Options){func(o *api.Options) { o.Auth = tokens{t} }}, change...)...)
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// tableOfRoutes has the permission of every route that needs a permission.
func tableOfRoutes(t testing.TB) map[string]string {
	t.Helper()
	got := start(t).call(http.MethodGet, "/api/v1/me")
	require.Equal(t, http.StatusOK, got.status, got.body)
	routes := map[string]string{}
	for _, r := range got.field(t, "routes").([]any) {
		route := r.(map[string]any)
		routes[route["method"].(string)+" "+route["path"].(string)] = route["permission"].(string)
	}
	return routes
}

const topicOfAccess = "orders.dlq.v1"

// bodies are the bodies of the requests that need a body.
var bodies = map[string]string{
	"POST /api/v1/plans":               `{"kind":"retry","topic":"` + topicOfAccess + `"}`,
	"POST /api/v1/jobs":                `{"kind":"retry","topic":"` + topicOfAccess + `"}`,
	"POST /api/v1/dlq/:topic/messages": `{"value":1}`,
	"PATCH /api/v1/jobs/:id":           `{"rate_limit":5}`,
	"PATCH /api/v1/groups/:id":         `{"owner":"ann"}`,
	"PUT /debug/log-level":             `{"level":"debug","for":"1h"}`,

	"POST /api/v1/dlq/messages/:id/unmask": `{"reason":"a ticket"}`,
}

// This test calls every route with every role: for all topics, for the topic of the resource, and for another topic.
func TestEveryRouteChecksRoleAndTopic(t *testing.T) {
	t.Parallel()
	for route, permission := range tableOfRoutes(t) {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			unchanged := startWithTokens(t)
			id := unchanged.prepare(route)
			for _, role := range append([]dlq.Role{""}, dlq.Roles...) {
				for _, topics := range []string{"", "/orders.*", "/stock.*"} {
					w, id, token := unchanged, id, string(role)+topics
					allowed := slices.Contains(role.Permissions(), dlq.Permission(permission))
					isOther := topics == "/stock.*"
					if allowed && !isOther && !strings.HasPrefix(route, "GET") {
						w = startWithTokens(t)
						id = w.prepare(route)
					}
					got := w.callRoute(route, id, token)
					switch {
					case role == "":
						requireError(t, got, http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED")
						require.Contains(t, got.header.Get("WWW-Authenticate"), "Bearer")
					case !allowed, topics != "" && dlq.Permission(permission).IsForAllTopics():
						message, _ := requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
						require.Contains(t, message, permission, token)
					case isOther && strings.Contains(route, ":id"), topics != "" && strings.Contains(route, "/plans/:id"): // a plan of other topics
						requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
					case isOther && strings.HasPrefix(route, "POST"): // creates a job
						requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
					case isOther:
						require.Equal(t, http.StatusOK, got.status, got.body)
						require.NotContains(t, got.body, "orders", token)
						require.NotContains(t, got.body, `"total_count":1`, token)
					default:
						require.Contains(t, []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}, got.status, token+": "+got.body)
						if strings.Contains(route, "/api/") {
							require.Contains(t, got.body, `"`) // the list is not empty
						}
					}
				}
			}
		})
	}
}

// prepare makes the message, the group or the job of topicOfAccess that the route needs, and returns its id.
func (w *world) prepare(route string) (id string) {
	t := w.t
	t.Helper()
	id = w.add(1, dlqtest.Cause("no price"))[0].String()
	if strings.Contains(route, "/groups/") {
		id = w.groupOf(id)
	}
	if strings.Contains(route, "/plans/:id") {
		plan, _ := w.planned(bodies["POST /api/v1/plans"], bearer("admin"))
		id = plan.field(t, "id").(string)
	}
	if isTarget := strings.Contains(route, "/jobs/:id"); isTarget || route == "GET /api/v1/jobs" {
		if isTarget {
			w.retries.hold() // the job must still be running
		}
		got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"`+topicOfAccess+`"}`, bearer("admin"), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, got.status, got.body)
		if isTarget {
			id = got.field(t, "id").(string)
		}
	}
	isArchived := strings.Contains(route, "/archive/messages")
	if strings.HasSuffix(route, "/revive") || isArchived {
		got := w.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", bearer("admin"))
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
	if isArchived {
		_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
	}
	return id
}

// callRoute calls a route with the id from prepare.
func (w *world) callRoute(route, id, token string) response {
	w.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	path = strings.NewReplacer(":id", id, ":topic", topicOfAccess, ":profile", "heap").Replace(path)
	if strings.HasSuffix(path, "/archive/messages") {
		path += "?topic=" + topicOfAccess
	}
	if body := bodies[route]; body != "" {
		return w.json(method, path, body, bearer(token))
	}
	return w.call(method, path, bearer(token))
}

func TestTheSpecificationNamesThePermissionOfEveryRoute(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]map[string]any `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(content, &document))
	documented := map[string]string{}
	for path, operations := range document.Paths {
		for method, operation := range operations {
			if permission, ok := operation["x-permission"].(string); ok {
				path := strings.NewReplacer("{id}", ":id", "{topic}", ":topic", "{profile}", ":profile").Replace(path)
				documented[strings.ToUpper(method)+" "+path] = permission
			}
		}
	}
	require.Equal(t, tableOfRoutes(t), documented)
}

func TestTheDocumentsNameThePermissionOfEveryRoute(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../docs/access.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+ [^`]+)` \\| `([^`]+)` \\| (\\w+) \\|$").FindAllStringSubmatch(string(content), -1) {
		documented[row[1]] = row[2]
		least := slices.IndexFunc(dlq.Roles, func(r dlq.Role) bool { return slices.Contains(r.Permissions(), dlq.Permission(row[2])) })
		require.Equal(t, dlq.Roles[least], dlq.Role(row[3]), row[1])
	}
	require.Equal(t, tableOfRoutes(t), documented)
}

func TestAHeadRequestNeedsThePermissionToo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	_, got := w.send(http.MethodHead, "/api/v1/dlq", nil)
	require.Equal(t, http.StatusUnauthorized, got.status)
	_, got = w.send(http.MethodHead, "/api/v1/dlq", nil, bearer("viewer"))
	require.Equal(t, http.StatusOK, got.status)
}

func TestAGrantDecidesByTopic(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	orders := w.add(1)[0].String()
	stock := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })[0].String()
	both := bearer("viewer+operator/orders.*")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/messages/"+stock, both).status)
	message, _ := requireError(t, w.call(http.MethodPost, "/api/v1/dlq/messages/"+stock+"/retry", both), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	require.Contains(t, message, "dlq:message:retry on topic stock.dlq.v1")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+orders+"/retry", both).status)
}

// The original topic of both dead-letter topics is orders.v1.
func TestAJobOnAnOriginalTopicChangesGrantedTopicsOnly(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	mine := w.add(2)
	others := w.add(3, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
	granted := bearer("operator/orders.*")

	list := w.call(http.MethodGet, "/api/v1/dlq/orders.v1", granted)
	require.EqualValues(t, 2, list.field(t, "pagination", "total_count"))
	preview := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.v1"}`, granted)
	require.EqualValues(t, 2, preview.field(t, "matched"), preview.body)
	job := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1"}`, granted)
	require.EqualValues(t, 2, job.field(t, "retried"), job.body)
	action := w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"dead","topic":"orders.v1"}`, granted)
	require.EqualValues(t, 0, action.field(t, "changed"), action.body)

	status := func(id dlq.ID) any {
		return w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String(), bearer("viewer")).field(t, "status")
	}
	require.Equal(t, "RESOLVED", status(mine[0]))
	require.Equal(t, "PENDING", status(others[0]))
}

func TestABulkChangeNeedsThePermissionForItsMessagesToo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1)
	for _, path := range []string{jobsPath, plansPath} {
		message, _ := requireError(t, w.json(http.MethodPost, path, `{"kind":"delete","topic":"orders.v1"}`, bearer("operator")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		require.Contains(t, message, "dlq:message:delete")
	}
	got := w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"delete","topic":"orders.v1"}`, bearer("admin"))
	require.EqualValues(t, 1, got.field(t, "changed"), got.body)
}

func TestAConflictDoesNotNameAHiddenJob(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.retries.hold()
	w.add(1)
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1"}`, bearer("admin"), "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	refused := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.dlq.v1"}`, bearer("operator/orders.dlq.*"))
	_, fields := requireError(t, refused, http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Empty(t, fields)
	require.NotContains(t, refused.body, got.field(t, "id"))
}

func TestAJobOfAnotherTeamIsNoConflict(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.retries.hold()
	w.add(1)
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })
	w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "stock.dlq.v1" }) // the header with the original topic is forged
	for topic, token := range map[string]string{"stock.dlq.v1": "operator/stock.*", "orders.v1": "operator/orders.*"} {
		got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"`+topic+`"}`, bearer(token), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, got.status, got.body)
	}
}

func TestAChainLeavesOutHiddenTopics(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	first := w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "stock.dlq.v1" })[0]
	second := w.add(1, func(a *dlq.Arrival) { a.PreviousID = first })[0].String()
	chain := w.call(http.MethodGet, "/api/v1/dlq/messages/"+second+"/chain", bearer("viewer"))
	require.Len(t, chain.field(t, "hops"), 2)
	chain = w.call(http.MethodGet, "/api/v1/dlq/messages/"+second+"/chain", bearer("viewer/orders.*"))
	require.Len(t, chain.field(t, "hops"), 1)
	for token, seen := range map[string]bool{"viewer": true, "viewer/orders.*+viewer/stock.*": true, "viewer/orders.*": false} {
		for _, path := range []string{"", "/chain"} {
			got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+second+path, bearer(token))
			require.Equal(t, seen, strings.Contains(got.body, first.String()), got.body)
		}
	}
	hidden := w.call(http.MethodGet, "/api/v1/dlq/messages/"+first.String()+"/chain", bearer("viewer/orders.*"))
	requireError(t, hidden, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

func TestPublicRoutesAreOpenOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	closed, open := startWithTokens(t), startWithTokens(t, func(o *api.Options) { o.Open = api.PublicRoutes })
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		_, got := closed.send(http.MethodGet, path, nil)
		require.Equal(t, http.StatusUnauthorized, got.status, path)
		_, got = closed.send(http.MethodGet, path, nil, bearer("viewer"))
		require.Equal(t, http.StatusOK, got.status, path)
		_, got = open.send(http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, got.status, path)
	}
	for _, path := range []string{"/openapi.json", "/docs"} {
		_, got := closed.send(http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, got.status, path)
	}
}

func TestAnAuthenticatorThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	requireError(t, w.call(http.MethodGet, "/api/v1/dlq", bearer("away")), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

func TestAMalformedAuthorizationIsRefused(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for _, header := range []string{"Authorization: ", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: Basic YTpi",
		"Authorization: admin", "Authorization: Bearer nobody", "Authorization: Bearer admin/"} {
		requireError(t, w.call(http.MethodGet, "/api/v1/dlq", header), http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED")
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", "Authorization: bearer admin").status)
}

func TestRefusedTokensSlowTheirClientDownButNoValidOne(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for range 10 {
		require.Equal(t, http.StatusUnauthorized, w.call(http.MethodGet, "/api/v1/dlq", bearer("nobody")).status)
	}
	got := w.spend(http.MethodGet, "/api/v1/dlq", bearer("nobody"))
	message, _ := requireError(t, got, http.StatusTooManyRequests, "SYS_DLQ_TOO_MANY_REQUESTS")
	require.Equal(t, "too many refused tokens from this address; try again later", message)
	require.Contains(t, []string{"5", "6"}, got.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", bearer("admin")).status, "others may share the address")
	require.Equal(t, http.StatusUnauthorized, w.call(http.MethodGet, "/api/v1/dlq").status, "no token is no guess")
}

func TestOnlyAnAdminDeletesAMessage(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0].String()
	for _, role := range []string{"viewer", "operator"} {
		got := w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id, bearer(role))
		require.Equal(t, http.StatusForbidden, got.status, got.body)
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, bearer(role)).status)
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id, bearer("admin")).status)
	require.Equal(t, http.StatusNotFound, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, bearer("admin")).status)
}
