package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

// everyKey has a value for each key, in the form of the environment. No value is the default.
var everyKey = map[string]string{
	"DLQ_SERVER_MAX_CONNECTIONS_PER_ADDRESS": "7", "DLQ_SERVER_MAX_SCANS": "3", "DLQ_SERVER_MAX_PLANS": "5", "DLQ_SERVER_MAX_EXPORTS": "6",
	"DLQ_CONSOLE_ENABLED": "false", "DLQ_CONSOLE_PATH": "/console", "DLQ_CONSOLE_KEY_FILE": "/keys",
	"DLQ_CONSOLE_OIDC_CLIENT_ID": "pages", "DLQ_CONSOLE_OIDC_CLIENT_SECRET": "p7", "DLQ_CONSOLE_OIDC_CLIENT_SECRET_FILE": "/secret",
	"DLQ_CONSOLE_OIDC_SCOPES": "openid,offline_access",
	"DLQ_SERVER_URL_LIMIT":    "9KiB", "DLQ_SERVER_HEADER_LIMIT": "17KiB",
	"DLQ_AUDIT_RETENTION": "31d", "DLQ_AUDIT_LOG": "true", "DLQ_DATABASE_APPLICATION_ROLE": "application", "DLQ_DATABASE_MIGRATIONS_ROLE": "owner",
	"DLQ_DATABASE_MIGRATIONS_USER": "migrator", "DLQ_DATABASE_MIGRATIONS_USER_FILE": "/user",
	"DLQ_DATABASE_MIGRATIONS_PASSWORD": "p4", "DLQ_DATABASE_MIGRATIONS_PASSWORD_FILE": "/password",
	"DLQ_KAFKA_ORIGINS":              "*=orders.*|payments,shop.dlq=stock",
	"DLQ_APP_NAME":                   "other",
	"DLQ_APP_VERSION":                "9.9.9",
	"DLQ_APP_ENVIRONMENT":            "staging",
	"DLQ_APP_TIER":                   "system",
	"DLQ_SERVER_HOST":                "0.0.0.0",
	"DLQ_SERVER_PORT":                "8081",
	"DLQ_SERVER_RETRY_WAIT":          "11s",
	"DLQ_SERVER_READ_TIMEOUT":        "12s",
	"DLQ_SERVER_WRITE_TIMEOUT":       "40s",
	"DLQ_SERVER_IDLE_TIMEOUT":        "2m",
	"DLQ_SERVER_REQUEST_TIMEOUT":     "16s",
	"DLQ_SERVER_PLAN_TIMEOUT":        "90s",
	"DLQ_SERVER_BODY_LIMIT":          "2MiB",
	"DLQ_SERVER_ANSWER_MEMORY":       "128MiB",
	"DLQ_SERVER_RATE_LIMIT":          "7",
	"DLQ_SERVER_MAX_CONNECTIONS":     "70",
	"DLQ_SERVER_TRUSTED_PROXIES":     "10.0.0.0/8,192.0.2.1",
	"DLQ_SERVER_PUBLIC_URL":          "https://dlq.example",
	"DLQ_SERVER_CORS_ORIGINS":        "https://ops.example",
	"DLQ_SERVER_ALLOWED_HOSTS":       "api,worker",
	"DLQ_SERVER_SHUTDOWN_TIMEOUT":    "21s",
	"DLQ_SERVER_DRAIN_DELAY":         "4s",
	"DLQ_AUTH_MODE":                  "token,oidc",
	"DLQ_AUTH_OPEN":                  "none",
	"DLQ_AUTH_TOKENS_FILE":           "tokens.yaml",
	"DLQ_AUTH_OIDC_ISSUER":           "https://issuer.example",
	"DLQ_AUTH_OIDC_AUDIENCE":         "dlq",
	"DLQ_AUTH_OIDC_SUBJECT_CLAIM":    "email",
	"DLQ_AUTH_OIDC_ROLES_CLAIM":      "a.b",
	"DLQ_AUTH_OIDC_ROLES":            "admins=admin",
	"DLQ_AUTH_OIDC_CLOCK_SKEW":       "2m",
	"DLQ_AUTH_OIDC_CA_FILE":          "oca.pem",
	"DLQ_SERVER_TLS_CERT_FILE":       "sc.pem",
	"DLQ_SERVER_TLS_KEY_FILE":        "sk.pem",
	"DLQ_SERVER_TLS_CLIENT_CA_FILE":  "sca.pem",
	"DLQ_DATABASE_HOST":              "db",
	"DLQ_DATABASE_PORT":              "5433",
	"DLQ_DATABASE_NAME":              "dlq",
	"DLQ_DATABASE_USER":              "app",
	"DLQ_DATABASE_USER_FILE":         "user.txt",
	"DLQ_DATABASE_PASSWORD":          "p1",
	"DLQ_DATABASE_PASSWORD_FILE":     "p1.txt",
	"DLQ_DATABASE_SSL_MODE":          "verify-full",
	"DLQ_DATABASE_SSL_ROOT_CERT":     "root.pem",
	"DLQ_DATABASE_SSL_CERT":          "dc.pem",
	"DLQ_DATABASE_SSL_KEY":           "dk.pem",
	"DLQ_DATABASE_MAX_OPEN_CONNS":    "30",
	"DLQ_DATABASE_MAX_IDLE_CONNS":    "6",
	"DLQ_DATABASE_CONN_MAX_LIFETIME": "6m",
	"DLQ_DATABASE_CONNECT_TIMEOUT":   "6s",
	"DLQ_DATABASE_STATEMENT_TIMEOUT": "31s",
	"DLQ_KAFKA_BROKERS":              "a:9092,b:9092",
	"DLQ_KAFKA_CLIENT_ID":            "id",
	"DLQ_KAFKA_CONSUMER_GROUP":       "group",
	"DLQ_KAFKA_SECURITY_PROTOCOL":    "SASL_SSL",
	"DLQ_KAFKA_DLQ_TOPIC_PATTERN":    "*.dead,*.failed",
	"DLQ_KAFKA_ORIGIN_TOPICS":        "a.dead=a,b.dead=b",
	"DLQ_KAFKA_ARCHIVE_TOPIC":        "{dlq}.old",
	"DLQ_KAFKA_REPUBLISH_KEY":        "uuid",
	"DLQ_KAFKA_MAX_RETRIES":          "5",
	"DLQ_KAFKA_SASL_MECHANISM":       "PLAIN",
	"DLQ_KAFKA_SASL_USER":            "u",
	"DLQ_KAFKA_SASL_PASSWORD":        "p2",
	"DLQ_KAFKA_SASL_PASSWORD_FILE":   "p2.txt",
	"DLQ_KAFKA_TLS_CA_FILE":          "ca.pem",
	"DLQ_KAFKA_TLS_CERT_FILE":        "c.pem",
	"DLQ_KAFKA_TLS_KEY_FILE":         "k.pem",
	"DLQ_KAFKA_TLS_SERVER_NAME":      "kafka",
	"DLQ_TEMPORAL_ADDRESS":           "t:7233",
	"DLQ_TEMPORAL_NAMESPACE":         "ns",
	"DLQ_TEMPORAL_TASK_QUEUE":        "queue",
	"DLQ_TEMPORAL_UI_URL":            "http://ui:8233",
	"DLQ_TEMPORAL_API_KEY":           "p3",
	"DLQ_TEMPORAL_API_KEY_FILE":      "p3.txt",
	"DLQ_TEMPORAL_TLS_ENABLED":       "true",
	"DLQ_TEMPORAL_TLS_CA_FILE":       "tca.pem",
	"DLQ_TEMPORAL_TLS_CERT_FILE":     "tc.pem",
	"DLQ_TEMPORAL_TLS_KEY_FILE":      "tk.pem",
	"DLQ_TEMPORAL_TLS_SERVER_NAME":   "temporal",
	"DLQ_ARCHIVE_SCHEDULE":           "15 3 * * *",
	"DLQ_ARCHIVE_RETENTION":          "60d",
	"DLQ_ARCHIVE_PURGE_AFTER":        "366d",
	"DLQ_ARCHIVE_BATCH_SIZE":         "500",
	"DLQ_JOBS_LANES":                 "8",
	"DLQ_JOBS_PLAN_TTL":              "2h",
	"DLQ_GROUPS_HEADER":              "x-cause",
	"DLQ_GROUPS_RULES":               "*Timeout*=slow",
	"DLQ_GROUPS_MAX_PER_TOPIC":       "50",
	"DLQ_VERIFY_CONSUMER_GROUPS":     "orders.*=shipping",
	"DLQ_VERIFY_INTERVAL":            "20s",
	"DLQ_INGEST_MAX_PENDING":         "1000", "DLQ_INGEST_MAX_PENDING_PER_TOPIC": "100",
	"DLQ_WORKER_HOST":         "0.0.0.0",
	"DLQ_WORKER_METRICS_PORT": "9091",
	"DLQ_WORKER_TOKENS_FILE":  "/tokens",
	"DLQ_WORKER_STOP_TIMEOUT": "25s",
	"DLQ_LOG_LEVEL":           "debug",
	"DLQ_LOG_FORMAT":          "console",

	"DLQ_TARGETS_ROUTES": "orders=orders.retry", "DLQ_TARGETS_ALLOWED": "*.retry",
	"DLQ_TARGETS_ENDPOINTS": "shop=https://shop.example/in", "DLQ_TARGETS_ALLOWED_NETWORKS": "10.0.0.0/8",

	"DLQ_SCHEMA_REGISTRY_URL": "https://a:8081,https://b:8081", "DLQ_SCHEMA_REGISTRY_USERNAME": "reader",
	"DLQ_SCHEMA_REGISTRY_PASSWORD": "p5", "DLQ_SCHEMA_REGISTRY_PASSWORD_FILE": "p5.txt",
	"DLQ_TRACING_ENDPOINT": "https://collector:4317", "DLQ_TRACING_PROTOCOL": "http/protobuf", "DLQ_TRACING_SAMPLE_RATIO": "0.01",
	"DLQ_TRACING_TLS_CA_FILE": "tca.pem", "DLQ_TRACING_TLS_CERT_FILE": "tc.pem", "DLQ_TRACING_TLS_KEY_FILE": "tk.pem",
	"DLQ_TRACING_TLS_SERVER_NAME": "collector",
	"DLQ_SCHEMA_REGISTRY_TIMEOUT": "3s", "DLQ_SCHEMA_REGISTRY_INGEST_TIMEOUT": "100ms",
	"DLQ_SCHEMA_REGISTRY_TLS_CA_FILE": "rca.pem", "DLQ_SCHEMA_REGISTRY_TLS_CERT_FILE": "rc.pem",
	"DLQ_SCHEMA_REGISTRY_TLS_KEY_FILE": "rk.pem", "DLQ_SCHEMA_REGISTRY_TLS_SERVER_NAME": "registry",
	"DLQ_SCHEMA_REGISTRY_TOKEN": "t1", "DLQ_SCHEMA_REGISTRY_TOKEN_FILE": "t1.txt",

	"DLQ_MASKING_RULES": "customers=orders.*|refunds.*", "DLQ_MASKING_SECRET": "0123456789abcdef", "DLQ_MASKING_SECRET_FILE": "masking",
	"DLQ_LINKS_TRACE_URL": "https://tempo/{trace_id}", "DLQ_LINKS_KAFKA_URL": "https://kafka-ui/{topic}",
}

