package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// provider is the part of an OpenID provider's metadata that a sign-in needs.
type provider struct {
	Issuer     string `json:"issuer"`
	Device     string `json:"device_authorization_endpoint"`
	Token      string `json:"token_endpoint"`
	Revocation string `json:"revocation_endpoint"`
}

// discover reads the provider's metadata, once.
func (f *DeviceFlow) discover(ctx context.Context) (*provider, error) {
	if f.provider != nil {
		return f.provider, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(f.config.Issuer, "/")+"/.well-known/openid-configuration", http.NoBody)
	if err != nil {
		return nil, err
	}
	p := &provider{}
	if err := f.do(request, p); err != nil {
		return nil, err
	}
	if p.Issuer != f.config.Issuer {
		return nil, fmt.Errorf("the identity provider at %s calls itself %q; give the issuer exactly so", f.config.Issuer, p.Issuer)
	}
	if p.Device == "" {
		return nil, fmt.Errorf("the identity provider %s announces no device flow (device_authorization_endpoint); enable it there", p.Issuer)
	}
	for _, address := range []string{p.Device, p.Token, cmp.Or(p.Revocation, p.Token)} {
		if err := checkProviderURL("an address of the identity provider", address); err != nil {
			return nil, err
		}
	}
	f.provider = p
	return p, nil
}

// checkProviderURL refuses addresses to which no token may be sent.
func checkProviderURL(name, address string) error {
	at, err := url.Parse(address)
	if err == nil && at.Host != "" && at.User == nil && (at.Scheme == "https" || at.Scheme == "http" && isLoopback(at.Hostname())) {
		return nil
	}
	if err == nil {
		address = at.Redacted()
	}
	return fmt.Errorf("%s %q is not a URL with https; plain http is for loopback addresses only", name, address)
}

func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// seconds reads a number of seconds from the provider, at most a day.
func seconds(n float64, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(min(n, 24*60*60) * float64(time.Second))
}

// exchange asks for tokens.
func (f *DeviceFlow) exchange(ctx context.Context, p *provider, form url.Values) (Tokens, error) {
	var answer struct {
		Access    string  `json:"access_token"`
		Kind      string  `json:"token_type"`
		Refresh   string  `json:"refresh_token"`
		ExpiresIn float64 `json:"expires_in"`
	}
	if err := f.post(ctx, p.Token, form, &answer); err != nil {
		return Tokens{}, err
	}
	if answer.Access == "" || !strings.EqualFold(answer.Kind, "Bearer") {
		return Tokens{}, fmt.Errorf("the identity provider %s has given no bearer token", p.Issuer)
	}
	tokens := Tokens{Issuer: f.config.Issuer, ClientID: f.config.ClientID, Access: answer.Access, Refresh: answer.Refresh}
	if lifetime := seconds(answer.ExpiresIn, 0); lifetime > 0 {
		tokens.Expires = time.Now().Add(lifetime)
		tokens.Renew = tokens.Expires.Add(-min(30*time.Second, lifetime/4)) // the token has to arrive before it expires
	}
	return tokens, nil
}

// providerError tells that the provider has refused a request or does not answer.
type providerError struct {
	code, text string
	mayPass    bool // the same request may succeed later
	cause      error
}

func (e *providerError) Error() string { return e.text }
func (e *providerError) Unwrap() error { return e.cause }

func (f *DeviceFlow) post(ctx context.Context, address string, form url.Values, answer any) error {
	form.Set("client_id", f.config.ClientID)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return f.do(request, answer, slices.Concat(form["refresh_token"], form["device_code"], form["token"])...)
}

// do sends a request, and decodes the response into answer unless answer is nil. A provider may quote the secrets; errors do not.
func (f *DeviceFlow) do(request *http.Request, answer any, secrets ...string) error {
	request.Header.Set("Accept", "application/json")
	response, err := f.http.Do(request)
	if err != nil {
		return &providerError{text: "the identity provider does not answer: " + err.Error(), mayPass: true, cause: err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return &providerError{text: "the answer of the identity provider is cut off: " + err.Error(), mayPass: true, cause: err}
	}
	if response.StatusCode != http.StatusOK {
		var refusal struct {
			Code string `json:"error"`
			Text string `json:"error_description"`
		}
		_ = json.Unmarshal(content, &refusal) // an answer that is not JSON has no code
		for _, secret := range secrets {
			refusal.Code, refusal.Text = strings.ReplaceAll(refusal.Code, secret, "…"), strings.ReplaceAll(refusal.Text, secret, "…")
		}
		return &providerError{
			code: refusal.Code, mayPass: response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests,
			text: strings.TrimRight(fmt.Sprintf("the identity provider %s answered with status %d: %.100s: %.300s", request.URL.Host,
				response.StatusCode, refusal.Code, refusal.Text), ": "),
		}
	}
	if answer != nil && json.Unmarshal(content, answer) != nil { // the error of json may quote a token
		return fmt.Errorf("the identity provider answered %s with something else than its JSON; check the issuer", request.URL.Redacted())
	}
	return nil
}
