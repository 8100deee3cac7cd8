//go:build release

package deploy_test

import (
	"cmp"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
)

func TestTheMigrationRunsFirstWithItsOwnCredentials(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, text string, objects map[string]manifest) {
		job, ok := objects["Job migration"]
		if !ok {
			return
		}
		kinds := []string{"Job", "ConfigMap", "ServiceAccount"}
		if strings.Contains(text, "egress:") { // no other pod may open connections
			kinds = append(kinds, "NetworkPolicy")
		}
		for _, kind := range kinds {
			require.Equal(t, "pre-install,pre-upgrade", objects[kind+" migration"].Metadata.Annotations["helm.sh/hook"], kind)
		}
		require.Less(t, objects["ConfigMap migration"].Metadata.Annotations["helm.sh/hook-weight"], job.Metadata.Annotations["helm.sh/hook-weight"])
		require.Equal(t, []string{"/dlq-worker", "migrate"}, job.Spec.Template.Spec.Containers[0].Command)
		c := configuration(t, objects, "migration")
		require.False(t, c.Kafka.Configured() || c.Temporal.Configured())
		for _, part := range []string{"api", "worker"} {
			require.Equal(t, config.Migrations{}, configuration(t, objects, part).Database.Migrations)
			require.NotContains(t, secrets(objects["Deployment "+part]), "migrations", part)
		}
		if strings.Contains(text, "migrations") { // the migrations have their own user
			_, password, err := c.Database.MigrationCredentials()
			require.NoError(t, err)
			require.Equal(t, "secret of database.migrations.password_file", password)
			require.NotContains(t, secrets(job), "database.password_file")
			require.NotContains(t, secrets(job), "db-password")
		}
	})
}

