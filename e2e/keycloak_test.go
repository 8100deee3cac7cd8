//go:build keycloak

package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"dlqmanager/internal/kafkatest"
)

// guarded is a system whose API asks a Keycloak. Members of the group payments are operators of the
// system's topic. Members of support view all topics. Members of dlq-admins may do everything.
type guarded struct {
	*system
	keycloak *keycloak
	other    *system // the same system, with a topic of which nobody in payments is an operator
	api      *program
}

// The steps share one Keycloak, which takes half a minute to start.
func TestTheAPIAuthenticatesTokensOfKeycloak(t *testing.T) {
	t.Parallel()
	k := newKeycloak(t)
	cluster := kafkatest.FakeCluster(t)
	g := newGuarded(t, k, cluster)

	g.requireUnavailable()
	began := time.Now()
	k.start()
	t.Logf("Keycloak %s started in %s", keycloakVersion, time.Since(began).Round(time.Second))
	g.eventually("the API is ready with Keycloak", func() bool { return g.api.readiness() == http.StatusOK })

	g.startWorker()
	g.produceDeadLetters(cluster, 2)
	g.other.produceDeadLetters(cluster, 2)
	g.eventually("all are stored", func() bool { return g.pending() == 4 })

	g.operatorRetriesInTheTopicsGranted()
	g.viewerOnlyReads()
	g.othersMayDoNothing()
	g.robotDeletes()
	g.tokensForOthersAreRefused()
	g.tokensExpire()
	g.operatorSignsInWithDlqctl()
	g.operatorUsesThePages()
	g.keysRotate()
	g.knownKeysOutliveKeycloak()
}

// newGuarded starts the API, while Keycloak does not run.
func newGuarded(t *testing.T, k *keycloak, cluster *kfake.Cluster) *guarded {
	t.Helper()
	g := &guarded{system: newSystem(t, cluster), keycloak: k}
	g.other = &system{t: t, topic: "other.v1", dlqTopic: "other.dlq.v1"}
	require.NoError(t, cluster.CreateTopic(g.other.topic, 1, nil))
	require.NoError(t, cluster.CreateTopic(g.other.dlqTopic, 1, nil))
	address := freeAddress(t)
	g.base = "http://" + address
	g.api = g.launch("api", address, "DLQ_SERVER_PORT="+port(address), "DLQ_AUTH_MODE=oidc",
		"DLQ_AUTH_OIDC_ISSUER="+k.issuer("ops"), "DLQ_AUTH_OIDC_AUDIENCE=dlq-manager", "DLQ_AUTH_OIDC_CLOCK_SKEW=1s",
		"DLQ_CONSOLE_OIDC_CLIENT_ID=pages", "DLQ_CONSOLE_OIDC_CLIENT_SECRET=pages",
		"DLQ_AUTH_OIDC_ROLES=dlq-admins=admin,support=viewer,payments=operator:"+g.dlqTopic)
	return g
}

func (g *guarded) requireUnavailable() {
	g.t.Helper()
	g.eventually("the API answers", func() bool { return g.api.readiness() == http.StatusServiceUnavailable })
	g.eventually("only Keycloak is missing", func() bool {
		_, answer := g.call(http.MethodGet, "/readyz")
		return reason(answer) == "unavailable: identity"
	})
	status, _ := g.as("a.b.c", http.MethodGet, "/api/v1/me")
	require.Equal(g.t, http.StatusServiceUnavailable, status)
}

// as makes a request with a token.
func (g *guarded) as(token, method, path string, headers ...string) (int, map[string]any) {
	g.t.Helper()
	return g.call(method, path, append(headers, "Authorization", "Bearer "+token)...)
}

// requireRefused requires 401 for a reason.
func (g *guarded) requireRefused(token, want string) {
	g.t.Helper()
	status, answer := g.as(token, http.MethodGet, "/api/v1/dlq")
	require.Equal(g.t, http.StatusUnauthorized, status, "%v", answer)
	require.Contains(g.t, reason(answer), want)
}

// reason is the message of an error.
func reason(answer map[string]any) string {
	fields, _ := answer["error"].(map[string]any)
	message, _ := fields["message"].(string)
	return message
}

// accepted reports whether a request with the token succeeds.
func (g *guarded) accepted(token string) bool {
	g.t.Helper()
	status, _ := g.as(token, http.MethodGet, "/api/v1/dlq")
	return status == http.StatusOK
}

// topics lists the dead-letter topics that a token shows.
func (g *guarded) topics(token string) (names []string) {
	g.t.Helper()
	status, answer := g.as(token, http.MethodGet, "/api/v1/dlq")
	require.Equal(g.t, http.StatusOK, status)
	for _, topic := range answer["topics"].([]any) {
		names = append(names, topic.(map[string]any)["dlq_topic"].(string))
	}
	return names
}

// message returns the path of a pending message.
func (g *guarded) message(topic string) string {
	g.t.Helper()
	status, answer := g.as(g.keycloak.robot(), http.MethodGet, "/api/v1/dlq/"+topic+"?status=PENDING")
	require.Equal(g.t, http.StatusOK, status, "%v", answer)
	return "/api/v1/dlq/messages/" + answer["messages"].([]any)[0].(map[string]any)["id"].(string)
}