// alternatives are keys that cannot be set together with the key of the same name without the suffix.
var alternatives = []string{"DLQ_DATABASE_USER_FILE", "DLQ_DATABASE_PASSWORD_FILE", "DLQ_KAFKA_SASL_PASSWORD_FILE", "DLQ_TEMPORAL_API_KEY_FILE",
	"DLQ_DATABASE_MIGRATIONS_USER_FILE", "DLQ_DATABASE_MIGRATIONS_PASSWORD_FILE",
	"DLQ_SCHEMA_REGISTRY_PASSWORD_FILE", "DLQ_SCHEMA_REGISTRY_TOKEN_FILE", "DLQ_CONSOLE_OIDC_CLIENT_SECRET_FILE", "DLQ_MASKING_SECRET_FILE"}

func TestEveryKeyCanBeSetFromTheEnvironment(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, config.EnvNames(), slices.Collect(maps.Keys(everyKey)), "a value for every key, and no more")

	for _, files := range []bool{false, true} {
		var environ []string
		var set []string
		for name, value := range everyKey {
			if _, hasFile := everyKey[name+"_FILE"]; hasFile && files {
				continue
			}
			if slices.Contains(alternatives, name) && !files {
				continue
			}
			environ = append(environ, name+"="+value)
			set = append(set, name)
		}
		c, err := config.Load("", environ)
		require.NoError(t, err)

		got, defaults := flatten("DLQ", c.Redacted()), flatten("DLQ", config.Default().Redacted())
		for _, name := range set {
			require.NotEqual(t, defaults[name], got[name], "%s has an effect", name)
		}
	}
}

