package app

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/auth"
	"dlqmanager/dlq"
)

func TestANewTokenIsPrintedOnceAndItsEntryAuthenticatesIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	var out bytes.Buffer
	require.NoError(t, Token(t.Context(), []string{"new", "-name", "ci", "-role", "operator", "-topics", "orders.*, payments.*", "-expires", "90d", "-file", path}, nil, &out))
	token := strings.TrimSpace(out.String())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(data), token)
	tokens, err := auth.NewTokens(path, zap.NewNop())
	require.NoError(t, err)
	principal, err := tokens.Authenticate(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "ci", principal.Subject)
	require.Equal(t, []string{"orders.*", "payments.*"}, principal.Grants[0].Topics)
	require.Equal(t, dlq.RoleOperator, principal.Grants[0].Role)

	out.Reset()
	require.ErrorContains(t, Token(t.Context(), []string{"new", "-name", "ci", "-role", "viewer", "-file", path}, nil, &out), `the name "ci" occurs twice`)
	require.Empty(t, out.String())
}

func TestWithoutAFileTheEntryIsPrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, idleWithToken()(t.Context(), []string{"token", "new", "-name", "ci", "-role", "viewer"}, []string{"DLQ_SERVER_PORT=many"}, &out))
	token, entry, found := strings.Cut(out.String(), "\n\n")
	require.True(t, found)
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, []byte(entry), 0o600))
	tokens, err := auth.NewTokens(path, zap.NewNop())
	require.NoError(t, err)
	_, err = tokens.Authenticate(t.Context(), token)
	require.NoError(t, err)
}

func idleWithToken() Program {
	about := About{Commands: map[string]Subcommand{"token": Token}}
	return Command("dlq-idle", about, idle, nil)
}

func TestWrongTokenCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"":                                    `the only command is "new"`,
		"list":                                `the only command is "new"`,
		"new":                                 "-name is required",
		"new -name a":                         "-role is required",
		"new -name a -role root":              `unknown role "root"`,
		"new -name a -role admin x":           `unexpected argument "x"`,
		"new -name a -role admin -days 1":     "flag provided but not defined: -days",
		"new -name a -role admin -expires 90": "must be a duration with a unit",
		"new -name a -role admin -expires 0s": "must be longer than 0",
		"new -name a -role admin -topics orders,": `"" is not a pattern`,
		"new -name a -role admin -topics=":        `"" is not a pattern`,
	} {
		var out bytes.Buffer
		require.ErrorContains(t, Token(t.Context(), strings.Fields(call), nil, &out), want, call)
		require.Empty(t, out.String(), call)
	}
	for _, call := range []string{"-h", "help", "new -h"} {
		var out bytes.Buffer
		require.ErrorIs(t, Token(t.Context(), strings.Fields(call), nil, &out), flag.ErrHelp)
		require.Equal(t, createHelp, out.String())
	}
}
