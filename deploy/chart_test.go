//go:build release

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/console"
	"dlqmanager/dlq"
)

const chart = "helm/dlq-manager"

// chartTool is the path of a file that `make chart-tools` makes. Without the file the test is skipped, but in CI it fails.
func chartTool(t *testing.T, folder, name, variable string) string {
	t.Helper()
	version := regexp.MustCompile(variable + ` := (\S+)`).FindStringSubmatch(read(t, "../Makefile"))
	require.NotNil(t, version, variable)
	path, err := filepath.Abs(filepath.Join("..", folder, name+"-"+version[1]))
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("SKIPPED: %s is missing; run make chart-tools", path)
		}
		require.NoError(t, err, "make chart-tools")
	}
	return path
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), chartTool(t, ".build/bin", "helm", "HELM_VERSION"), append(args, "--kube-version", "1.37.0")...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, out.String(), problems.String())
	}
	return out.String(), nil
}

// required are the values without which the chart renders nothing.
const required = `{config: {auth: {mode: none}, database: {host: db.example, user: app}, temporal: {address: "temporal.example:7233"}}, kafka: {brokers: ["kafka.example:9092"]}}`

// cases are values for each optional part, by name. Each case is rendered together with the values of required.
var cases = map[string]string{
	"required only": `{}`,
	"example dev":   "examples/dev.yaml", "example staging": "examples/staging.yaml", "example prod": "examples/prod.yaml",
	"without kafka":          `{kafka: {enabled: false}, config: {app: {environment: dev}}}`,
	"workers migrate":        `{migration: {enabled: false}, secretFiles: {database.migrations.password_file: {secret: m, key: p}}, config: {database: {migrations: {user: m}}}}`,
	"every part":             `{autoscaling: {enabled: true}, worker: {autoscaling: {enabled: true}}, ingress: {enabled: true, hosts: [a.example]}, networkPolicy: {enabled: true, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}, serviceMonitor: {enabled: true, labels: {release: p}, api: {scheme: https}}, prometheusRule: {enabled: true}, dashboards: {enabled: true}}`,
	"no part":                `{podDisruptionBudget: {enabled: false}, topologySpreadConstraints: [], serviceAccount: {create: false}, migration: {enabled: false}}`,
	"one replica":            `{replicaCount: 1, worker: {replicaCount: 1}, fullnameOverride: other}`,
	"extras":                 `{image: {registry: r.example, tag: "7"}, imagePullSecrets: [{name: r}], extraEnv: [{name: GOMEMLIMIT, value: 300MiB}], extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}], podAnnotations: {a: b}, podLabels: {c: d}, nodeSelector: {e: f}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}, priorityClassName: high}`,
	"same keys":              `{vault: {enabled: true, role: r, annotations: {vault.hashicorp.com/role: other}}, podAnnotations: {vault.hashicorp.com/agent-inject: "false"}, podLabels: {app.kubernetes.io/name: other}}`,
	"variables":              `{config: {auth: {mode: oidc, oidc: {issuer: "https://i.example", roles: {a: {role: admin}}}}, kafka: {security_protocol: SASL_SSL, sasl: {mechanism: SCRAM-SHA-512, user: k}}}, extraEnv: [{name: DLQ_AUTH_OIDC_AUDIENCE, value: a}, {name: DLQ_DATABASE_PASSWORD, valueFrom: {secretKeyRef: {name: s, key: p}}}, {name: DLQ_KAFKA_SASL_PASSWORD, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`,
	"null":                   `{podLabels: null, podAnnotations: null, vault: {enabled: true, role: r, annotations: null}, extraEnv: null}`,
	"numbers as names":       `{secretFiles: {database.password_file: {secret: "7", key: "8"}}, ingress: {enabled: true, hosts: [a.example]}, prometheusRule: {enabled: true}}`,
	"https":                  `{secretFiles: {server.tls.cert_file: {secret: s, key: tls.crt}, server.tls.key_file: {secret: s, key: tls.key}}}`,
	"client certificates":    `{secretFiles: {server.tls.cert_file: {secret: s, key: tls.crt}, server.tls.key_file: {secret: s, key: tls.key}, server.tls.client_ca_file: {secret: s, key: ca.crt}}}`,
	"allowed hosts":          `{config: {server: {allowed_hosts: [lb.example], public_url: "https://ops.example"}}}`,
	"console below a path":   `{config: {server: {public_url: "https://ops.example"}, console: {path: /ui}}, secretFiles: {console.key_file: {secret: c, key: keys}}, ingress: {enabled: true, hosts: [ops.example]}, prometheusRule: {enabled: true}}`,
	"without console":        `{config: {server: {public_url: "https://ops.example"}, console: {enabled: false}}, ingress: {enabled: true, hosts: [ops.example]}, prometheusRule: {enabled: true}}`,
	"longer stops":           `{config: {server: {drain_delay: 10s, shutdown_timeout: 1m30s}, worker: {stop_timeout: 2m}}, migration: {activeDeadlineSeconds: 2000000}}`,
	"metrics with tokens":    `{secretFiles: {worker.tokens_file: {secret: t, key: tokens.yaml}}, serviceMonitor: {enabled: true, worker: {authorization: {credentials: {name: t, key: token}}}}}`,
	"other ports":            `{container: {port: 8443}, worker: {container: {port: 9191}}, service: {type: NodePort, port: 8080}}`,
	"values of the document": `{image: {registry: harbor.example, repository: system/dlq-manager, tag: ""}, replicaCount: 2, container: {port: 8080, grpcPort: null}, service: {type: ClusterIP, port: 80, grpcPort: null}, autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70}, kafka: {enabled: true, brokers: ["kafka.example:9092"]}, vault: {enabled: true, role: system, secrets: [{path: secret/data/system/dlq-manager/database, key: password, mountPath: /vault/secrets/db-password}]}, config: {database: {password_file: /vault/secrets/db-password}}}`,
}