// flatten converts a redacted configuration to environment variables with their values.
func flatten(prefix string, section map[string]any) map[string]any {
	flat := map[string]any{}
	for name, value := range section {
		name = prefix + "_" + strings.ToUpper(name)
		if inner, ok := value.(map[string]any); ok && !slices.Contains(config.EnvNames(), name) {
			maps.Copy(flat, flatten(name, inner))
		} else {
			flat[name] = value
		}
	}
	return flat
}

func TestEnvironmentNamesAreUnambiguous(t *testing.T) {
	t.Parallel()
	names := config.EnvNames()
	require.Len(t, slices.Compact(slices.Clone(names)), len(names))
	require.Equal(t, "DLQ_KAFKA_SASL_PASSWORD_FILE", config.EnvName("kafka.sasl.password_file"))
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
server: {port: 1000, retry_wait: 1s}
kafka: {brokers: [file:1], dlq_topic_pattern: "*.file", origin_topics: {x.file: x}}
`, "DLQ_SERVER_PORT= 2000 ", "DLQ_KAFKA_BROKERS=env:1, env:2", "DLQ_KAFKA_DLQ_TOPIC_PATTERN=*.env", "DLQ_KAFKA_ORIGIN_TOPICS=y.env = y")
	require.NoError(t, err)
	require.Equal(t, 2000, c.Server.Port)
	require.Equal(t, time.Second, c.Server.RetryWait.Std(), "keys without a variable keep their value")
	require.Equal(t, []string{"env:1", "env:2"}, c.Kafka.Brokers)
	require.Equal(t, []string{"*.env"}, c.Kafka.DLQTopicPattern)
	require.Equal(t, map[string]string{"y.env": "y"}, c.Kafka.OriginTopics, "replaced, not merged")
}

func TestProblemOfAVariableIsNotLocatedInTheFileThatItOverrides(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`DLQ_KAFKA_BROKERS: kafka.brokers[1]: must be host:port, not "b"`,
		`DLQ_TARGETS_ENDPOINTS: targets.endpoints.shop.url: must be an http or https URL without a fragment`,
	}, problemsOf(t, `
kafka:
  brokers: [a:1, b:1]
targets:
  endpoints:
    shop: {url: "https://shop.example"}
`, "DLQ_KAFKA_BROKERS=a:1,b", "DLQ_TARGETS_ENDPOINTS=shop=ftp://shop.example"))
}

func TestEmptyVariableCountsAsNotSet(t *testing.T) {
	t.Parallel()
	c, err := load(t, "server: {port: 1000}", "DLQ_SERVER_PORT=", "DLQ_NO_SUCH_KEY=", "DLQ_CONFIG=")
	require.NoError(t, err)
	require.Equal(t, 1000, c.Server.Port)
}

func TestVariableThatIsNotAKeyIsRefusedWithASuggestion(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"DLQ_DATABASE_PASWORD": "unknown variable; did you mean DLQ_DATABASE_PASSWORD?",
		"DLQ_SERVR_PORT":       "unknown variable; did you mean DLQ_SERVER_PORT?",
		"DLQ_":                 "unknown variable",
		"DLQ_ZZZZZZZZZZ":       "unknown variable",
	} {
		require.Equal(t, []string{name + ": " + want}, problemsOf(t, "", name+"=1"))
	}
}

func TestForeignVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	_, err := config.Load("", []string{
		"DLQ_TEST_DATABASE=x", "DLQ_DEV_ANYTHING=x", "dlq_server_port=x", "MY_DLQ_THING=x", "=odd", "none",
		// variables of dlqctl
		"DLQ_URL=http://127.0.0.1:8080", "DLQ_TOKEN=x", "DLQ_TOKEN_FILE=x", "DLQ_CA_FILE=x", "DLQ_CONTEXT=x",
		// the service links of a Service named dlq-manager
		"DLQ_MANAGER_SERVICE_HOST=10.0.0.7", "DLQ_MANAGER_SERVICE_PORT=80", "DLQ_MANAGER_SERVICE_PORT_HTTP=80",
		"DLQ_MANAGER_PORT=tcp://10.0.0.7:80", "DLQ_MANAGER_PORT_80_TCP=tcp://10.0.0.7:80",
		"DLQ_MANAGER_PORT_80_TCP_PROTO=tcp", "DLQ_MANAGER_PORT_80_TCP_PORT=80", "DLQ_MANAGER_PORT_80_TCP_ADDR=10.0.0.7",
	})
	require.NoError(t, err)

	// The service link of a Service named dlq-server has the name of a key.
	c, err := config.Load("", []string{"DLQ_SERVER_PORT=tcp://10.0.0.7:80"})
	require.NoError(t, err)
	require.Equal(t, 8080, c.Server.Port)
}

func TestMalformedVariablesAreRefusedByName(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"DLQ_SERVER_PORT=http":                  `DLQ_SERVER_PORT: server.port: must be a whole number that fits, not "http"`,
		"DLQ_SERVER_PORT=0":                     `DLQ_SERVER_PORT: server.port: must be 1 to 65535, not 0`,
		"DLQ_SERVER_RETRY_WAIT=soon":            `DLQ_SERVER_RETRY_WAIT: server.retry_wait: must be a duration with a unit, such as 10s, 5m, 720h or 30d, not "soon"`,
		"DLQ_SERVER_BODY_LIMIT=big":             `DLQ_SERVER_BODY_LIMIT: server.body_limit: must be a number of bytes such as 1048576, 512KiB or 4MiB, not "big"`,
		"DLQ_TEMPORAL_TLS_ENABLED=yes":          `DLQ_TEMPORAL_TLS_ENABLED: temporal.tls.enabled: must be true or false, not "yes"`,
		"DLQ_KAFKA_BROKERS=a:1,,b:1":            `DLQ_KAFKA_BROKERS: kafka.brokers: has an empty entry, number 2`,
		"DLQ_KAFKA_BROKERS=a:1,b":               `DLQ_KAFKA_BROKERS: kafka.brokers[1]: must be host:port, not "b"`,
		"DLQ_KAFKA_ORIGIN_TOPICS=a":             `DLQ_KAFKA_ORIGIN_TOPICS: kafka.origin_topics: must be key=value pairs separated by commas; number 1 is not one`,
		"DLQ_KAFKA_ORIGIN_TOPICS=a=":            `DLQ_KAFKA_ORIGIN_TOPICS: kafka.origin_topics: must be key=value pairs separated by commas; number 1 is not one`,
		"DLQ_KAFKA_ORIGIN_TOPICS=a=b,a=c":       `DLQ_KAFKA_ORIGIN_TOPICS: kafka.origin_topics: names "a" twice`,
		"DLQ_DATABASE_NAME=dlq":                 `DLQ_DATABASE_NAME: database.host: is required; remove the section and its variables to keep messages in memory`,
		"DLQ_KAFKA_SECURITY_PROTOCOL=SSL":       `DLQ_KAFKA_SECURITY_PROTOCOL: kafka.brokers: needs at least one host:port`,
		"DLQ_AUTH_OPEN=docs":                    `DLQ_AUTH_OPEN: auth.open[0]: must be one of healthz, readyz, metrics, none, not "docs"`,
		"DLQ_SERVER_HOST=10.0.0.7":              `DLQ_SERVER_HOST: auth.mode: is required, since server.host (10.0.0.7) is not a loopback address`,
		"DLQ_TEMPORAL_UI_URL=ftp://ui":          `DLQ_TEMPORAL_UI_URL: temporal.ui_url: must be an http or https URL`,
		"DLQ_LINKS_KAFKA_URL=https://ui/topics": `DLQ_LINKS_KAFKA_URL: links.kafka_url: needs the placeholder {topic}`,
		"DLQ_TEMPORAL_UI_URL=http://a:b@ui/":    `DLQ_TEMPORAL_UI_URL: temporal.ui_url: must not contain a user or password`,
	} {
		problems := problemsOf(t, "", variable)
		require.Len(t, problems, 1, variable)
		require.Contains(t, problems[0], want)
	}
}
