package app

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/api"
	"dlqmanager/auth"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func accessOf(t *testing.T, change func(*config.Auth)) (api.Authenticator, map[string]telemetry.Check, error) {
	t.Helper()
	p := &parts{cfg: config.Default(), log: zap.NewNop(), registry: prometheus.NewRegistry()}
	change(&p.cfg.Auth)
	checks := map[string]telemetry.Check{}
	a, err := p.access(t.Context(), checks)
	return a, checks, err
}

func TestTheAPIIsReadyWithoutItsProviderIfStaticTokensWork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	token := auth.NewToken()
	entry, err := auth.Entry{Name: "ci", Role: dlq.RoleAdmin}.Marshal(token)
	require.NoError(t, err)
	require.NoError(t, auth.Append(path, entry))
	for _, c := range []struct {
		modes       []string
		unavailable bool
	}{{[]string{"oidc"}, true}, {[]string{"token", "oidc"}, false}} {
		a, checks, err := accessOf(t, func(cfg *config.Auth) {
			cfg.Mode, cfg.TokensFile = c.modes, path
			cfg.OIDC.Issuer, cfg.OIDC.Audience = "http://127.0.0.1:1", "dlq"
		})
		require.NoError(t, err)
		var notice *dlq.NoticeError
		require.ErrorAs(t, checks["identity"](t.Context()), &notice)
		require.Equal(t, c.unavailable, notice.Unavailable)
		_, err = a.Authenticate(t.Context(), "a.b.c")
		require.ErrorIs(t, err, dlq.ErrUnavailable)
		principal, err := a.Authenticate(t.Context(), token)
		require.Equal(t, !c.unavailable, err == nil)
		if err == nil {
			require.Equal(t, "ci", principal.Subject)
		}
	}
}

func TestAuthenticationIsOffOrFailsTheStart(t *testing.T) {
	t.Parallel()
	a, checks, err := accessOf(t, func(*config.Auth) {})
	require.NoError(t, err)
	require.Nil(t, a)
	require.Empty(t, checks)
	_, _, err = accessOf(t, func(cfg *config.Auth) { cfg.Mode, cfg.TokensFile = []string{"token"}, "/nowhere/tokens" })
	require.ErrorContains(t, err, "auth.tokens_file: open /nowhere/tokens")
	_, _, err = accessOf(t, func(cfg *config.Auth) { cfg.Mode, cfg.OIDC.CAFile = []string{"oidc"}, "/nowhere/ca" })
	require.ErrorContains(t, err, "auth.oidc: ca_file: open /nowhere/ca")
}