// manifest and pod have the fields of Kubernetes that the tests read.
type manifest struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Data map[string]string
	Spec struct {
		Replicas                    *int
		Selector, Groups, Endpoints json.RawMessage
		Rules                       []struct {
			Host string
			HTTP struct {
				Paths []struct{ Path, PathType string }
			}
		}
		Template       pod
		MaxUnavailable any
	}
}

type pod struct {
	Metadata struct{ Labels, Annotations map[string]string }
	Spec     struct {
		AutomountServiceAccountToken, EnableServiceLinks *bool
		TerminationGracePeriodSeconds                    int
		SecurityContext                                  json.RawMessage
		Containers                                       []struct {
			Command                                     []string
			Env                                         []struct{ Name, Value string }
			SecurityContext                             json.RawMessage
			Ports                                       []struct{ ContainerPort int }
			StartupProbe, LivenessProbe, ReadinessProbe probe
			Resources                                   struct{ Requests, Limits map[string]string }
			VolumeMounts                                []struct {
				Name     string
				ReadOnly bool
			}
		}
		Volumes []struct {
			Projected struct {
				Sources []struct {
					Secret struct{ Items []struct{ Path string } }
				}
			}
		}
	}
}

type probe struct {
	HTTPGet   struct{ Path, Scheme string }
	Exec      struct{ Command []string }
	TCPSocket struct{ Port string }
}

