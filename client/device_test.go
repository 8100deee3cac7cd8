package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const issuer = "https://id.example/realms/ops"

// idp is an identity provider without a network, so that its time can be a test's. Each refresh token is valid once.
type idp struct {
	mutex    sync.Mutex
	metadata map[string]any
	// decisions answer the requests with the device code, one after the other.
	decisions []string
	lifetime  int
	granted   int // pairs of tokens so far
	refreshes int
	revoked   string
	asked     []time.Time
	fails     func(r *http.Request) *http.Response
}

func newIDP(decisions ...string) *idp {
	return &idp{decisions: decisions, lifetime: 600, metadata: map[string]any{
		"issuer": issuer, "device_authorization_endpoint": issuer + "/device", "token_endpoint": issuer + "/token", "revocation_endpoint": issuer + "/revoke",
	}}
}

func answered(status int, body any) *http.Response {
	recorder := httptest.NewRecorder()
	recorder.WriteHeader(status)
	_ = json.NewEncoder(recorder).Encode(body)
	return recorder.Result()
}

func refusal(code string) *http.Response {
	return answered(http.StatusBadRequest, map[string]string{"error": code, "error_description": "because"})
}

func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body != nil {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
	}
	if p.fails != nil {
		if response := p.fails(r); response != nil {
			return response, nil
		}
	}
	switch strings.TrimPrefix(r.URL.String(), issuer) {
	case "/.well-known/openid-configuration":
		return answered(http.StatusOK, p.metadata), nil
	case "/device":
		return answered(http.StatusOK, map[string]any{
			"device_code": "the-device-code", "user_code": "ABCD-EFGH", "verification_uri": issuer + "/page", "expires_in": 60, "interval": 5,
		}), nil
	case "/token":
		return p.token(r.PostForm), nil
	case "/revoke":
		p.revoked = r.PostForm.Get("token")
		return answered(http.StatusOK, nil), nil
	}
	return answered(http.StatusNotFound, "nothing"), nil
}

func (p *idp) token(form url.Values) *http.Response {
	if form.Get("client_id") != "dlqctl" {
		return refusal("invalid_client")
	}
	switch form.Get("grant_type") {
	case "urn:ietf:params:oauth:grant-type:device_code":
		p.asked = append(p.asked, time.Now())
		decision := p.decisions[0]
		p.decisions = p.decisions[1:]
		if decision == "away" {
			return answered(http.StatusBadGateway, "<html>")
		}
		if decision != "yes" || form.Get("device_code") != "the-device-code" {
			return refusal(decision)
		}
	case "refresh_token":
		if form.Get("refresh_token") != fmt.Sprintf("refresh-%d", p.granted) {
			return answered(http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "used: " + form.Get("refresh_token")})
		}
		p.refreshes++
	default:
		return refusal("unsupported_grant_type")
	}
	p.granted++
	return answered(http.StatusOK, map[string]any{
		"access_token": fmt.Sprintf("access-%d", p.granted), "refresh_token": fmt.Sprintf("refresh-%d", p.granted), "token_type": "bearer", "expires_in": p.lifetime,
	})
}

// kept is a store that several processes share.
type kept struct {
	tokens client.Tokens
	lock   chan struct{}
	fails  error
}

func newKept() *kept { return &kept{lock: make(chan struct{}, 1)} }

func (k *kept) Load() (client.Tokens, error) { return k.tokens, nil }

func (k *kept) Save(tokens client.Tokens) error {
	k.tokens = tokens
	return k.fails
}

