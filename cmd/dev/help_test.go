package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/internal/app"
	"dlqmanager/config"
	"dlqmanager/dev"
)

func TestEveryRequestForHelpPrintsIt(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "-help", "--help", "help"} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{arg}, nil, &out), arg)
		require.Equal(t, help, out.String(), arg)
	}
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"demo", "-h"}, nil, &out), flag.ErrHelp)
	require.Equal(t, demoHelp, out.String())
}

func TestHelpNamesVariablesAndDefaults(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{
		dev.EnvDir, dev.EnvPostgresPort, dev.EnvKafkaPort, dev.EnvTemporalPort, dev.EnvTemporalUIPort, dev.EnvTemporalBinary,
		dev.EnvDatabaseHost, dev.EnvBrokers, dev.EnvTemporalAddress, "DLQ_SERVER_PORT", "DLQ_WORKER_METRICS_PORT",
	} {
		require.Contains(t, help, variable)
	}
	options, cfg := dev.DefaultStackOptions(), config.Default()
	for _, port := range []int{
		options.PostgresPort, options.KafkaPort, options.TemporalPort, options.TemporalUIPort, cfg.Server.Port, cfg.Worker.MetricsPort,
	} {
		require.Contains(t, help, fmt.Sprintf("127.0.0.1:%d", port))
	}
	require.Contains(t, help, options.Dir+" in the current folder")
	require.Contains(t, help, dev.DatabaseName)
	require.Contains(t, demoHelp, fmt.Sprint(options.KafkaPort))
	for line := range strings.Lines(help + demoHelp) {
		require.LessOrEqual(t, len(line), 100, line)
	}
}

func TestAUsageErrorStartsNothingAndPointsToTheHelp(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"start":           `dlq-dev: unknown command "start"; dlq-dev -h shows how to use it`,
		"-x":              `dlq-dev: unknown command "-x"; dlq-dev -h shows how to use it`,
		"demo now":        `dlq-dev demo: it takes no arguments but flags, not "now"; dlq-dev demo -h shows how to use it`,
		"demo -x":         `dlq-dev demo: flag provided but not defined: -x; dlq-dev demo -h shows how to use it`,
		"demo -messages=": `dlq-dev demo: invalid value "" for flag -messages: parse error; dlq-dev demo -h shows how to use it`,
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(call), nil, &out)
		_, wrongly := errors.AsType[*app.UsageError](err)
		require.True(t, wrongly, "%s: %v", call, err)
		require.EqualError(t, err, want)
		require.Empty(t, out.String(), call)
	}
}
