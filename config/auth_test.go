package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dlq"
)

const oidcSection = `
  oidc:
    issuer: https://issuer.example
    audience: dlq-manager
    roles:
      dlq-admins: {role: admin}
      payments:
        role: operator
        topics: ["payments.*"]
`

func TestWithoutAuthenticationOnlyALoopbackAddressIsAccepted(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "::1", "localhost", "Localhost"} {
		c, err := load(t, "server: {host: '"+host+"'}")
		require.NoError(t, err, host)
		require.False(t, c.Auth.Enabled())
	}
	for _, host := range []string{"0.0.0.0", "::", "10.0.0.7", "api.example", "localhost.example", "169.254.1.1"} {
		require.Equal(t, []string{"file:1: auth.mode: is required, since server.host (" + host + ") is not a loopback address: " +
			"set it to token or oidc, or to none if everybody who reaches the port may delete and resend messages"},
			problemsOf(t, "server: {host: '"+host+"'}"))
		_, err := load(t, "server: {host: '"+host+"'}", "DLQ_AUTH_MODE=none")
		require.NoError(t, err, "%s: written out", host)
		require.Len(t, problemsOf(t, "server: {host: '"+host+"'}\nauth: {mode: }"), 1, "%s: null is not written out", host)
		require.Len(t, problemsOf(t, "server: {host: '"+host+"'}\nauth: {mode: []}"), 1, "%s: nor is an empty list", host)
	}
}

func TestTheAuthSectionIsRead(t *testing.T) {
	t.Parallel()
	c, err := load(t, "auth:\n  mode: [token, oidc]\n  tokens_file: tokens.yaml\n  open: healthz"+oidcSection)
	require.NoError(t, err)
	require.True(t, c.Auth.Enabled())
	require.Equal(t, []string{"healthz"}, c.Auth.Open)
	require.Equal(t, "sub", c.Auth.OIDC.SubjectClaim)
	require.Equal(t, "groups", c.Auth.OIDC.RolesClaim)
	require.Equal(t, "1m", c.Auth.OIDC.ClockSkew.String())
	grants, err := c.Auth.OIDC.Roles.Grants()
	require.NoError(t, err)
	require.Len(t, grants, 2)
	require.Equal(t, dlq.Grant{Role: dlq.RoleAdmin}, grants["dlq-admins"])
	require.Equal(t, []string{"payments.*"}, grants["payments"].Topics)

	c, err = load(t, "auth: {mode: token, tokens_file: t}")
	require.NoError(t, err)
	require.Equal(t, []string{"healthz", "readyz", "metrics"}, c.Auth.Open, "by default")
	c, err = load(t, "auth: {mode: token, tokens_file: t, open: []}")
	require.NoError(t, err)
	require.Empty(t, c.Auth.Open)
}

func TestRolesMayComeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	environ := []string{"DLQ_AUTH_MODE=oidc", "DLQ_AUTH_OIDC_ISSUER=https://issuer.example", "DLQ_AUTH_OIDC_AUDIENCE=dlq"}
	c, err := config.Load("", append(environ, "DLQ_AUTH_OIDC_ROLES=dlq-admins=admin, /ops/pay = operator:payments.*|refunds.*"))
	require.NoError(t, err)
	require.Equal(t, config.RoleGrants{
		"dlq-admins": {Role: "admin"}, "/ops/pay": {Role: "operator", Topics: []string{"payments.*", "refunds.*"}},
	}, c.Auth.OIDC.Roles)
	for _, bad := range []string{"a", "a=", "=admin", "a=root", "a=admin:", "a=admin:x|", "a=admin,a=viewer", "a=admin:x y"} {
		require.Len(t, problemsOf(t, "", append(environ, "DLQ_AUTH_OIDC_ROLES="+bad)...), 1, bad)
	}
}

func TestUnclearAuthSectionsAreRefused(t *testing.T) {
	t.Parallel()
	oidc := "auth:\n  mode: oidc\n  oidc:\n    issuer: https://issuer.example\n    audience: dlq\n    roles:\n"
	for name, c := range map[string]struct{ text, want string }{
		"none and another":     {"auth: {mode: [none, token], tokens_file: t}", "file:1: auth.mode: none cannot be used together with another mode"},
		"unknown mode":         {"auth: {mode: basic}", `file:1: auth.mode[0]: must be one of none, token, oidc, not "basic"`},
		"mode twice":           {"auth: {mode: [token, token], tokens_file: t}", "file:1: auth.mode[1]: occurs twice"},
		"none and a page":      {"auth: {mode: none, open: [none, metrics]}", "auth.open: none cannot be used together with a page"},
		"no file":              {"auth: {mode: token}", "auth.tokens_file: is required"},
		"file without mode":    {"auth: {mode: none, tokens_file: t}", "auth.tokens_file: has no effect without token in auth.mode"},
		"oidc without mode":    {"auth:\n  mode: none" + oidcSection, "auth.oidc: has no effect without oidc in auth.mode"},
		"plain http":           {"auth: {mode: oidc, oidc: {issuer: 'http://issuer.example', audience: a, roles: {a: {role: admin}}}}", "auth.oidc.issuer: must be an https URL"},
		"issuer with password": {"auth: {mode: oidc, oidc: {issuer: 'https://a:b@issuer.example', audience: a, roles: {a: {role: admin}}}}", "auth.oidc.issuer: must be an https URL"},
		"no issuer":            {"auth: {mode: oidc, oidc: {audience: a, roles: {a: {role: admin}}}}", "auth.oidc.issuer: is required"},
		"no audience":          {"auth: {mode: oidc, oidc: {issuer: 'https://issuer.example', roles: {a: {role: admin}}}}", "auth.oidc.audience: is required"},
		"no roles":             {"auth: {mode: oidc, oidc: {issuer: 'https://issuer.example', audience: a}}", "auth.oidc.roles: is required"},
		"roles as a list":      {"auth: {mode: oidc, oidc: {issuer: 'https://issuer.example', audience: a, roles: [admin]}}", "auth.oidc.roles: must be a section of keys and values, not a list"},
		"much skew":            {"auth: {mode: oidc, oidc: {issuer: 'https://issuer.example', audience: a, clock_skew: 1h, roles: {a: {role: admin}}}}", "auth.oidc.clock_skew: must be at most 10m"},
		"role as text":         {oidc + "      a: admin", "file:7: auth.oidc.roles.a: must be a section of keys and values"},
		"unknown role":         {oidc + "      a: {role: root}", `file:7: auth.oidc.roles.a: unknown role "root"`},
		"no role":              {oidc + "      a:\n", `file:7: auth.oidc.roles.a: unknown role ""`},
		"unknown key":          {oidc + "      a: {role: admin, topic: [x]}", "file:7: auth.oidc.roles.a.topic: unknown key; did you mean topics?"},
		"no topics":            {oidc + "      a: {role: admin, topics: []}", "file:7: auth.oidc.roles.a.topics: is empty"},
		"topics null":          {oidc + "      a:\n        role: admin\n        topics:\n", "file:9: auth.oidc.roles.a.topics: is empty"},
		"bad topic":            {oidc + "      a: {role: admin, topics: ['a b']}", `file:7: auth.oidc.roles.a: "a b" is not a pattern`},
		"value twice":          {oidc + "      a: {role: admin}\n      a: {role: viewer}", "file:8: auth.oidc.roles.a: is set twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := problemsOf(t, c.text)
			require.Len(t, problems, 1, "%q", problems)
			require.Contains(t, problems[0], c.want)
		})
	}
}
