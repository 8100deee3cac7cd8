package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"dlqmanager/api"
	"dlqmanager/auth"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

// access makes the authenticator that is configured, and adds its readiness checks. The authenticator is nil if authentication
// is off. The keys of an identity provider are fetched regularly until ctx ends.
func (p *parts) access(ctx context.Context, checks map[string]telemetry.Check) (api.Authenticator, error) {
	cfg := p.cfg.Auth
	if !cfg.Enabled() {
		p.log.Warn("authentication is off: whoever reaches the API may do everything")
		return nil, nil //nolint:nilnil // no authentication is a valid configuration
	}
	var authenticators []auth.Authenticator
	if cfg.Has("token") {
		tokens, err := p.tokens("auth.tokens_file", cfg.TokensFile, checks)
		if err != nil {
			return nil, err
		}
		authenticators = append(authenticators, tokens)
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
	return auth.First(p.registry, authenticators...), nil
}

// tokens opens a file of static tokens, which the configuration has under key. It adds the metric and the readiness check of
// the file.
func (p *parts) tokens(key, file string, checks map[string]telemetry.Check) (*auth.Tokens, error) {
	tokens, err := auth.NewTokens(file, p.log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	p.registry.MustRegister(tokens.Expiry())
	checks["tokens"] = tokens.Check
	return tokens, nil
}

// metricsHandler serves the metrics of a worker. If a file of tokens is configured, requests for the metrics need a token, and
// the readiness check of the file is added.
func (p *parts) metricsHandler(checks map[string]telemetry.Check) (http.Handler, error) {
	metrics := telemetry.Handler(p.registry, p.log)
	if p.cfg.Worker.TokensFile == "" {
		return metrics, nil
	}
	tokens, err := p.tokens("worker.tokens_file", p.cfg.Worker.TokensFile, checks)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		principal, err := tokens.Authenticate(r.Context(), strings.TrimSpace(token))
		if len(r.Header.Values("Authorization")) > 1 {
			err = errors.New("the request has more than one Authorization header")
		}
		switch {
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="dlq-manager"`)
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case !principal.May(dlq.PermMetricsRead) || principal.Within(dlq.PermMetricsRead) != "":
			http.Error(w, "this needs the permission "+string(dlq.PermMetricsRead)+" on all topics", http.StatusForbidden)
		default:
			metrics.ServeHTTP(w, r)
		}
	}), nil
}

// noticeOnly turns a failed check of the identity provider into a notice. The server stays ready, since static tokens still
// work.
func noticeOnly(check telemetry.Check) telemetry.Check {
	return func(ctx context.Context) error {
		err := check(ctx)
		if notice, ok := errors.AsType[*dlq.NoticeError](err); ok {
			return &dlq.NoticeError{Notice: notice.Notice}
		}
		return err
	}
}
