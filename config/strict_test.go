package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestAllProblemsAreReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`file:3: server.port: must be 1 to 65535, not 70000`,
		`file:4: server.prot: unknown key; did you mean port?`,
		`file:5: server.retry_wait: must be a duration with a unit, such as 10s, 5m, 720h or 30d, not "10"`,
		`file:9: kafka.brokers[1]: must be host:port, not "b"`,
		`file:10: nonsense: unknown key`,
		`DLQ_DATABSE_HOST: unknown variable; did you mean DLQ_DATABASE_HOST?`,
		`DLQ_JOBS_LANES: jobs.lanes: must be a whole number that fits, not "many"`,
	}, problemsOf(t, `
server:
  port: 70000
  prot: 1
  retry_wait: 10
kafka:
  brokers:
    - a:9092
    - b
nonsense: true
`, "DLQ_DATABSE_HOST=x", "DLQ_JOBS_LANES=many"))
}

func TestErrorTextHasOneLineForEachProblem(t *testing.T) {
	t.Parallel()
	path := write(t, "jobs: {lanes: 0}")
	_, err := config.Load(path, nil)
	require.EqualError(t, err, "configuration: "+path+":1: jobs.lanes: must be 1 to 64, not 0")

	path = write(t, "jobs: {lanes: 0}\nlog: {level: loud}")
	_, err = config.Load(path, nil)
	require.EqualError(t, err, "configuration: 2 problems:\n  "+
		path+":1: jobs.lanes: must be 1 to 64, not 0\n  "+
		path+`:2: log.level: must be one of debug, info, warn, error, not "loud"`)
}

func TestBadFilesAreRefusedWithLineAndKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"tab":                    {"server:\n\tport: 1\n", "file:2: malformed YAML: found character that cannot start any token (YAML does not allow tabs for indentation)"},
		"not closed":             {"server: {port: 1\n", "file:1: malformed YAML"},
		"scalar document":        {"hello", "file:1: must be a section of keys and values, not text"},
		"list document":          {"- a\n- b", "file:1: must be a section of keys and values, not a list"},
		"section is a list":      {"server: [1]", "file:1: server: must be a section of keys and values, not a list"},
		"section is text":        {"kafka: yes please", "file:1: kafka: must be a section of keys and values, not text"},
		"duplicate section":      {"jobs: {lanes: 1}\njobs: {lanes: 2}", "file:2: jobs: is set twice, first on line 1"},
		"duplicate key":          {"jobs:\n  lanes: 1\n  lanes: 2", "file:3: jobs.lanes: is set twice, first on line 2"},
		"key in capitals":        {"Server: {port: 1}", "file:1: Server: unknown key; did you mean server?"},
		"dotted key":             {"server.port: 1", "file:1: server.port: unknown key"},
		"merge key":              {"jobs: &b {lanes: 1}\nlog:\n  <<: *b", "file:3: log.<<: unknown key"},
		"key is a list":          {"? [a, b]\n: 1", "file:1: a key must be text, not a list"},
		"second document":        {"jobs: {lanes: 1}\n---\njobs: {lanes: 2}", "file:2: starts a second YAML document; only one is read"},
		"not UTF-8":              {"app:\n  name: \xff\xfe\n", "file:2: is not UTF-8 text"},
		"NUL":                    {"app:\n  name: \"a\x00b\"\n", "file:1: malformed YAML: control characters are not allowed"},
		"unknown alias":          {"jobs: {lanes: *x}", "file:1: malformed YAML: a value refers to an unknown anchor; put a value that begins with * in quotes"},
		"anchor of nothing":      {"database: {host: h, name: n, user: u, password: &secret}", "file:1: database.password: is an anchor without a value; put a value that begins with & in quotes"},
		"user in a host":         {"database: {host: 'postgres://u:secret@h', name: n, user: u}", "file:1: database.host: must be a host name or an IP address, without scheme or port, not an address with a user"},
		"quoted number":          {"server: {port: '8080'}", "file:1: server.port: must be a whole number, not text"},
		"fraction":               {"server: {port: 80.5}", "file:1: server.port: must be a whole number, not a number with a fraction"},
		"hexadecimal":            {"server: {port: 0x50}", `file:1: server.port: must be a whole number that fits, not "0x50"`},
		"huge number":            {"server: {port: 99999999999999999999}", "file:1: server.port: must be a whole number"},
		"huge but an integer":    {"jobs: {lanes: 9223372036854775807}", "file:1: jobs.lanes: must be 1 to 64, not 9223372036854775807"},
		"negative port":          {"server: {port: -1}", "file:1: server.port: must be 1 to 65535, not -1"},
		"port zero":              {"worker: {metrics_port: 0}", "file:1: worker.metrics_port: must be 1 to 65535, not 0"},
		"true as text":           {"app: {name: true}", "file:1: app.name: must be text, not a true/false value; put it in quotes"},
		"text as true":           {"temporal: {tls: {enabled: 'true'}}", "file:1: temporal.tls.enabled: must be true or false, not text"},
		"list as text":           {"app: {name: [a]}", "file:1: app.name: must be text, not a list"},
		"section as text":        {"app: {name: {a: b}}", "file:1: app.name: must be text, not a section"},
		"own tag":                {"app: {name: !secret x}", "file:1: app.name: must be text, not a value with a tag; put a value that begins with ! in quotes"},
		"list within list":       {"kafka: {brokers: [['a:1']]}", "file:1: kafka.brokers[0]: must be text, not a list"},
		"null in list":           {"kafka:\n  brokers:\n  - a:1\n  -\n", "file:4: kafka.brokers[1]: must be text, not nothing"},
		"empty in list":          {"kafka: {dlq_topic_pattern: ['']}", "file:1: kafka.dlq_topic_pattern[0]: is empty"},
		"map as list":            {"kafka: {origin_topics: [a]}", "file:1: kafka.origin_topics: must be a section of keys and values, not a list"},
		"duplicate in map":       {"kafka:\n  origin_topics:\n    a: b\n    a: c", "file:4: kafka.origin_topics.a: is set twice, first on line 3"},
		"duration without unit":  {"server: {read_timeout: 5}", "file:1: server.read_timeout: must be a duration with a unit"},
		"negative duration":      {"server: {read_timeout: -5s}", "file:1: server.read_timeout: must not be negative or signed"},
		"duration beyond int64":  {"archive: {purge_after: 200000d}", "file:1: archive.purge_after: is too long"},
		"size in unknown unit":   {"server: {body_limit: 4MB}", "file:1: server.body_limit: must be a number of bytes"},
		"no time for a plan":     {"server: {plan_timeout: 0s}", "file:1: server.plan_timeout: must be at least 1ms, not 0s"},
		"a plan of days":         {"server: {plan_timeout: 2d}", "file:1: server.plan_timeout: must be at most 1d, not 2d"},
		"wait longer than limit": {"server: {retry_wait: 60s}", "server.request_timeout: must be longer than server.retry_wait (1m), not 15s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := problemsOf(t, c.text)
			require.Len(t, problems, 1, "said once: %q", problems)
			require.Contains(t, problems[0], c.want)
		})
	}
}

func TestHarmlessFilesAreRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":             "",
		"only a comment":    "# nothing\n",
		"only a marker":     "---\n",
		"byte order mark":   "\ufeffjobs: {lanes: 4}\n",
		"windows lines":     "jobs:\r\n  lanes: 4\r\n",
		"empty section":     "kafka:\ndatabase:\nserver: {}\n",
		"empty value":       "database:\njobs:\n  lanes:\nserver:\n  port: ~\n",
		"alias to a number": "worker: {metrics_port: &n 4}\njobs: {lanes: *n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := load(t, text)
			require.NoError(t, err)
			require.Equal(t, 4, c.Jobs.Lanes)
			require.Equal(t, 8080, c.Server.Port)
			require.False(t, c.Database.Configured())
			require.False(t, c.Kafka.Configured())
		})
	}
}

func TestProductionNeedsEverySectionThatKeepsMessagesSafe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"production", "prod", "Production"} {
		problems := problemsOf(t, "app: {environment: "+name+"}")
		require.Len(t, problems, 3)
		require.Contains(t, problems[0], `file:1: database: missing, and app.environment is "`+name+`": set database.host in the file or DLQ_DATABASE_HOST in the environment`)
		require.Contains(t, problems[1], "kafka: missing")
		require.Contains(t, problems[1], "DLQ_KAFKA_BROKERS")
		require.Contains(t, problems[2], "temporal: missing")
		require.Contains(t, problems[2], "TEMPORAL_ADDRESS")
	}

	_, err := config.Load("testdata/server.yaml", []string{"DLQ_AUTH_MODE=none"})
	require.EqualError(t, err, `configuration: testdata/server.yaml:4: temporal: missing, and app.environment is "production": `+
		`set temporal.address in the file or DLQ_TEMPORAL_ADDRESS in the environment; `+
		`without it there is nothing to run retries (TEMPORAL_ADDRESS or a Temporal profile serve as well)`)

	_, err = config.Load("", []string{
		"DLQ_APP_ENVIRONMENT=production", "DLQ_KAFKA_BROKERS=k:9092", "DLQ_TEMPORAL_ADDRESS=t:7233",
		"DLQ_DATABASE_HOST=db", "DLQ_DATABASE_NAME=dlq", "DLQ_DATABASE_USER=app",
	})
	require.NoError(t, err)
}

func TestCheckFilesNamesEveryFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	c := config.Default()
	c.Database.PasswordFile = "/nowhere/db"
	c.Database.SSLRootCert = "/nowhere/root"
	c.Kafka.SASL.PasswordFile = empty
	c.Kafka.TLS.CAFile = "/nowhere/ca"
	c.Temporal.APIKeyFile = "/nowhere/key"
	err := c.CheckFiles()
	require.ErrorContains(t, err, "database.password_file: open /nowhere/db")
	require.ErrorContains(t, err, "database.ssl_root_cert: open /nowhere/root")
	require.ErrorContains(t, err, "kafka.sasl.password_file: read "+empty+": the file is empty")
	require.ErrorContains(t, err, "kafka.tls.ca_file: open /nowhere/ca")
	require.ErrorContains(t, err, "temporal.api_key_file: open /nowhere/key")
}

// FuzzLoad searches for input that makes the parser panic or print a secret.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "a", "a: b", "a: [", "- - -", "&a [*a]", "a: &a [*a]", "server: *server", "{{{{", "? ? ?", "\x00", "\xff",
		"%YAML 9.9\n---\n", "!!binary x", "server: !!set {a}", "jobs: &b {lanes: *b}", "\ufeff", "\r\r\r", "--- ---",
		"kafka: &k\n  brokers: *k", strings.Repeat("[", 2000), strings.Repeat("a: {", 500), "database: {password: [hunter2]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := config.Load(path, []string{"TEMPORAL_API_KEY=kept-out-of-sight"})
		require.NotContains(t, fmt.Sprint(err, c), "kept-out-of-sight")
	})
}
