package deploy_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/internal/promtest"
)

// compose loads docker-compose.yaml with these environment variables, as Compose loads it. It refuses unknown fields, and
// volumes and services that are not declared.
func compose(t *testing.T, environ ...string) *types.Project {
	t.Helper()
	return composeWith(t, nil, environ...)
}

// composeWith is compose with profiles enabled.
func composeWith(t *testing.T, profiles []string, environ ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yaml"}, cli.WithEnv(environ), cli.WithDiscardEnvFile, cli.WithProfiles(profiles))
	require.NoError(t, err)
	project, err := options.LoadProject(context.Background())
	require.NoError(t, err)
	return project
}

// environ is the environment of a service's container.
func environ(service types.ServiceConfig) []string {
	var entries []string
	for name, value := range service.Environment {
		if value != nil {
			entries = append(entries, name+"="+*value)
		}
	}
	return entries
}

func TestComposeHasEveryPart(t *testing.T) {
	t.Parallel()
	project := compose(t)
	require.ElementsMatch(t, []string{"api", "worker", "postgres", "kafka", "temporal", "temporal-postgres", "temporal-ui"}, project.ServiceNames())
	require.Equal(t, "apache/kafka:3.8.1", project.Services["kafka"].Image)
	require.True(t, strings.HasPrefix(project.Services["postgres"].Image, "postgres:17."))
}

func TestTheProfilesOfComposeHaveTheirFiles(t *testing.T) {
	t.Parallel()
	project := composeWith(t, []string{"observability", "registry"}, "DLQ_SCHEMA_REGISTRY_URL=http://registry:8080/apis/ccompat/v7")
	mounted := map[string]string{}
	for _, name := range []string{"prometheus", "alertmanager", "grafana", "registry"} {
		published(t, project.Services[name])
		for _, volume := range project.Services[name].Volumes {
			_, err := os.Stat(volume.Source)
			require.NoError(t, err)
			require.True(t, volume.ReadOnly)
			mounted[volume.Target] = volume.Source
		}
	}
	require.FileExists(t, filepath.Join(mounted["/var/lib/grafana/dashboards"], "overview.json"))
	require.Contains(t, read(t, mounted["/etc/grafana/provisioning/dashboards/dlq-manager.yaml"]), "path: /var/lib/grafana/dashboards")

	// Prometheus looks for the rules in the folder of its configuration.
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yml", "rules.yaml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(read(t, mounted["/etc/prometheus/"+name])), 0o600))
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
	output, err := exec.CommandContext(t.Context(), promtest.Tool(t, "amtool"), "check-config", mounted["/etc/alertmanager/alertmanager.yml"]).CombinedOutput()
	require.NoError(t, err, string(output))

	for _, name := range []string{"api", "worker"} {
		c, err := config.Load("", environ(project.Services[name]))
		require.NoError(t, err)
		require.Equal(t, "http://registry:8080/apis/ccompat/v7", c.SchemaRegistry.URL[0])
	}
}

// withoutDigest are the images that are pinned only by their tag. There are not two independent public sources of their
// digests, and no registry could be asked.
var withoutDigest = []string{"apache/kafka:3.8.1", "apicurio/apicurio-registry-mem:2.6.13.Final", "temporalio/ui:2.42.1"}

// A tag can move to another image, but a digest cannot. Users build the chart's only image themselves.
func TestComposeImagesArePinned(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`^[a-z/-]+:v?[0-9]+\.[0-9]+(\.[0-9]+)?(\.Final)?(@sha256:[0-9a-f]{64})?$`)
	var tagged []string
	for name, service := range composeWith(t, []string{"*"}).Services {
		if service.Build != nil {
			continue
		}
		require.Regexp(t, version, service.Image, name)
		if !strings.Contains(service.Image, "@") {
			tagged = append(tagged, service.Image)
		}
	}
	require.ElementsMatch(t, withoutDigest, tagged)
}

func TestProgramsAcceptExactlyTheirComposeEnvironment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"api", "worker"} {
		service := compose(t, "POSTGRES_PASSWORD=given").Services[name]
		for variable := range service.Environment {
			require.Contains(t, config.EnvNames(), variable, "%s gives only keys that exist", name)
		}
		c, err := config.Load("", environ(service))
		require.NoError(t, err)
		require.Equal(t, "postgres", c.Database.Host)
		require.Equal(t, []string{"kafka:9092"}, c.Kafka.Brokers)
		require.Equal(t, "temporal:7233", c.Temporal.Address)
		_, password, err := c.Database.Credentials()
		require.NoError(t, err)
		require.Equal(t, "given", password)

		// With database, kafka and temporal configured, the programs start in production too.
		_, err = config.Load("", append(environ(service), "DLQ_APP_ENVIRONMENT=production"))
		require.NoError(t, err)
	}
}

