package config

import (
	"crypto/tls"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// Auth configures who may use the REST API.
type Auth struct {
	// Mode is "none", or has "token", "oidc" or both. An empty Mode means "none", and is accepted only if server.host is a
	// loopback address.
	Mode []string `yaml:"mode" check:"one of none, token, oidc"`
	// Open lists the routes that are answered without a token. "none" stands for no route.
	Open []string `yaml:"open" default:"healthz,readyz,metrics" check:"one of healthz, readyz, metrics, none"`
	// TokensFile has the static tokens. A changed file is read again.
	TokensFile string `yaml:"tokens_file"`
	OIDC       OIDC   `yaml:"oidc"`
}

// OIDC is an identity provider.
type OIDC struct {
	// Issuer is the URL of the provider, exactly as tokens write it.
	Issuer string `yaml:"issuer" check:"issuer"`
	// Audience must be one of the audiences of a token.
	Audience string `yaml:"audience"`
	// SubjectClaim and RolesClaim are names of claims. A dot separates the names of nested claims.
	SubjectClaim string `yaml:"subject_claim" default:"sub" check:"required"`
	RolesClaim   string `yaml:"roles_claim" default:"groups" check:"required"`
	// Roles maps values of the roles claim to grants.
	Roles RoleGrants `yaml:"roles"`
	// ClockSkew is how far the clocks of the provider and of this host may differ.
	ClockSkew Duration `yaml:"clock_skew" default:"1m" check:"at most 10m"`
	// CAFile has the certificates to trust for the provider. If it is empty, the system's certificates are trusted.
	CAFile string `yaml:"ca_file"`
}

// Has reports whether Mode has a mode.
func (a Auth) Has(mode string) bool { return slices.Contains(a.Mode, mode) }

// Enabled reports whether requests need a token.
func (a Auth) Enabled() bool { return a.Has("token") || a.Has("oidc") }

// TLS returns the TLS configuration for a connection to the provider. It reads CAFile, so call it for every new connection.
func (o OIDC) TLS() (*tls.Config, error) { return TLS{CAFile: o.CAFile}.Config() }

func (a Auth) validate(s section) {
	s.refuse(a.Has("none") && len(a.Mode) > 1, "mode", "none cannot be used together with another mode")
	s.refuse(len(a.Open) > 1 && slices.Contains(a.Open, "none"), "open", "none cannot be used together with a page")
	s.refuse(a.Has("token") && a.TokensFile == "", "tokens_file", "is required")
	s.refuse(!a.Has("token") && a.TokensFile != "", "tokens_file", "has no effect without token in auth.mode")
	if !a.Has("oidc") {
		s.refuse(s.given("oidc"), "oidc", "has no effect without oidc in auth.mode")
		return
	}
	s.refuse(a.OIDC.Issuer == "", "oidc.issuer", "is required")
	s.refuse(strings.TrimSpace(a.OIDC.Audience) == "", "oidc.audience", "is required")
	s.refuse(len(a.OIDC.Roles) == 0, "oidc.roles", "is required: without it nobody may do anything")
}

// validateAuth requires Mode, unless the API listens on loopback. Otherwise an operator who forgets authentication would let
// everybody in the network delete messages.
func (c *Config) validateAuth(s section) {
	if len(c.Auth.Mode) > 0 || dlq.IsLoopback(c.Server.Host) {
		return
	}
	s.addAt("server.host", "auth.mode", "is required, since server.host (%s) is not a loopback address: "+
		"set it to token or oidc, or to none if everybody who reaches the port may delete and resend messages", c.Server.Host)
}
