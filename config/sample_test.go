package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/config"
)

const sample = "../config.yaml"

func TestSampleConfigurationIsValid(t *testing.T) {
	t.Parallel()
	c, err := config.Load(sample, nil)
	require.NoError(t, err)
	require.True(t, c.App.Production())
	require.True(t, c.Database.Configured())
	require.True(t, c.Kafka.Configured())
	require.True(t, c.Temporal.Configured())
}

// Every commented key must show its default, except for keys whose default is empty.
func TestSampleConfigurationShowsEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(sample)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(data), "\napp:")
	require.True(t, found)
	require.NotContains(t, head, "\napp")
	commentedIn := regexp.MustCompile(`(?m)^( *)# ?( *[a-z_.-]+:)`).ReplaceAllString("app:"+rest, "$1$2")

	shown, err := load(t, commentedIn)
	require.NoError(t, err, "%s", commentedIn)
	var tree map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(commentedIn), &tree))
	written := flatten("DLQ", tree)
	// The sample shows these keys in a comment next to the keys that they replace.
	beside := []string{"DLQ_DATABASE_USER_FILE", "DLQ_DATABASE_PASSWORD",
		"DLQ_DATABASE_MIGRATIONS_USER_FILE", "DLQ_DATABASE_MIGRATIONS_PASSWORD", "DLQ_KAFKA_SASL_PASSWORD", "DLQ_TEMPORAL_API_KEY",
		"DLQ_SCHEMA_REGISTRY_PASSWORD", "DLQ_SCHEMA_REGISTRY_TOKEN", "DLQ_CONSOLE_OIDC_CLIENT_SECRET", "DLQ_MASKING_SECRET"}
	for _, name := range config.EnvNames() {
		if !slices.Contains(beside, name) {
			require.Contains(t, written, name)
		}
	}

	asWritten, err := config.Load(sample, nil)
	require.NoError(t, err)
	want, got := flatten("DLQ", asWritten.Redacted()), flatten("DLQ", shown.Redacted())
	examples := []string{
		"DLQ_DATABASE_MIGRATIONS_USER", "DLQ_DATABASE_MIGRATIONS_PASSWORD_FILE", "DLQ_DATABASE_MIGRATIONS_ROLE", "DLQ_DATABASE_APPLICATION_ROLE",
		"DLQ_CONSOLE_KEY_FILE", "DLQ_CONSOLE_OIDC_CLIENT_ID", "DLQ_CONSOLE_OIDC_CLIENT_SECRET_FILE", "DLQ_SERVER_TLS_CERT_FILE", "DLQ_SERVER_TLS_KEY_FILE", "DLQ_SERVER_TLS_CLIENT_CA_FILE",
		"DLQ_DATABASE_SSL_ROOT_CERT", "DLQ_DATABASE_SSL_CERT", "DLQ_DATABASE_SSL_KEY", "DLQ_KAFKA_TLS_CA_FILE", "DLQ_KAFKA_TLS_CERT_FILE", "DLQ_KAFKA_TLS_KEY_FILE",
		"DLQ_KAFKA_TLS_SERVER_NAME", "DLQ_KAFKA_ORIGIN_TOPICS", "DLQ_KAFKA_ORIGINS", "DLQ_TEMPORAL_API_KEY_FILE", "DLQ_TEMPORAL_TLS_ENABLED",
		"DLQ_AUTH_OIDC_CA_FILE", "DLQ_TEMPORAL_TLS_CA_FILE", "DLQ_TEMPORAL_TLS_CERT_FILE", "DLQ_TEMPORAL_TLS_KEY_FILE", "DLQ_TEMPORAL_TLS_SERVER_NAME",
		"DLQ_SERVER_TRUSTED_PROXIES", "DLQ_SERVER_CORS_ORIGINS", "DLQ_SERVER_PUBLIC_URL", "DLQ_SERVER_ALLOWED_HOSTS", "DLQ_WORKER_TOKENS_FILE",
		"DLQ_TARGETS_ROUTES", "DLQ_TARGETS_ALLOWED", "DLQ_TARGETS_ENDPOINTS", "DLQ_TARGETS_ALLOWED_NETWORKS",
		"DLQ_TRACING_ENDPOINT", "DLQ_TRACING_TLS_CA_FILE", "DLQ_TRACING_TLS_CERT_FILE", "DLQ_TRACING_TLS_KEY_FILE", "DLQ_TRACING_TLS_SERVER_NAME",
		"DLQ_SCHEMA_REGISTRY_URL", "DLQ_SCHEMA_REGISTRY_USERNAME", "DLQ_SCHEMA_REGISTRY_PASSWORD_FILE", "DLQ_SCHEMA_REGISTRY_TOKEN_FILE",
		"DLQ_MASKING_RULES", "DLQ_MASKING_SECRET_FILE", "DLQ_LINKS_TRACE_URL", "DLQ_LINKS_KAFKA_URL",
		"DLQ_SCHEMA_REGISTRY_TLS_CA_FILE", "DLQ_SCHEMA_REGISTRY_TLS_CERT_FILE", "DLQ_SCHEMA_REGISTRY_TLS_KEY_FILE", "DLQ_SCHEMA_REGISTRY_TLS_SERVER_NAME",
	}
	for _, name := range examples {
		require.NotEmpty(t, got[name], "%s is shown", name)
		delete(got, name)
		delete(want, name)
	}
	require.Equal(t, want, got)
}
