package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

// idle is a service that only records its configuration.
func idle(_ context.Context, cfg *config.Config, out io.Writer) error {
	_, err := fmt.Fprintln(out, "started on", cfg.Server.Address())
	return err
}

func idleCommand() Program {
	about := About{Does: "dlq-idle does nothing.", Listens: "  nowhere", Stops: "A stop is easy."}
	return Command("dlq-idle", about, idle, APIHealth)
}

func TestAServicePrintsItsHelp(t *testing.T) {
	t.Parallel()
	badConfiguration := []string{"DLQ_SERVER_PORT=many"}
	for _, arg := range []string{"-h", "-help", "--help", "help"} {
		var out bytes.Buffer
		err := idleCommand()(t.Context(), []string{arg}, badConfiguration, &out)
		require.Zero(t, exitCode(err, io.Discard), arg)
		for _, part := range []string{
			"dlq-idle does nothing.\n", "dlq-idle [-config FILE] healthcheck", "dlq-idle [-config FILE] config", "dlq-idle version", config.DefaultPath, "$DLQ_CONFIG",
			"Listens on:\n  nowhere\n", "A stop is easy.",
		} {
			require.Contains(t, out.String(), part, arg)
		}
		require.NotContains(t, out.String(), "%!", arg)
	}
}

func TestAServiceRunsPrintsItsVersionOrReportsAUsageError(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, idleCommand()(t.Context(), nil, []string{"DLQ_SERVER_PORT=8181"}, &out))
	require.Equal(t, "started on 127.0.0.1:8181\n", out.String())
	out.Reset()
	require.NoError(t, idleCommand()(t.Context(), []string{"version"}, nil, &out))
	require.Equal(t, Version+"\n", out.String())
	for call, want := range map[string]string{
		"start":             `dlq-idle: unknown command "start"; dlq-idle -h shows how to use it`,
		"-x":                `dlq-idle: flag provided but not defined: -x; dlq-idle -h shows how to use it`,
		"-config":           `dlq-idle: flag needs an argument: -config; dlq-idle -h shows how to use it`,
		"healthcheck twice": `dlq-idle: healthcheck takes no arguments, not "twice"; dlq-idle -h shows how to use it`,
	} {
		out.Reset()
		err := idleCommand()(t.Context(), strings.Fields(call), nil, &out)
		require.EqualError(t, err, want)
		require.Empty(t, out.String(), call)
		require.Equal(t, 2, exitCode(err, io.Discard), call)
	}
}

func TestTheConfigurationInEffectIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, idleCommand()(t.Context(), []string{"config"}, []string{
		"DLQ_SERVER_PORT=8181", "DLQ_DATABASE_HOST=db.example", "DLQ_DATABASE_NAME=dlq", "DLQ_DATABASE_USER=app", "DLQ_DATABASE_PASSWORD=hunter2",
		"DLQ_DATABASE_SSL_MODE=disable",
	}, &out))
	require.Contains(t, out.String(), "server:\n")
	require.Contains(t, out.String(), "  port: 8181\n")
	require.Contains(t, out.String(), "  request_timeout: 15s\n", "a default")
	require.Contains(t, out.String(), "  password: '[redacted]'\n")
	require.NotContains(t, out.String(), "hunter2")
}

func TestExitCodesDistinguishUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		code    int
		written string
	}{
		{nil, 0, ""},
		{flag.ErrHelp, 0, ""},
		{errors.New("the port is in use"), 1, "the port is in use\n"},
		{fmt.Errorf("start: %w", &UsageError{Command: "x", Problem: "y"}), 2, "start: x: y; x -h shows how to use it\n"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, exitCode(c.err, &out), "%v", c.err)
		require.Equal(t, c.written, out.String())
	}
}
