package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/dlq"
)

func TestANewKeyIsFetchedWhenItsFirstTokenArrives(t *testing.T) {
	t.Parallel()
	first, second := newRSAKey("first", 0), newECKey(t, "second")
	p, c := newProvider(t, first), newClock()
	o := p.oidcFor(t, c)
	require.NoError(t, o.issuer.refresh(t.Context()))
	before := p.token(t)
	p.set(func() { p.signer, p.keys = second, []*key{first, second} })
	after := p.token(t)

	_, err := o.Authenticate(t.Context(), after)
	require.EqualError(t, err, "the token is signed with an unknown key", "keys were fetched just now")
	c.advance(keysPause)
	for _, token := range []string{after, before} {
		_, err := o.Authenticate(t.Context(), token)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, p.fetches.Load())
}

func TestTokensOfAShortRSAKeyAreRefused(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	short, long := &key{id: "short", algorithm: jose.RS256, private: private}, newRSAKey("long", 0)
	p, c := newProvider(t, short, long), newClock()
	o := p.oidcFor(t, c)
	core, logs := observer.New(zap.WarnLevel)
	o.issuer.log = zap.New(core)
	for range 2 {
		require.NoError(t, o.issuer.refresh(t.Context()))
	}
	entries := logs.All()
	require.Len(t, entries, 1, "once")
	require.Equal(t, "short", entries[0].ContextMap()["key"])

	_, err = o.Authenticate(t.Context(), p.token(t))
	require.EqualError(t, err, "the token is signed with an RSA key of fewer than 2048 bits; its provider needs a longer one")
	require.ErrorIs(t, err, dlq.ErrUnauthenticated)
	p.set(func() { p.signer = long })
	_, err = o.Authenticate(t.Context(), p.token(t))
	require.NoError(t, err)
}

func TestUnknownKeysCauseFewFetches(t *testing.T) {
	t.Parallel()
	p, c := newProvider(t), newClock()
	o := p.oidcFor(t, c)
	require.NoError(t, o.issuer.refresh(t.Context()))
	rubbish := forged(t, newRSAKey("rubbish", 1), nil, map[string]any{})
	c.advance(keysPause)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() { _, _ = o.Authenticate(t.Context(), rubbish) })
	}
	wait.Wait()
	require.EqualValues(t, 2, p.fetches.Load(), "the first one, and one for all")
	_, err := o.Authenticate(t.Context(), p.token(t))
	require.NoError(t, err)
}

func TestARemovedKeyIsRefusedAfterTheNextFetch(t *testing.T) {
	t.Parallel()
	first, second := newRSAKey("first", 0), newRSAKey("second", 1)
	p, c := newProvider(t, first), newClock()
	o := p.oidcFor(t, c)
	require.NoError(t, o.issuer.refresh(t.Context()))
	token := p.token(t)
	p.set(func() { p.signer, p.keys = second, []*key{second} })
	_, err := o.Authenticate(t.Context(), token)
	require.NoError(t, err)

	require.NoError(t, o.issuer.refresh(t.Context())) // run does so every minute
	_, err = o.Authenticate(t.Context(), token)
	require.EqualError(t, err, "the token is signed with an unknown key")
	_, err = o.Authenticate(t.Context(), p.token(t))
	require.NoError(t, err)
}

func TestAKeyReplacedUnderItsIDIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t, newRSAKey("same", 0))
	o := p.oidcFor(t, newClock())
	require.NoError(t, o.issuer.refresh(t.Context()))
	token := p.token(t)
	p.set(func() { p.signer = newRSAKey("same", 1); p.keys = []*key{p.signer} })
	require.NoError(t, o.issuer.refresh(t.Context()))
	_, err := o.Authenticate(t.Context(), token)
	require.EqualError(t, err, "the token has a wrong signature")
}

func TestNobodyIsAuthenticatedBeforeTheProviderAnswers(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.oidcFor(t, newClock())
	token := p.token(t)
	p.away.Store(true)
	for range 2 {
		_, err := o.Authenticate(t.Context(), token)
		require.EqualError(t, err, "unavailable: the identity provider does not answer")
		require.NotErrorIs(t, err, dlq.ErrUnauthenticated)
		var notice *dlq.NoticeError
		require.ErrorAs(t, o.Check(t.Context()), &notice)
		require.True(t, notice.Unavailable)
		require.NotContains(t, notice.Notice, "127.0.0.1")
		require.Error(t, o.issuer.refresh(t.Context()))
	}
	p.away.Store(false)
	require.NoError(t, o.issuer.refresh(t.Context()))
	require.NoError(t, o.Check(t.Context()))
	_, err := o.Authenticate(t.Context(), token)
	require.NoError(t, err)
}