// render renders the chart with one of the cases.
func render(t *testing.T, name string) (text string, objects map[string]manifest) {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "required.yaml")
	require.NoError(t, os.WriteFile(base, []byte(required), 0o600))
	args := []string{"template", "release", chart, "--namespace", "dlq"}
	if strings.HasPrefix(cases[name], "examples/") {
		args = append(args, "-f", filepath.Join(chart, cases[name]))
	} else {
		own := filepath.Join(dir, "own.yaml")
		require.NoError(t, os.WriteFile(own, []byte(cases[name]), 0o600))
		args = append(args, "-f", base, "-f", own)
	}
	text, err := helm(t, args...)
	require.NoError(t, err)
	objects = map[string]manifest{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var content any
		require.NoError(t, yaml.Unmarshal([]byte(part), &content), part)
		var m manifest
		require.NoError(t, json.Unmarshal([]byte(jsonOf(t, content)), &m), part)
		if m.Kind != "" {
			key := m.Kind + " " + regexp.MustCompile(`^(release-dlq-manager|other|456)-?`).ReplaceAllString(m.Metadata.Name, "")
			require.NotContains(t, objects, key)
			objects[key] = m
		}
	}
	return text, objects
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

func eachCase(t *testing.T, test func(t *testing.T, text string, objects map[string]manifest)) {
	t.Helper()
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, objects := render(t, name)
			test(t, text, objects)
		})
	}
}

func TestTheChartPassesHelmsOwnLint(t *testing.T) {
	t.Parallel()
	_, err := helm(t, "lint", "--strict", chart)
	require.NoError(t, err)
}

func TestKubernetesAcceptsTheManifests(t *testing.T) {
	t.Parallel()
	schemas := chartTool(t, ".build", "kubernetes-schemas", "KUBERNETES_SCHEMAS_VERSION")
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		text, _ := render(t, name)
		all.WriteString(text + "\n---\n")
	}
	for _, version := range []string{"1.25.0", "1.37.0"} {
		command := exec.CommandContext(t.Context(), chartTool(t, ".build/bin", "kubeconform", "KUBECONFORM_VERSION"), "-strict",
			"-skip", "ServiceMonitor,PrometheusRule", // kinds of Prometheus's operator
			"-schema-location", filepath.Join(schemas, "v"+version, "{{ .ResourceKind }}{{ .KindSuffix }}.json"))
		command.Stdin = strings.NewReader(all.String())
		out, err := command.CombinedOutput()
		require.NoError(t, err, "Kubernetes %s: %s", version, out)
	}
}

func TestPodsRunWithoutPrivileges(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, text string, objects map[string]manifest) {
		for key, m := range objects {
			if m.Kind != "Deployment" && m.Kind != "Job" {
				continue
			}
			spec := m.Spec.Template.Spec
			require.JSONEq(t, `{"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}`,
				string(spec.SecurityContext), "%s: as in the Dockerfile", key)
			require.Equal(t, strings.Contains(text, "vault.hashicorp.com"), *spec.AutomountServiceAccountToken, "%s: only Vault needs the token", key)
			require.False(t, *spec.EnableServiceLinks, key)
			container := spec.Containers[0]
			require.JSONEq(t, `{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}`,
				string(container.SecurityContext), key)
			require.NotEmpty(t, container.Resources.Limits["memory"], key)
			require.NotEmpty(t, container.Resources.Requests["cpu"], key)
			for _, mount := range container.VolumeMounts {
				require.True(t, mount.ReadOnly || mount.Name == "x", "%s: %s", key, mount.Name)
			}
		}
	})
}

func TestProbesAskWhatTheProgramsAnswer(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, _ string, objects map[string]manifest) {
		for _, part := range []string{"api", "worker"} {
			container := objects["Deployment "+part].Spec.Template.Spec.Containers[0]
			require.Equal(t, []string{"/dlq-" + part}, container.Command)
			require.Contains(t, named(t, dockerfile(t), "base").lines[1], "/src/.build/bin/dlq-"+part+" ", "the image has it")
			c := configuration(t, objects, part)
			port := c.Worker.MetricsPort
			if part == "api" {
				port = c.Server.Port
				require.Equal(t, "0.0.0.0", c.Server.Host)
			} else {
				require.Equal(t, "0.0.0.0", c.Worker.Host)
			}
			require.Equal(t, port, container.Ports[0].ContainerPort)
			switch {
			case part == "api" && c.Server.TLS.ClientCAFile != "":
				require.Equal(t, []string{"/dlq-api", "healthcheck"}, container.ReadinessProbe.Exec.Command)
				require.Equal(t, "http", container.LivenessProbe.TCPSocket.Port)
				continue
			case part == "api" && c.Server.TLS.Configured():
				require.Equal(t, "HTTPS", container.ReadinessProbe.HTTPGet.Scheme)
			}
			require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
			require.Equal(t, "/healthz", container.LivenessProbe.HTTPGet.Path, "a restart mends no dependency")
			require.Equal(t, "/healthz", container.StartupProbe.HTTPGet.Path)
		}
	})
}