func TestProgramsAndServersAgreeOnNamesAndPasswords(t *testing.T) {
	t.Parallel()
	project := compose(t)
	c, err := config.Load("", environ(project.Services["api"]))
	require.NoError(t, err)
	postgres := project.Services["postgres"].Environment
	require.Equal(t, c.Database.Name, *postgres["POSTGRES_DB"])
	require.Equal(t, c.Database.User, *postgres["POSTGRES_USER"])
	require.Equal(t, c.Database.StaticPassword.Reveal(), *postgres["POSTGRES_PASSWORD"])

	kafka := project.Services["kafka"].Environment
	require.Contains(t, *kafka["KAFKA_ADVERTISED_LISTENERS"], "INSIDE://"+c.Kafka.Brokers[0])

	temporal, database := project.Services["temporal"].Environment, project.Services["temporal-postgres"].Environment
	require.Equal(t, *database["POSTGRES_USER"], *temporal["POSTGRES_USER"])
	require.Equal(t, *database["POSTGRES_PASSWORD"], *temporal["POSTGRES_PWD"])
	require.Contains(t, project.Services, *temporal["POSTGRES_SEEDS"])
	require.Equal(t, c.Temporal.Namespace, *temporal["DEFAULT_NAMESPACE"])
}

// published maps a service's published ports to the container's ports.
func published(t *testing.T, service types.ServiceConfig) map[int]int {
	t.Helper()
	ports := map[int]int{}
	for _, port := range service.Ports {
		require.Equal(t, "127.0.0.1", port.HostIP, "published on loopback only: %s", service.Name)
		number, err := strconv.Atoi(port.Published)
		require.NoError(t, err)
		ports[number] = int(port.Target)
	}
	return ports
}

func TestComposePortsAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	project := compose(t)
	for _, service := range project.Services {
		published(t, service)
	}
	api, err := config.Load("", environ(project.Services["api"]))
	require.NoError(t, err)
	worker, err := config.Load("", environ(project.Services["worker"]))
	require.NoError(t, err)
	require.Equal(t, map[int]int{8080: api.Server.Port}, published(t, project.Services["api"]))
	require.Equal(t, map[int]int{9090: worker.Worker.MetricsPort}, published(t, project.Services["worker"]))
	require.Equal(t, "0.0.0.0", api.Server.Host, "else the published port leads nowhere")
	require.Equal(t, "0.0.0.0", worker.Worker.Host)
	require.Equal(t, map[int]int{15432: api.Database.Port}, published(t, project.Services["postgres"]))
	require.Equal(t, map[int]int{19092: 19092}, published(t, project.Services["kafka"]))
	require.Equal(t, map[int]int{7233: 7233}, published(t, project.Services["temporal"]))
	require.Equal(t, map[int]int{8233: 8080}, published(t, project.Services["temporal-ui"]))
	require.Equal(t, "http://127.0.0.1:8233", api.Temporal.UIURL)
}

func TestComposeKeepsStateInNamedVolumes(t *testing.T) {
	t.Parallel()
	project := compose(t)
	var used []string
	for _, service := range project.Services {
		for _, volume := range service.Volumes {
			require.Equal(t, types.VolumeTypeVolume, volume.Type, service.Name)
			used = append(used, volume.Source)
		}
	}
	require.ElementsMatch(t, []string{"postgres", "kafka", "temporal-postgres"}, used)
	require.ElementsMatch(t, used, project.VolumeNames())
}

func TestComposeStartsProgramsAfterHealthyDependencies(t *testing.T) {
	t.Parallel()
	project := compose(t)
	for name, service := range project.Services {
		for on, dependency := range service.DependsOn {
			require.Equal(t, types.ServiceConditionHealthy, dependency.Condition, "%s on %s", name, on)
			require.NotNil(t, project.Services[on].HealthCheck, "%s waits for the health of %s", name, on)
		}
		if name != "temporal-ui" {
			require.NotNil(t, service.HealthCheck, name)
			require.Equal(t, "CMD", service.HealthCheck.Test[0], "%s: without a shell", name)
		}
	}
	for _, name := range []string{"api", "worker"} {
		service := project.Services[name]
		require.ElementsMatch(t, []string{"postgres", "kafka", "temporal"}, service.GetDependencies())
		require.Equal(t, []string{"CMD", "/dlq-" + name, "healthcheck"}, []string(service.HealthCheck.Test))
	}
}

func TestProgramsRunWithoutPrivilegesAndStopInTheirOwnTime(t *testing.T) {
	t.Parallel()
	defaults := config.Default()
	for _, name := range []string{"api", "worker"} {
		service := compose(t).Services[name]
		require.True(t, service.ReadOnly)
		require.Equal(t, []string{"ALL"}, service.CapDrop)
		require.True(t, slices.Contains(service.SecurityOpt, "no-new-privileges:true"))
		require.Equal(t, name, service.Build.Target)
		require.NotNil(t, service.StopGracePeriod)
		grace := config.Duration(*service.StopGracePeriod)
		require.Greater(t, grace, defaults.Server.ShutdownTimeout)
		require.Greater(t, grace, defaults.Worker.StopTimeout)
	}
}