func TestKnownKeysAreValidForAnHourWithoutTheProvider(t *testing.T) {
	t.Parallel()
	p, c := newProvider(t), newClock()
	o := p.oidcFor(t, c)
	require.NoError(t, o.issuer.refresh(t.Context()))
	fresh := func() string { // a token that is valid at the time of the test's clock and of the real clock
		return forged(t, p.signer, nil, map[string]any{"iss": p.server.URL, "aud": audience, "sub": "a", "exp": c.now().Add(time.Minute).Unix()})
	}
	p.away.Store(true)
	c.advance(keysValid)
	require.Error(t, o.issuer.refresh(t.Context()))
	_, err := o.Authenticate(t.Context(), fresh())
	require.NoError(t, err)
	var notice *dlq.NoticeError
	require.ErrorAs(t, o.Check(t.Context()), &notice)
	require.False(t, notice.Unavailable)
	require.Contains(t, notice.Notice, "its known keys are valid until")
	unknown := forged(t, newRSAKey("new", 1), nil, map[string]any{})
	_, err = o.Authenticate(t.Context(), unknown)
	require.ErrorIs(t, err, dlq.ErrUnavailable, "the key may be a new one")

	c.advance(time.Second)
	_, err = o.Authenticate(t.Context(), fresh())
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	require.ErrorAs(t, o.Check(t.Context()), &notice)
	require.True(t, notice.Unavailable)
}

func TestRunFetchesTheKeys(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.oidcFor(t, newClock())
	ended := make(chan struct{})
	go func() { defer close(ended); o.Run(t.Context()) }()
	require.Eventually(t, func() bool { return o.Check(t.Context()) == nil }, 10*time.Second, time.Millisecond)
	t.Cleanup(func() { <-ended }) // the context of the test ends before this function runs
}

func TestAProviderThatAnswersNonsenseIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		discovery map[string]any
		keys      string
		want      string
	}{
		"other issuer":       {map[string]any{"issuer": "https://other.example"}, `{"keys":[]}`, "did not match"},
		"symmetric only":     {map[string]any{"id_token_signing_alg_values_supported": []string{"HS256", "none"}}, `{"keys":[]}`, "no asymmetric algorithm"},
		"no algorithms":      {map[string]any{"id_token_signing_alg_values_supported": nil}, `{"keys":[]}`, "no asymmetric algorithm"},
		"no address of keys": {map[string]any{"jwks_uri": nil}, `{"keys":[]}`, "is not an https URL"},
		"keys in a file":     {map[string]any{"jwks_uri": "file:///etc/passwd"}, `{"keys":[]}`, "is not an https URL"},
		"keys not JSON":      {nil, `<html>`, "keys: invalid character"},
		"no keys":            {nil, `{}`, `has no "keys"`},
		"keys elsewhere":     {map[string]any{"jwks_uri": "/moved"}, `{"keys":[]}`, "is not an https URL"},
		"redirected keys":    {nil, "redirect", "answered 302"},
		"endless keys":       {nil, "endless", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			discovery := map[string]any{"issuer": server.URL, "jwks_uri": server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}}
			maps.Copy(discovery, c.discovery)
			mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(discovery)
			})
			mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
				switch c.keys {
				case "redirect":
					http.Redirect(w, r, "https://elsewhere.example/keys", http.StatusFound)
				case "endless":
					for range 2 * maxAnswer / 64 {
						_, _ = w.Write(bytes.Repeat([]byte(" "), 64))
					}
				default:
					_, _ = w.Write([]byte(c.keys))
				}
			})
			o := NewOIDC(OIDCOptions{Issuer: server.URL, Audience: audience, Log: zap.NewNop()})
			require.ErrorContains(t, o.issuer.refresh(t.Context()), c.want)
			require.Error(t, o.Check(t.Context()))
		})
	}
}

func TestALongAnswerDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
	}))
	t.Cleanup(server.Close)
	o := NewOIDC(OIDCOptions{Issuer: server.URL, Audience: audience, Log: zap.NewNop()})
	err := o.issuer.refresh(t.Context())
	require.ErrorContains(t, err, "404 Not Found")
	require.Less(t, len(err.Error()), 400)
}

func TestKeysOfUnknownKindsDoNotHideTheOthers(t *testing.T) {
	t.Parallel()
	var set []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(`[
		{"kty": "future", "kid": "1"}, 7, "text", {"kty": "oct", "k": "AAAA", "kid": "2"},
		{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "3"},
		{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "4", "use": "enc"}
	]`), &set))
	keys, _ := usable(set)
	require.Len(t, keys, 1)
	require.Equal(t, "3", keys[0].KeyID)
}
