package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestHelpNamesTheDefaults(t *testing.T) {
	t.Parallel()
	c := config.Default()
	require.Contains(t, about.Listens, c.Worker.MetricsAddress())
	require.Contains(t, about.Stops, "worker.stop_timeout (default "+c.Worker.StopTimeout.String()+")")
}