func (k *kept) Lock(ctx context.Context) (func(), error) {
	select {
	case k.lock <- struct{}{}:
		return func() { <-k.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func flow(t *testing.T, p *idp, store client.TokenStore) *client.DeviceFlow {
	t.Helper()
	f, err := client.NewDeviceFlow(client.DeviceConfig{Issuer: issuer, ClientID: "dlqctl", Store: store, HTTP: &http.Client{Transport: p}})
	require.NoError(t, err)
	return f
}

func ignore(client.DevicePrompt) {}

func TestAPersonSignsInWithACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, store := newIDP("authorization_pending", "slow_down", "away", "yes"), newKept()
		began := time.Now()
		var shown client.DevicePrompt
		require.NoError(t, flow(t, p, store).SignIn(t.Context(), func(prompt client.DevicePrompt) { shown = prompt }))
		require.Equal(t, client.DevicePrompt{URL: issuer + "/page", Code: "ABCD-EFGH", Expires: began.Add(time.Minute)}, shown)
		after := make([]time.Duration, len(p.asked))
		for i, at := range p.asked {
			after[i] = at.Sub(began)
		}
		require.Equal(t, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}, after)

		token, err := flow(t, p, store).Token(t.Context()) // of the next process
		require.NoError(t, err)
		require.Equal(t, "access-1", token)
		require.Zero(t, p.refreshes)
	})
}

func TestASignInEndsWithAReason(t *testing.T) {
	t.Parallel()
	for decisions, says := range map[string]string{
		"access_denied":  "the sign-in was refused",
		"expired_token":  "the code has expired",
		"invalid_client": "status 400: invalid_client: because",
		strings.TrimSpace(strings.Repeat("authorization_pending ", 12)): "the code has expired", // by its time
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newKept()
			require.ErrorContains(t, flow(t, newIDP(strings.Fields(decisions)...), store).SignIn(t.Context(), ignore), says)
			require.Zero(t, store.tokens)
		})
	}
}

func TestATokenIsRefreshedBeforeItExpiresAndWhenItIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, store := newIDP("yes"), newKept()
		f := flow(t, p, store)
		require.NoError(t, f.SignIn(t.Context(), ignore))
		requireToken := func(want string) {
			t.Helper()
			token, err := f.Token(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
		time.Sleep(569 * time.Second)
		requireToken("access-1")
		time.Sleep(time.Second)
		requireToken("access-2")
		require.True(t, f.Refused("access-2"))
		requireToken("access-3")
		require.True(t, f.Refused("access-2"), "another request has refreshed already")
		requireToken("access-3")

		p.fails = func(*http.Request) *http.Response { return answered(http.StatusServiceUnavailable, nil) }
		time.Sleep(599 * time.Second)
		requireToken("access-3") // still valid, while the provider is away
		time.Sleep(time.Second)
		_, err := f.Token(t.Context())
		require.ErrorContains(t, err, "status 503")
		require.NotErrorIs(t, err, client.ErrSignIn)
		p.fails = nil
		requireToken("access-4")
	})
}

func TestProcessesThatRefreshAtOnceShareTheNewTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, store := newIDP("yes"), newKept()
		require.NoError(t, flow(t, p, store).SignIn(t.Context(), ignore))
		var processes []*client.DeviceFlow
		for range 8 {
			process := flow(t, p, store)
			_, err := process.Token(t.Context())
			require.NoError(t, err)
			processes = append(processes, process)
		}
		time.Sleep(580 * time.Second)
		var all sync.WaitGroup
		for _, process := range processes {
			all.Go(func() {
				token, err := process.Token(t.Context())
				if err != nil || token != "access-2" {
					t.Errorf("%s, %v", token, err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, p.refreshes)
	})
}

func TestASessionThatHasEndedAsksForANewSignIn(t *testing.T) {
	t.Parallel()
	p, store := newIDP(), newKept()
	_, err := flow(t, p, store).Token(t.Context())
	require.EqualError(t, err, "nobody is signed in: sign in again")
	require.ErrorIs(t, err, client.ErrSignIn)

	store.tokens = client.Tokens{Issuer: issuer, ClientID: "dlqctl", Access: "old", Refresh: "secret-refresh", Renew: time.Now(), Expires: time.Now().Add(time.Hour)}
	_, err = flow(t, p, store).Token(t.Context())
	require.ErrorIs(t, err, client.ErrSignIn)
	require.ErrorContains(t, err, "the session has ended")
	require.NotContains(t, err.Error(), "secret", "the provider repeats the token")

	store.tokens.Issuer = "https://other.example" // whose tokens go to nobody else
	_, err = flow(t, p, store).Token(t.Context())
	require.ErrorContains(t, err, "nobody is signed in")

	store.tokens = client.Tokens{Issuer: issuer, ClientID: "dlqctl", Access: "only"}
	f := flow(t, p, store)
	token, err := f.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "only", token)
	require.False(t, f.Refused("only"), "there is nothing to refresh it with")
}

