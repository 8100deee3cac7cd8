package config

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// Auth configures who may use the REST API.
type Auth struct {
	// Mode is "none", or lists "token" and "oidc". Empty also means that nobody is asked who
	// they are, and is accepted on a loopback address only.
	Mode []string `yaml:"mode"`
	// Open lists the pages that are answered without a token; "none" stands for no page.
	Open []string `yaml:"open"`
	// TokensFile has the static tokens. It is read again when it changes.
	TokensFile string `yaml:"tokens_file"`
	OIDC       OIDC   `yaml:"oidc"`
}

// OIDC is an identity provider.
type OIDC struct {
	// Issuer is the URL of the provider, exactly as in its tokens.
	Issuer string `yaml:"issuer"`
	// Audience must be among the audiences of a token.
	Audience string `yaml:"audience"`
	// SubjectClaim and RolesClaim name claims; a dot separates the names of nested ones.
	SubjectClaim string `yaml:"subject_claim"`
	RolesClaim   string `yaml:"roles_claim"`
	// Roles maps values of the roles claim to what they grant.
	Roles RoleGrants `yaml:"roles"`
	// ClockSkew is how far the provider's clock may differ.
	ClockSkew Duration `yaml:"clock_skew"`
	// CAFile holds the certificates that are trusted for the provider; empty means the system's.
	CAFile string `yaml:"ca_file"`
}

func defaultAuth() Auth {
	return Auth{
		Open: []string{"healthz", "readyz", "metrics"},
		OIDC: OIDC{SubjectClaim: "sub", RolesClaim: "groups", ClockSkew: Duration(time.Minute)},
	}
}

// Has reports whether a mode is on.
func (a Auth) Has(mode string) bool { return slices.Contains(a.Mode, mode) }

// Enabled reports whether requests need a token.
func (a Auth) Enabled() bool { return a.Has("token") || a.Has("oidc") }

// TLS returns the configuration of a connection to the provider. It reads CAFile, so call it
// for every new connection.
func (o OIDC) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile == "" {
		return config, nil
	}
	var err error
	config.RootCAs, err = readAuthorities("ca_file", o.CAFile)
	return config, err
}

func (a Auth) validate(r *report) {
	r.distinct("auth.mode", a.Mode, "none", "token", "oidc")
	r.distinct("auth.open", a.Open, "healthz", "readyz", "metrics", "none")
	if a.Has("none") && len(a.Mode) > 1 {
		r.add("auth.mode", "none cannot be used together with another mode")
	}
	if len(a.Open) > 1 && slices.Contains(a.Open, "none") {
		r.add("auth.open", "none cannot be used together with a page")
	}
	switch {
	case a.Has("token"):
		r.notEmpty("auth.tokens_file", a.TokensFile)
	case a.TokensFile != "":
		r.add("auth.tokens_file", "has no effect without token in auth.mode")
	}
	switch {
	case a.Has("oidc"):
		a.OIDC.validate(r)
	case r.given("auth.oidc"):
		r.add("auth.oidc", "has no effect without oidc in auth.mode")
	}
}

func (o OIDC) validate(r *report) {
	r.issuer("auth.oidc.issuer", o.Issuer)
	r.notEmpty("auth.oidc.audience", o.Audience)
	r.notEmpty("auth.oidc.subject_claim", o.SubjectClaim)
	r.notEmpty("auth.oidc.roles_claim", o.RolesClaim)
	r.atMost("auth.oidc.clock_skew", o.ClockSkew, 10*time.Minute)
	if len(o.Roles) == 0 {
		r.add("auth.oidc.roles", "is required: without it nobody may do anything")
	}
	o.Roles.validate(r, "auth.oidc.roles")
}

// validateAuth prevents that anybody in the network can delete messages because nobody
// thought of authentication.
func (c *Config) validateAuth(r *report) {
	if len(c.Auth.Mode) > 0 || dlq.IsLoopback(c.Server.Host) {
		return
	}
	r.addAt("server.host", "auth.mode", "is required, since server.host (%s) is not a loopback address: "+
		"set it to token or oidc, or to none if everybody who reaches the port may delete and resend messages", c.Server.Host)
}

// distinct checks a list of words.
func (r *report) distinct(path string, values []string, allowed ...string) {
	for i, value := range values {
		item := fmt.Sprintf("%s[%d]", path, i)
		r.oneOf(item, value, allowed...)
		if slices.Contains(values[:i], value) {
			r.add(item, "occurs twice")
		}
	}
}

// issuer checks the URL of an identity provider. Over plain HTTP anybody on the way could
// exchange its keys.
func (r *report) issuer(path, value string) {
	parsed, err := url.Parse(value)
	switch {
	case value == "":
		r.add(path, "is required")
	case err != nil, parsed.Host == "", parsed.User != nil, parsed.RawQuery != "", parsed.Fragment != "",
		parsed.Scheme != "https" && (parsed.Scheme != "http" || !dlq.IsLoopback(parsed.Hostname())):
		r.add(path, "must be an https URL without user, query and fragment")
	}
}
