package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestHelpNamesTheDefaults(t *testing.T) {
	t.Parallel()
	c := config.Default()
	for _, part := range []string{
		c.Server.Address(), "server.drain_delay (default " + c.Server.DrainDelay.String() + ")",
		"server.shutdown_timeout (default " + c.Server.ShutdownTimeout.String() + ")",
	} {
		require.Contains(t, about.Listens+about.Stops, part)
	}
}
