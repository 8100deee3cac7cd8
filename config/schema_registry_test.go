package config_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchemaRegistrySectionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"schema_registry: {url: registry}":                                          "must be an http or https URL",
		"schema_registry: {url: 'http://u:p@registry'}":                             "must not contain a user or password",
		"schema_registry: {username: u}":                                            "is required with the other keys",
		"schema_registry: {url: 'http://r', password: p}":                           "is required with a password",
		"schema_registry: {url: 'http://r', token: t, token_file: f}":               "cannot be used together",
		"schema_registry: {url: 'http://r', tls: {cert_file: c}}":                   "belong together",
		"schema_registry: {url: 'http://r', timeout: 1m}":                           "schema_registry.timeout",
		"schema_registry: {url: 'http://r', ingest_timeout: 1m}":                    "schema_registry.ingest_timeout",
		"schema_registry: {url: ['http://r', 'ftp://r'], username: u, password: p}": "schema_registry.url[1]",
	} {
		_, err := load(t, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestCredentialsOfTheSchemaRegistryAreReadForEveryRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	authorization := func(section string) string {
		c, err := load(t, "schema_registry: {url: 'http://r', "+section+"}")
		require.NoError(t, err)
		var sent []string
		for _, secret := range []string{"one", "two"} {
			require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://r", http.NoBody)
			require.NoError(t, err)
			require.NoError(t, c.SchemaRegistry.Authorize(request))
			sent = append(sent, request.Header.Get("Authorization"))
		}
		return strings.Join(sent, ", ")
	}
	require.Equal(t, "Bearer one, Bearer two", authorization("token_file: "+file))
	require.Equal(t, "Basic dTpvbmU=, Basic dTp0d28=", authorization("username: u, password_file: "+file))
	require.Equal(t, "Bearer t, Bearer t", authorization("token: t"))
	require.Equal(t, "Basic dTo=, Basic dTo=", authorization("username: u"))
}
