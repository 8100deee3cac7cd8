package app

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/auth"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/telemetry"
)

var writeDocs = flag.Bool("write-docs", false, "write docs/metrics.md instead of comparing it")

const metricsPage = "../../../docs/metrics.md"

const metricsHead = `# Metrics

Written by ` + "`make docs-metrics`" + ` from the metrics that the programs register; a test compares it. The
worker serves ` + "`/metrics`" + ` on ` + "`worker.metrics_port`" + `, the API on its own port. Each program has one registry.
Beside these metrics it has those of the Go runtime (` + "`go_`" + `), of the process (` + "`process_`" + `) and of
the Temporal SDK (` + "`temporal_`" + `, named as the SDK names them). A program has a metric only if the
configuration has its subject, such as Kafka or a Schema Registry.

Histograms have classic buckets, and a native histogram for servers that ask for one. Their exemplars
are the ids of sampled traces, in the OpenMetrics format. The rules for alerts are in
` + "`deploy/prometheus/rules.yaml`" + `; [runbook.md](runbook.md) says how to answer them.

| metric | type | labels | programs | meaning |
|---|---|---|---|---|
`

type metricDoc struct {
	kind, labels, help string
	programs           []string
}

func TestTheMetricsPageIsCurrent(t *testing.T) {
	t.Parallel()
	metrics := map[string]*metricDoc{}
	for _, program := range []struct {
		name string
		open func(*testing.T) *prometheus.Registry
	}{{"api", apiMetrics}, {"worker", workerMetrics}} {
		describe(t, program.open(t), program.name, metrics)
	}
	var page strings.Builder
	page.WriteString(metricsHead)
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", name, m.kind, m.labels, strings.Join(m.programs, ", "), m.help)
	}
	if *writeDocs {
		require.NoError(t, os.WriteFile(metricsPage, []byte(page.String()), 0o600))
	}
	current, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(current), "run: make docs-metrics")
}

func assembled(t *testing.T, name string) *parts {
	t.Helper()
	cfg := config.Default()
	cfg.Database.Host, cfg.Kafka.Brokers, cfg.SchemaRegistry.URL = "127.0.0.1", []string{"127.0.0.1:1"}, []string{"http://127.0.0.1:1"}
	cfg.Kafka.ArchiveTopic, cfg.Server.PublicURL = "{topic}.archive", "https://dlq.test"
	p, err := assemble(cfg, name, io.Discard)
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p
}

func workerMetrics(t *testing.T) *prometheus.Registry {
	t.Helper()
	p := assembled(t, "worker")
	e, err := newEngine(p)
	require.NoError(t, err)
	t.Cleanup(e.publisher.Close)
	return p.registry
}

func apiMetrics(t *testing.T) *prometheus.Registry {
	t.Helper()
	p := assembled(t, "api")
	options, ok := p.kafkaOptions()
	require.True(t, ok)
	broker, err := kafka.NewClient(options, p.log, p.registry, "api")
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	p.cfg.Auth.Mode, p.cfg.Auth.TokensFile = []string{"token"}, filepath.Join(t.TempDir(), "tokens.yaml")
	entry, err := auth.Entry{Name: "metrics", Role: dlq.RoleViewer}.Marshal(auth.NewToken())
	require.NoError(t, err)
	require.NoError(t, auth.Append(p.cfg.Auth.TokensFile, entry))
	authenticator, err := p.access(t.Context(), map[string]telemetry.Check{})
	require.NoError(t, err)
	_, err = api.New(api.Options{
		Auth: authenticator, Store: p.store, Database: p.database, Retries: p.workflows, Topics: p.topics, Logger: p.log, LogLevel: p.level, Profiles: telemetry.Profiles(),
		Registerer: p.registry, Gatherer: p.registry, RequestTimeout: 1, PlanTimeout: 1,
	})
	require.NoError(t, err)
	return p.registry
}

var descriptor = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`)

// describe adds the metrics of a registry. A metric without a value gets the type that follows from its name. Metrics with a
// value prove that names and types agree.
func describe(t *testing.T, registry *prometheus.Registry, program string, metrics map[string]*metricDoc) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	gathered := map[string]string{}
	for _, family := range families {
		name := family.GetName()
		gathered[name] = strings.ToLower(family.GetType().String())
		// Some gauges of the Kafka client have names that end in _total.
		if strings.HasPrefix(name, "dlq_") && !strings.HasPrefix(name, "dlq_kafka_") {
			require.Equal(t, kindOf(name), gathered[name], name)
		}
	}
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); registry.Describe(descs) }()
	for desc := range descs {
		parts := descriptor.FindStringSubmatch(desc.String())
		require.NotNil(t, parts, desc.String())
		name, err := strconv.Unquote(parts[1])
		require.NoError(t, err)
		help, err := strconv.Unquote(parts[2])
		require.NoError(t, err)
		if !strings.HasPrefix(name, "dlq_") {
			continue
		}
		m := metrics[name]
		if m == nil {
			m = &metricDoc{kind: cmp.Or(gathered[name], kindOf(name)), labels: strings.ReplaceAll(parts[3], ",", ", "), help: strings.ReplaceAll(help, "|", `\|`)}
			metrics[name] = m
		}
		require.NotEmpty(t, m.help, name)
		if !slices.Contains(m.programs, program) {
			m.programs = append(m.programs, program)
		}
	}
}

func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"), strings.HasPrefix(name, "dlq_kafka_") && strings.HasSuffix(name, "_seconds"):
		return "histogram"
	default:
		return "gauge"
	}
}