func TestNewTokensThatCannotBeKeptAreAnError(t *testing.T) {
	t.Parallel()
	p, store := newIDP("yes"), newKept()
	p.granted = 4
	store.tokens = client.Tokens{Issuer: issuer, ClientID: "dlqctl", Access: "old", Refresh: "refresh-4", Renew: time.Now()}
	store.fails = errors.New("the disk is full")
	f := flow(t, p, store)
	_, err := f.Token(t.Context())
	require.EqualError(t, err, "the disk is full")
	token, err := f.Token(t.Context())
	require.NoError(t, err, "this process has them")
	require.Equal(t, "access-5", token)
}

func TestSigningOutEndsTheSession(t *testing.T) {
	t.Parallel()
	p, store := newIDP(), newKept()
	store.tokens = client.Tokens{Issuer: issuer, ClientID: "dlqctl", Access: "a", Refresh: "refresh-1"}
	f := flow(t, p, store)
	require.NoError(t, f.SignOut(t.Context()))
	require.Equal(t, "refresh-1", p.revoked)
	require.Zero(t, store.tokens)
	_, err := f.Token(t.Context())
	require.ErrorIs(t, err, client.ErrSignIn)
	require.NoError(t, f.SignOut(t.Context()), "nobody is signed in")

	store.tokens = client.Tokens{Issuer: issuer, ClientID: "dlqctl", Access: "a", Refresh: "refresh-1"}
	p.fails = func(*http.Request) *http.Response { return answered(http.StatusServiceUnavailable, nil) }
	require.ErrorContains(t, flow(t, p, store).SignOut(t.Context()), "status 503")
	require.Zero(t, store.tokens, "they are removed nevertheless")
}

func TestAProviderThatCannotBeTrustedGetsNoToken(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"plain HTTP": "http://id.example", "no URL": "id.example", "a password": "https://a:b@id.example", "empty": ""} {
		_, err := client.NewDeviceFlow(client.DeviceConfig{Issuer: address, ClientID: "dlqctl", Store: newKept()})
		require.ErrorContains(t, err, "is not a URL with https", name)
		require.NotContains(t, err.Error(), ":b@")
	}
	for _, address := range []string{"http://127.0.0.1:8080/realms/ops", "http://[::1]", "http://localhost:1"} {
		_, err := client.NewDeviceFlow(client.DeviceConfig{Issuer: address, ClientID: "dlqctl", Store: newKept()})
		require.NoError(t, err)
	}
	for says, change := range map[string]func(*idp){
		`calls itself "https://evil.example"`: func(p *idp) { p.metadata["issuer"] = "https://evil.example" },
		"announces no device flow":            func(p *idp) { delete(p.metadata, "device_authorization_endpoint") },
		"is not a URL with https":             func(p *idp) { p.metadata["token_endpoint"] = "http://id.example/token" },
		"status 302":                          func(p *idp) { p.fails = func(*http.Request) *http.Response { return answered(http.StatusFound, nil) } },
		"something else than its JSON": func(p *idp) {
			p.fails = func(*http.Request) *http.Response { return answered(http.StatusOK, "secret") }
		},
		"no code or no page": func(p *idp) {
			p.fails = func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					return answered(http.StatusOK, map[string]string{})
				}
				return nil
			}
		},
		"status 500: server_error: " + strings.Repeat("x", 300): func(p *idp) {
			p.fails = func(*http.Request) *http.Response {
				return answered(http.StatusInternalServerError, map[string]string{"error": "server_error", "error_description": strings.Repeat("x", 3000)})
			}
		},
	} {
		p := newIDP()
		change(p)
		err := flow(t, p, newKept()).SignIn(t.Context(), ignore)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
		require.Less(t, len(err.Error()), 500)
	}
}
