package app

import (
	"context"
	"errors"
	"fmt"

	"dlqmanager/api"
	"dlqmanager/auth"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

// access builds the authentication from the configuration, and adds its readiness checks. It
// is nil if nobody is asked who they are. The keys of an identity provider are fetched until
// ctx ends.
func (p *parts) access(ctx context.Context, checks map[string]telemetry.Check) (api.Authenticator, error) {
	cfg := p.cfg.Auth
	if !cfg.Enabled() {
		p.log.Warn("authentication is off: whoever reaches the API may do everything")
		return nil, nil //nolint:nilnil // no authentication is a valid configuration
	}
	var authenticators []auth.Authenticator
	if cfg.Has("token") {
		tokens, err := auth.NewTokens(cfg.TokensFile, p.log)
		if err != nil {
			return nil, fmt.Errorf("auth.tokens_file: %w", err)
		}
		p.registry.MustRegister(tokens.Expiry())
		authenticators = append(authenticators, tokens)
		checks["tokens"] = tokens.Check
	}
	if cfg.Has("oidc") {
		if _, err := cfg.OIDC.TLS(); err != nil {
			return nil, fmt.Errorf("auth.oidc: %w", err)
		}
		roles, err := cfg.OIDC.Roles.Grants()
		if err != nil {
			return nil, fmt.Errorf("auth.oidc.roles: %w", err)
		}
		provider := auth.NewOIDC(auth.OIDCOptions{
			Issuer: cfg.OIDC.Issuer, Audience: cfg.OIDC.Audience,
			SubjectClaim: cfg.OIDC.SubjectClaim, RolesClaim: cfg.OIDC.RolesClaim, Roles: roles,
			ClockSkew: cfg.OIDC.ClockSkew.Std(), TLS: cfg.OIDC.TLS, Log: p.log,
		})
		go provider.Run(ctx)
		authenticators = append(authenticators, provider)
		checks["identity"] = provider.Check
		if cfg.Has("token") {
			checks["identity"] = noticeOnly(provider.Check)
		}
	}
	return auth.NewMetrics(p.registry).Count(auth.First(authenticators...)), nil
}

// noticeOnly keeps a server ready without its identity provider: static tokens still work.
func noticeOnly(check telemetry.Check) telemetry.Check {
	return func(ctx context.Context) error {
		err := check(ctx)
		if notice, ok := errors.AsType[*dlq.NoticeError](err); ok {
			return &dlq.NoticeError{Notice: notice.Notice}
		}
		return err
	}
}
