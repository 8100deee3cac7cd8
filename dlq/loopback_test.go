package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestOwnHostsAreAddressesLocalhostAndNames(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "192.0.2.1": true, "192.0.2.1:80": true, "[2001:db8::1]": true, "[2001:db8::1]:80": true,
		"dlq.example": true, "DLQ.Example:443": true,
		"": false, ":80": false, "evil.example": false, "a.dlq.example": false, "dlq.example.": false, "dlq.example.evil.example": false, "127.1": false,
	} {
		require.Equal(t, want, dlq.IsOwnHost(host, []string{"dlq.example"}), host)
	}
}

func TestLoopbackIsANameOrAnAddressOfThisMachine(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.9.9.9:1": true, "::1": true, "[::1]": true, "[::1]:1": true,
		"::ffff:127.0.0.1": true,
		"":                 false, "0.0.0.0": false, "192.0.2.1": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false, "127.1": false,
	} {
		require.Equal(t, want, dlq.IsLoopback(host), host)
	}
}
