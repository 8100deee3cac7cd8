package auth

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestATokenOfTheProviderAuthenticates(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.oidcFor(t, newClock())
	require.NoError(t, o.issuer.refresh(t.Context()))

	principal, err := o.Authenticate(t.Context(), p.token(t))
	require.NoError(t, err)
	require.Equal(t, "sid1", principal.Subject)
	require.Equal(t, "oidc", principal.Method)
	require.True(t, principal.MayOn(dlq.PermMessageRetry, "payments.dlq"))
	require.False(t, principal.MayOn(dlq.PermMessageRetry, "orders.dlq"))
	require.False(t, principal.May(dlq.PermMessageDelete))
}

func TestRolesComeFromTheClaim(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.oidcFor(t, newClock())
	require.NoError(t, o.issuer.refresh(t.Context()))
	for name, c := range map[string]struct {
		groups any
		want   []dlq.Role
	}{
		"one text":           {"dlq-admins", []dlq.Role{dlq.RoleAdmin}},
		"a list":             {[]any{"payments", "other", "dlq-admins"}, []dlq.Role{dlq.RoleOperator, dlq.RoleAdmin}},
		"repeated":           {[]any{"payments", "payments"}, []dlq.Role{dlq.RoleOperator}},
		"unmapped":           {"other", nil},
		"missing":            {nil, nil},
		"a number":           {42, nil},
		"an object":          {map[string]any{"payments": "dlq-admins"}, nil},
		"a list of others":   {[]any{1, nil, true, []any{"dlq-admins"}, map[string]any{"a": 1}}, nil},
		"a role, not a name": {"admin", nil},
		"texts in one":       {"payments,dlq-admins", nil},
	} {
		p.set(func() { p.groups = c.groups })
		principal, err := o.Authenticate(t.Context(), p.token(t))
		require.NoError(t, err, name)
		var got []dlq.Role
		for _, grant := range principal.Grants {
			got = append(got, grant.Role)
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestClaimsMayBeNestedOrHaveDots(t *testing.T) {
	t.Parallel()
	var claims map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"a": {"b": {"c": "nested"}, "text": "x"}, "https://a.b/c": "dots"}`), &claims))
	require.Equal(t, "nested", claim(claims, "a.b.c"))
	require.Equal(t, "dots", claim(claims, "https://a.b/c"))
	for _, path := range []string{"a.x.c", "a.text.c", "x", "x.y", ".", "a."} {
		require.Nil(t, claim(claims, path), path)
	}
}

// forged signs claims with a key of the test. It leaves out the claims that are nil.
func forged(t *testing.T, k *key, header map[jose.HeaderKey]any, claims map[string]any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: header}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, options)
	require.NoError(t, err)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestForgedAndStaleTokensAreRefused(t *testing.T) {
	t.Parallel()
	own := newRSAKey("first", 0)
	p := newProvider(t, own)
	c := newClock()
	o := p.oidcFor(t, c)
	require.NoError(t, o.issuer.refresh(t.Context()))

	at := func(d time.Duration) int64 { return c.now().Add(d).Unix() }
	with := func(changes map[string]any) map[string]any {
		claims := map[string]any{"iss": p.server.URL, "aud": audience, "sub": "eve", "exp": at(time.Hour), "iat": at(0), "groups": "dlq-admins"}
		maps.Copy(claims, changes)
		return claims
	}
	signed := func(changes map[string]any) string { return forged(t, own, nil, with(changes)) }
	typed := func(kind any) string { return forged(t, own, map[jose.HeaderKey]any{"typ": kind}, with(nil)) }
	good := signed(nil)
	parts := strings.Split(good, ".")

	// The attack uses the public key as the secret of HMAC, in a form that some libraries accepted.
	der, err := x509.MarshalPKIXPublicKey(own.private.Public())
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: own.id}}, nil)
	require.NoError(t, err)
	payload, err := json.Marshal(with(nil))
	require.NoError(t, err)
	object, err := hmac.Sign(payload)
	require.NoError(t, err)
	confused, err := object.CompactSerialize()
	require.NoError(t, err)

	wrong := newRSAKey(own.id, 1)
	embedded, err := jose.JSONWebKey{Key: wrong.private.Public(), KeyID: own.id}.MarshalJSON()
	require.NoError(t, err)
	var jwk map[string]any
	require.NoError(t, json.Unmarshal(embedded, &jwk))

	for name, attack := range map[string]struct {
		token string
		want  Reason // empty if the token is valid
	}{
		"valid":                      {good, ""},
		"expired within the skew":    {signed(map[string]any{"exp": at(-50 * time.Second)}), ""},
		"early within the skew":      {signed(map[string]any{"nbf": at(50 * time.Second)}), ""},
		"one of several audiences":   {signed(map[string]any{"aud": []string{"other", audience}}), ""},
		"access token":               {typed("at+JWT"), ""},
		"access token, long form":    {typed("application/at+jwt"), ""},
		"expired":                    {signed(map[string]any{"exp": at(-70 * time.Second)}), ReasonExpired},
		"expired long ago":           {signed(map[string]any{"exp": -1e18}), ReasonExpired},
		"without expiry":             {signed(map[string]any{"exp": nil}), ReasonMalformed},
		"expiry as text":             {signed(map[string]any{"exp": "9999999999"}), ReasonMalformed},
		"expiry as a list":           {signed(map[string]any{"exp": []int{1}}), ReasonMalformed},
		"not yet valid":              {signed(map[string]any{"nbf": at(70 * time.Second)}), ReasonNotYetValid},
		"not valid for aeons":        {signed(map[string]any{"nbf": 1e300}), ReasonNotYetValid},
		"start as text":              {signed(map[string]any{"nbf": "9999999999"}), ReasonMalformed},
		"issued in the future":       {signed(map[string]any{"iat": at(time.Hour)}), ReasonNotYetValid},
		"other audience":             {signed(map[string]any{"aud": "other"}), ReasonAudience},
		"longer audience":            {signed(map[string]any{"aud": audience + "-2"}), ReasonAudience},
		"audience in other case":     {signed(map[string]any{"aud": "other", "Aud": audience}), ReasonAudience},
		"issuer in other case":       {signed(map[string]any{"iss": "https://other.example", "Iss": p.server.URL}), ReasonIssuer},
		"logout token without type":  {signed(map[string]any{"events": map[string]any{}}), ReasonMalformed},
		"invisible subject":          {signed(map[string]any{"sub": "a\u202eb"}), ReasonMalformed},
		"no audience":                {signed(map[string]any{"aud": nil}), ReasonAudience},
		"audience as an object":      {signed(map[string]any{"aud": map[string]any{audience: true}}), ReasonMalformed},
		"other issuer":               {signed(map[string]any{"iss": "https://other.example"}), ReasonIssuer},
		"issuer with a slash":        {signed(map[string]any{"iss": p.server.URL + "/"}), ReasonIssuer},
		"no issuer":                  {signed(map[string]any{"iss": nil}), ReasonIssuer},
		"no subject":                 {signed(map[string]any{"sub": nil}), ReasonMalformed},
		"empty subject":              {signed(map[string]any{"sub": ""}), ReasonMalformed},
		"subject as a number":        {signed(map[string]any{"sub": 1}), ReasonMalformed},
		"subject with a line break":  {signed(map[string]any{"sub": "a\nb"}), ReasonMalformed},
		"a very long subject":        {signed(map[string]any{"sub": strings.Repeat("a", 256)}), ReasonMalformed},
		"logout token":               {typed("logout+jwt"), ReasonMalformed},
		"type as a number":           {typed(1), ReasonMalformed},
		"signature cut off":          {parts[0] + "." + parts[1] + ".", ReasonSignature},
		"unsigned, alg none":         {part(`{"alg":"none"}`) + "." + parts[1] + ".", ReasonMalformed},
		"alg None":                   {part(`{"alg":"None"}`) + "." + parts[1] + "." + parts[2], ReasonMalformed},
		"alg none with a signature":  {part(`{"alg":"none","kid":"first"}`) + "." + parts[1] + "." + parts[2], ReasonMalformed},
		"without alg":                {part(`{"kid":"first"}`) + "." + parts[1] + "." + parts[2], ReasonMalformed},
		"HMAC with the public key":   {confused, ReasonMalformed},
		"algorithm not announced":    {forged(t, &key{id: own.id, algorithm: jose.PS256, private: own.private}, nil, with(nil)), ReasonMalformed},
		"algorithm of another key":   {forged(t, &key{id: own.id, algorithm: jose.ES256, private: newECKey(t, "").private}, nil, with(nil)), ReasonUnknown},
		"wrong key":                  {forged(t, wrong, nil, with(nil)), ReasonSignature},
		"wrong key without an id":    {forged(t, newRSAKey("", 1), nil, with(nil)), ReasonSignature},
		"its own key in the header":  {forged(t, wrong, map[jose.HeaderKey]any{"jwk": jwk}, with(nil)), ReasonSignature},
		"its own address of keys":    {forged(t, wrong, map[jose.HeaderKey]any{"jku": "https://eve.example/keys"}, with(nil)), ReasonSignature},
		"unknown critical extension": {forged(t, own, map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1}, with(nil)), ReasonSignature},
		"changed claims":             {parts[0] + "." + part(`{"sub":"admin"}`) + "." + parts[2], ReasonSignature},
		"unknown key":                {forged(t, newRSAKey("other", 1), nil, with(nil)), ReasonUnknown},
		"claims not an object":       {forgedText(t, own, `["a"]`), ReasonMalformed},
		"claims null":                {forgedText(t, own, `null`), ReasonMalformed},
		"claims not JSON":            {forgedText(t, own, `{"iss":`), ReasonMalformed},
		"10 KB long":                 {signed(map[string]any{"filler": strings.Repeat("a", 10_000)}), ReasonMalformed},
		"empty":                      {"", ReasonMissing},
		"garbage":                    {"garbage", ReasonMalformed},
		"two dots only":              {"..", ReasonMalformed},
		"three dots":                 {good + ".x", ReasonMalformed},
		"JSON serialization":         {`{"payload":"a.b.c"}`, ReasonMalformed},
		"zero bytes":                 {"\x00.\x00.\x00", ReasonMalformed},
		"trailing space":             {good + " ", ReasonMalformed},
		"deeply nested header":       {part(strings.Repeat("[", 5000)) + ".a.b", ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			principal, err := o.Authenticate(t.Context(), attack.token)
			if attack.want == "" {
				require.NoError(t, err)
				require.Equal(t, "eve", principal.Subject)
				return
			}
			require.ErrorIs(t, err, dlq.ErrUnauthenticated)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, attack.want, refused.Reason, refused.Error())
			require.Equal(t, dlq.Principal{}, principal)
			require.Less(t, len(err.Error()), 200, "it repeats nothing of the token")
		})
	}
}

func forgedText(t *testing.T, k *key, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, nil)
	require.NoError(t, err)
	signed, err := signer.Sign([]byte(payload))
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

func TestFirstAsksTheAuthenticatorOfTheKind(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o := p.oidcFor(t, newClock()) // without keys the provider is unavailable
	tokens, token := tokensWith(t, "- {name: ci, hash: %s, role: viewer}\n")
	both := First(prometheus.NewRegistry(), tokens, o)

	principal, err := both.Authenticate(t.Context(), token)
	require.NoError(t, err, "static tokens do not need the provider")
	require.Equal(t, "ci", principal.Subject)
	_, err = both.Authenticate(t.Context(), NewToken())
	require.EqualError(t, err, "the token is unknown")
	_, err = both.Authenticate(t.Context(), "a.b.c")
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	_, err = both.Authenticate(t.Context(), "")
	require.EqualError(t, err, "a bearer token is required")
	_, err = both.Authenticate(t.Context(), "garbage")
	require.ErrorIs(t, err, dlq.ErrUnauthenticated)
	_, err = both.Authenticate(t.Context(), strings.Repeat("a", maxToken+1))
	require.EqualError(t, err, "the token is longer than 8192 bytes")
}

// BenchmarkAToken measures the time of checking a token.
func BenchmarkAToken(b *testing.B) {
	p := newProvider(b)
	o := p.oidcFor(b, newClock())
	require.NoError(b, o.issuer.refresh(b.Context()))
	token := p.token(b)
	for b.Loop() {
		if _, err := o.Authenticate(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