// Prometheus's operator and the probes send requests to IP addresses. Other clients in the cluster use the names of Services.
func TestProgramsAnswerUnderTheNamesOfTheirServicesAndOfTheIngress(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, _ string, objects map[string]manifest) {
		for _, part := range []string{"api", "worker"} {
			hosts := configuration(t, objects, part).Server.Hosts()
			service := objects["Service "+part].Metadata.Name
			names := []string{service + ":80", service + ".dlq:9090", service + ".dlq.svc", service + ".dlq.svc.cluster.local", "10.0.0.1:8080"}
			if part == "api" {
				for _, rule := range objects["Ingress "].Spec.Rules {
					names = append(names, rule.Host)
				}
			}
			for _, name := range names {
				require.True(t, dlq.IsOwnHost(name, hosts), "%s: %s", part, name)
			}
			require.False(t, dlq.IsOwnHost("evil.example", hosts), part)
		}
	})
	_, objects := render(t, "allowed hosts")
	for _, part := range []string{"api", "worker"} {
		require.Subset(t, configuration(t, objects, part).Server.Hosts(), []string{"lb.example", "ops.example"}, part)
	}
}

func TestTheIngressServesEverythingButMetrics(t *testing.T) {
	t.Parallel()
	var contract struct{ Paths map[string]any }
	readYAML(t, "../api/openapi.yaml", &contract)
	require.Contains(t, contract.Paths, "/metrics")
	_, objects := render(t, "every part")
	require.Len(t, objects["Ingress "].Spec.Rules, 1)
	for path := range contract.Paths {
		served := slices.ContainsFunc(objects["Ingress "].Spec.Rules[0].HTTP.Paths, func(rule struct{ Path, PathType string }) bool {
			return path == rule.Path || rule.PathType == "Prefix" && strings.HasPrefix(path, rule.Path+"/")
		})
		require.Equal(t, path != "/metrics", served, path)
	}
	for _, root := range append([]string{""}, console.Roots...) {
		require.True(t, slices.ContainsFunc(objects["Ingress "].Spec.Rules[0].HTTP.Paths, func(rule struct{ Path, PathType string }) bool {
			return rule.Path == "/"+root
		}), root)
	}
}

func servedByIngress(objects map[string]manifest, path string) bool {
	return slices.ContainsFunc(objects["Ingress "].Spec.Rules[0].HTTP.Paths, func(rule struct{ Path, PathType string }) bool {
		return path == rule.Path || rule.PathType == "Prefix" && strings.HasPrefix(path, rule.Path+"/")
	})
}

func TestTheIngressServesThePagesOfTheConsole(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]string{"every part": "", "console below a path": "/ui"} {
		_, objects := render(t, name)
		require.True(t, servedByIngress(objects, base+"/"), name)
		for _, root := range console.Roots {
			require.True(t, servedByIngress(objects, base+"/"+root), "%s: %s", name, root)
			require.True(t, servedByIngress(objects, base+"/"+root+"/one"), "%s: %s", name, root)
		}
		require.False(t, servedByIngress(objects, "/metrics"), name)
	}
	_, objects := render(t, "without console")
	require.False(t, servedByIngress(objects, "/"))
	require.False(t, servedByIngress(objects, "/messages/one"))
	require.True(t, servedByIngress(objects, "/api/v1/dlq"))
}

