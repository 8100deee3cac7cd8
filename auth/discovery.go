package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// fetchTimeout limits a fetch, which has two requests.
const fetchTimeout = 5 * time.Second

// maxAnswer limits the size of the provider's answer, in bytes.
const maxAnswer = 1 << 20

// maxErrorText limits an error of go-oidc in the log, in characters.
const maxErrorText = 300

// asymmetric are the algorithms that may sign tokens. HMAC is left out: whoever can verify a token with HMAC can also make
// tokens.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// discover fetches the metadata and the keys of the identity provider. Every call makes new connections and finds the URL of
// the keys again, so that a new URL or a new certificate needs no restart.
func (o *OIDCOptions) discover(ctx context.Context) (*metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), o.Issuer)
	if err != nil { // the error's text may have the whole answer
		return nil, fmt.Errorf("discovery: %.*s", maxErrorText, err.Error())
	}
	var announced struct {
		Keys       string                    `json:"jwks_uri"`
		Algorithms []jose.SignatureAlgorithm `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&announced); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if err := o.checkAddress(announced.Keys); err != nil {
		return nil, err
	}
	isOther := func(algorithm jose.SignatureAlgorithm) bool { return !slices.Contains(asymmetric, algorithm) }
	m := &metadata{algorithms: slices.DeleteFunc(slices.Clone(announced.Algorithms), isOther)}
	if len(m.algorithms) == 0 {
		return nil, fmt.Errorf("discovery: no asymmetric algorithm among %q", announced.Algorithms)
	}
	if m.set, m.short, err = fetchKeys(ctx, client, announced.Keys); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return m, nil
}

// checkAddress refuses to fetch keys over plain HTTP, unless the URL of the issuer is plain HTTP too.
func (o *OIDCOptions) checkAddress(keys string) error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil {
		return err
	}
	address, err := url.Parse(keys)
	if err != nil || address.Scheme != issuer.Scheme && address.Scheme != "https" {
		return fmt.Errorf("discovery: jwks_uri %q is not an https URL", keys)
	}
	return nil
}

func fetchKeys(ctx context.Context, client *http.Client, address string) (keys, short []jose.JSONWebKey, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answered %s", address, response.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, nil, err
	}
	if set.Keys == nil {
		return nil, nil, errors.New(`the answer has no "keys"`)
	}
	keys, short = usable(set.Keys)
	return keys, short, nil
}

// minRSABits is the length of the shortest RSA key that is accepted, in bits.
const minRSABits = 2048

// usable returns the keys that verify signatures. It also returns the RSA keys that are too short. Other keys are skipped: a
// provider may have keys of unknown kinds, and they must not hide the usable keys.
func usable(set []json.RawMessage) (keys, short []jose.JSONWebKey) {
	for _, raw := range set {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch public := key.Key.(type) {
		case *rsa.PublicKey:
			if public.N.BitLen() < minRSABits {
				short = append(short, key)
				continue
			}
			keys = append(keys, key)
		case *ecdsa.PublicKey, ed25519.PublicKey:
			keys = append(keys, key)
		}
	}
	return keys, short
}

// client returns an HTTP client that follows no redirects, since a redirect could lead to another server.
func (o *OIDCOptions) client() (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	return &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// bounded limits the size of answers in bytes.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}