func (g *guarded) operatorRetriesInTheTopicsGranted() {
	operator, _ := g.keycloak.login("cli", "olga")
	_, me := g.as(operator, http.MethodGet, "/api/v1/me")
	require.Equal(g.t, "11111111-1111-4111-8111-111111111111", me["subject"])
	require.Len(g.t, me["grants"], 1, "the group sales grants nothing")
	require.Equal(g.t, []string{g.dlqTopic}, g.topics(operator))

	status, answer := g.as(operator, http.MethodPost, g.message(g.dlqTopic)+"/retry", "Prefer", "wait=30")
	require.Equal(g.t, http.StatusOK, status, "%v", answer)
	require.Equal(g.t, 1, g.rows("status = 'RESOLVED'"))
	for _, request := range []struct {
		method, path string
		want         int
	}{
		{http.MethodDelete, g.message(g.dlqTopic), http.StatusForbidden},
		{http.MethodPost, g.message(g.other.dlqTopic) + "/retry", http.StatusNotFound},
		{http.MethodGet, g.message(g.other.dlqTopic), http.StatusNotFound},
	} {
		status, _ := g.as(operator, request.method, request.path)
		require.Equal(g.t, request.want, status, "%v", request)
	}
	require.Equal(g.t, 3, g.pending())
}

func (g *guarded) viewerOnlyReads() {
	viewer, _ := g.keycloak.login("cli", "victor")
	require.ElementsMatch(g.t, []string{g.dlqTopic, g.other.dlqTopic}, g.topics(viewer))
	status, _ := g.as(viewer, http.MethodPost, g.message(g.dlqTopic)+"/retry")
	require.Equal(g.t, http.StatusForbidden, status)
	require.Equal(g.t, 3, g.pending())
}

func (g *guarded) othersMayDoNothing() {
	token, _ := g.keycloak.login("cli", "nina")
	status, _ := g.as(token, http.MethodGet, "/api/v1/dlq")
	require.Equal(g.t, http.StatusForbidden, status)
	status, _ = g.as(token, http.MethodGet, "/api/v1/me")
	require.Equal(g.t, http.StatusOK, status, "the token is valid")
}

// robotDeletes uses a token that belongs to no person.
func (g *guarded) robotDeletes() {
	status, _ := g.as(g.keycloak.robot(), http.MethodDelete, g.message(g.other.dlqTopic)+"?reason=test")
	require.Equal(g.t, http.StatusOK, status)
	require.Equal(g.t, 2, g.pending())
}

func (g *guarded) tokensForOthersAreRefused() {
	operator, refresh := g.keycloak.login("cli", "olga")
	require.True(g.t, g.accepted(operator))
	g.requireRefused(refresh, "algorithm")
	other, _ := g.keycloak.login("other-application", "olga")
	g.requireRefused(other, "another audience")
	g.requireRefused(g.keycloak.administrator(), "unknown key") // a token of another realm
}

func (g *guarded) tokensExpire() {
	token, _ := g.keycloak.login("cli-two-seconds", "olga")
	require.True(g.t, g.accepted(token))
	require.Eventually(g.t, func() bool { return !g.accepted(token) }, 10*time.Second, 100*time.Millisecond)
	g.requireRefused(token, "expired")
}

func (g *guarded) keysRotate() {
	first := g.keycloak.signer()
	old, _ := g.keycloak.login("cli", "olga")
	g.keycloak.addSigner()
	fresh, _ := g.keycloak.login("cli", "olga")
	require.NotEqual(g.t, keyOf(g.t, old), keyOf(g.t, fresh))

	// An unknown key is fetched at once, but at most every five seconds. Too many refused
	// requests would be answered with 429.
	require.Eventually(g.t, func() bool { return g.accepted(fresh) }, 8*time.Second, 2*time.Second)
	require.True(g.t, g.accepted(old), "its key is still published")

	g.keycloak.disable(first)
	began := time.Now()
	require.Eventually(g.t, func() bool { return !g.accepted(old) }, 65*time.Second, 200*time.Millisecond,
		"a removed key is refused after a minute")
	g.t.Logf("the disabled key was refused after %s", time.Since(began).Round(time.Second))
	g.requireRefused(old, "unknown key")
	require.True(g.t, g.accepted(fresh))
}

func (g *guarded) knownKeysOutliveKeycloak() {
	operator, _ := g.keycloak.login("cli", "olga")
	foreign := g.keycloak.administrator()
	g.keycloak.stop()
	// The API requests an unknown key from Keycloak, and notices that Keycloak does not answer.
	require.Eventually(g.t, func() bool {
		status, _ := g.as(foreign, http.MethodGet, "/api/v1/me")
		return status == http.StatusServiceUnavailable
	}, 15*time.Second, 2*time.Second)
	status, ready := g.call(http.MethodGet, "/readyz")
	require.Equal(g.t, http.StatusOK, status)
	require.Contains(g.t, ready["checks"].(map[string]any)["identity"], "does not answer")
	require.Equal(g.t, []string{g.dlqTopic}, g.topics(operator))
}