// The worker writes links to the console, but has no secret of the console.
func TestTheWorkerKnowsWhereTheConsoleIs(t *testing.T) {
	t.Parallel()
	_, objects := render(t, "console below a path")
	require.Equal(t, "https://ops.example/ui", configuration(t, objects, "worker").ConsoleURL())
	require.Empty(t, configuration(t, objects, "worker").Console.KeyFile)
	require.True(t, strings.HasSuffix(configuration(t, objects, "api").Console.KeyFile, "/console.key_file"))
	text, _ := render(t, "console below a path")
	require.Contains(t, text, "https://ops.example/ui/topics/{{ $labels.topic }}", "alerts link to the console")
}

func TestOnlyTheWorkerHasTheTokensOfItsMetrics(t *testing.T) {
	t.Parallel()
	_, objects := render(t, "metrics with tokens")
	require.NotEmpty(t, configuration(t, objects, "worker").Worker.TokensFile)
	require.Equal(t, "worker.tokens_file", secrets(objects["Deployment worker"]))
	require.Empty(t, secrets(objects["Deployment api"]))
	require.JSONEq(t, `[{"port": "http", "path": "/metrics", "interval": "30s", "authorization": {"credentials": {"name": "t", "key": "token"}}}]`,
		string(objects["ServiceMonitor worker"].Spec.Endpoints))
}

func TestSelectorsAreDisjointAndNeverChange(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, _ string, objects map[string]manifest) {
		for key, m := range objects {
			part := m.Metadata.Name[strings.LastIndex(m.Metadata.Name, "-")+1:]
			wanted := map[string]string{
				"app.kubernetes.io/name": "dlq-manager", "app.kubernetes.io/instance": "release", "app.kubernetes.io/component": part,
			}
			switch m.Kind {
			case "Service":
				require.JSONEq(t, jsonOf(t, wanted), string(m.Spec.Selector), key)
			case "Deployment", "PodDisruptionBudget", "ServiceMonitor":
				require.JSONEq(t, jsonOf(t, map[string]any{"matchLabels": wanted}), string(m.Spec.Selector), key)
			default:
				continue
			}
			require.Subset(t, objects["Deployment "+part].Spec.Template.Metadata.Labels, wanted, key)
		}
	})
}

func TestProgramsHaveTheTimeToStop(t *testing.T) {
	t.Parallel()
	const closing = 20 * time.Second // for Temporal's client, the traces and the connection pool
	eachCase(t, func(t *testing.T, _ string, objects map[string]manifest) {
		grace := func(part string) time.Duration {
			return time.Duration(objects["Deployment "+part].Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		}
		api, worker := configuration(t, objects, "api"), configuration(t, objects, "worker")
		require.Greater(t, grace("api"), api.Server.DrainDelay.Std()+api.Server.ShutdownTimeout.Std()+time.Second+closing)
		const producer, metrics = 18 * time.Second, 2 * time.Second
		require.Greater(t, grace("worker"), worker.Worker.StopTimeout.Std()*5/4+producer+metrics+closing)
	})
}

// Helm reads numbers in files as floats.
func TestTheMigrationsLongDeadlineIsWrittenOut(t *testing.T) {
	t.Parallel()
	text, _ := render(t, "longer stops")
	require.Contains(t, text, "activeDeadlineSeconds: 2000000\n")
}

func TestAnAutoscalerOwnsTheReplicas(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, _ string, objects map[string]manifest) {
		for _, part := range []string{"api", "worker"} {
			_, scaled := objects["HorizontalPodAutoscaler "+part]
			require.Equal(t, scaled, objects["Deployment "+part].Spec.Replicas == nil, part)
			if budget, ok := objects["PodDisruptionBudget "+part]; ok {
				require.EqualValues(t, 1, budget.Spec.MaxUnavailable, "%s: one replica can be drained too", part)
			}
		}
	})
}