// secrets are the names of the secret files in a pod.
func secrets(m manifest) string {
	var names []string
	for _, volume := range m.Spec.Template.Spec.Volumes {
		for _, source := range volume.Projected.Sources {
			names = append(names, source.Secret.Items[0].Path)
		}
	}
	for annotation := range m.Spec.Template.Metadata.Annotations {
		if name, ok := strings.CutPrefix(annotation, "vault.hashicorp.com/agent-inject-file-"); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// vaultKeys are the keys of the configuration for the files that Vault writes in the cases.
var vaultKeys = map[string]string{
	"db-user": "database.user_file", "db-password": "database.password_file", "db-migrations-user": "database.migrations.user_file",
	"db-migrations-password": "database.migrations.password_file", "kafka-password": "kafka.sasl.password_file",
}

// configuration is the configuration that the program reads in its pod. Each secret of the pod is a file.
func configuration(t *testing.T, objects map[string]manifest, part string) *config.Config {
	t.Helper()
	m, ok := objects["Deployment "+part]
	if !ok {
		m = objects["Job "+part]
	}
	dir := t.TempDir()
	authority := certtest.NewAuthority(t)
	certificate, key := certtest.PEM(t, authority.Issue(t, "api"))
	for name := range strings.FieldsSeq(secrets(m)) {
		configured := name
		if of := vaultKeys[name]; of != "" {
			configured = of
		}
		content := []byte("secret of " + configured)
		switch {
		case strings.HasSuffix(name, "ca_file"), strings.HasSuffix(name, "root_cert"):
			content = authority.PEM()
		case strings.HasSuffix(name, "cert_file"):
			content = certificate
		case name == "console.key_file":
			content = []byte(base64.StdEncoding.EncodeToString(make([]byte, 32)))
		case strings.HasSuffix(name, "key_file"):
			content = key
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	text := strings.NewReplacer("/etc/dlq-manager-secrets", dir, "/vault/secrets", dir).Replace(objects["ConfigMap "+part].Data["config.yaml"])
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var environ []string
	for _, variable := range m.Spec.Template.Spec.Containers[0].Env {
		environ = append(environ, variable.Name+"="+cmp.Or(variable.Value, "secret"))
	}
	c, err := config.Load(file, environ)
	require.NoError(t, err, "%s: %s", part, text)
	require.NoError(t, c.CheckFiles(), part)
	return c
}

func TestTheProgramsReadTheProductionExample(t *testing.T) {
	t.Parallel()
	_, objects := render(t, "example prod")
	for _, part := range []string{"api", "worker"} {
		c := configuration(t, objects, part)
		require.True(t, c.App.Production())
		require.Equal(t, "SASL_SSL", c.Kafka.SecurityProtocol)
		require.Len(t, c.Kafka.Brokers, 3)
		require.Equal(t, "dlq", c.Temporal.Namespace)
		require.Equal(t, "verify-full", c.Database.SSLMode)
		require.Equal(t, "https://dlq.example.com", c.Server.PublicURL, "%s writes links", part)
		user, password, err := c.Database.Credentials()
		require.NoError(t, err)
		require.Equal(t, []string{"secret of database.user_file", "secret of database.password_file"}, []string{user, password})
		kafka, err := c.Kafka.SASL.Password()
		require.NoError(t, err)
		require.Equal(t, "secret of kafka.sasl.password_file", kafka)
		require.Equal(t, part == "api", c.Auth.Has("oidc"), part)
	}
	job := configuration(t, objects, "migration").Database
	require.Equal(t, config.Migrations{Role: "dlq_owner"}, job.Migrations)
	require.Equal(t, "dlq_app", job.ApplicationRole)
	annotations := objects["Deployment worker"].Spec.Template.Metadata.Annotations
	require.Equal(t, `{{- with secret "database/creds/dlq-manager-rw" -}}{{ index .Data "password" }}{{- end -}}`,
		annotations["vault.hashicorp.com/agent-inject-template-db-password"])
	require.Equal(t, `{{- with secret "secret/data/k1s0/system/kafka/sasl" -}}{{ index .Data.data "password" }}{{- end -}}`,
		annotations["vault.hashicorp.com/agent-inject-template-kafka-password"])
	require.Equal(t, "true", objects["Job migration"].Spec.Template.Metadata.Annotations["vault.hashicorp.com/agent-pre-populate-only"], "else the job never ends")
}

func TestTheChartHasTheShippedRulesAndDashboards(t *testing.T) {
	t.Parallel()
	_, objects := render(t, "every part")
	var rules struct{ Groups []any }
	readYAML(t, "prometheus/rules.yaml", &rules)
	require.JSONEq(t, jsonOf(t, rules.Groups), string(objects["PrometheusRule "].Spec.Groups))
	for file := range dashboards(t) {
		name := filepath.Base(file)
		require.Equal(t, read(t, file), objects["ConfigMap dashboard-"+strings.TrimSuffix(name, ".json")].Data[name])
	}
	require.JSONEq(t, `[{"port": "http", "path": "/metrics", "interval": "30s", "scheme": "https"}]`, string(objects["ServiceMonitor api"].Spec.Endpoints))
	text, _ := render(t, "example prod")
	require.NotContains(t, text, "externalLabels")
	require.Contains(t, text, "https://git.example.com/dlq/docs/runbook.md#dlqfirstarrival")
}

func TestBadValuesAreRefusedByTheirKeys(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "required.yaml")
	require.NoError(t, os.WriteFile(base, []byte(required), 0o600))
	for value, wanted := range map[string]string{
		"replicaCount=many": "replicaCount", "replicas=2": "replicas", "config.databases.host=x": "databases",
		"config.server.port=1":       "port",
		"config.database.password=x": "/config/database/password", "config.database.migrations.password=x": "/config/database/migrations/password",
		"config.kafka.sasl.password=x": "/config/kafka/sasl/password", "config.temporal.api_key=x": "/config/temporal/api_key",
		"config.schema_registry.password=x": "/config/schema_registry/password", "config.schema_registry.token=x": "/config/schema_registry/token",
		"config.masking.secret=x": "/config/masking/secret",
		"kafka.brokers={kafka}":   "brokers", "secretFiles.database\\.password.secret=x": "database.password",
		"podDisruptionBudget.maxUnavailable=0": "maxUnavailable", "config.database.host=": "config.database.host is required",
		"config.temporal.address=": "config.temporal.address is required", "config.auth.mode=": "config.auth.mode is required",
		"kafka.brokers=null": "kafka.brokers is required", "fullnameOverride=DLQ": "fullnameOverride", "fullnameOverride=7a": "fullnameOverride", "nameOverride=DLQ": "nameOverride",
		"autoscaling.enabled=true,autoscaling.minReplicas=9":               "autoscaling.minReplicas is greater than maxReplicas",
		"worker.autoscaling.enabled=true,worker.autoscaling.minReplicas=9": "worker.autoscaling.minReplicas is greater than maxReplicas",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, "template", "release", chart, "-f", base, "--set", value)
			require.ErrorContains(t, err, wanted)
		})
	}
}

func TestTheSchemaKnowsEverySectionOfTheConfiguration(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Config struct{ Properties map[string]any }
		}
	}
	readYAML(t, chart+"/values.schema.json", &schema)
	data, err := yaml.Marshal(config.Default().Redacted())
	require.NoError(t, err)
	var sections map[string]any
	require.NoError(t, yaml.Unmarshal(data, &sections))
	require.ElementsMatch(t, slices.Collect(maps.Keys(sections)), slices.Collect(maps.Keys(schema.Properties.Config.Properties)))
}

func TestTheChartsReadmeExplainsEveryValue(t *testing.T) {
	t.Parallel()
	var values map[string]any
	readYAML(t, chart+"/values.yaml", &values)
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)`").FindAllStringSubmatch(read(t, chart+"/README.md"), -1) {
		explained = append(explained, row[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(values)), explained)
}
