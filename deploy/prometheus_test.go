package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/console"
	"dlqmanager/internal/promtest"
)

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules are all rules, by group.
func rules(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	readYAML(t, "prometheus/rules.yaml", &file)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), promtest.Tool(t, "promtool"), args...)
	command.Dir = "prometheus"
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "rules.yaml")
}

func TestEachAlertFiresAndIsSilent(t *testing.T) {
	t.Parallel()
	files := []string{"rules_test.yaml", "rules_days_test.yaml"}
	promtool(t, append([]string{"test", "rules"}, files...)...)

	type tests struct {
		Tests []struct {
			Checks []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	name := regexp.MustCompile(`alertname="(\w+)"`)
	for _, path := range files {
		var file tests
		readYAML(t, "prometheus/"+path, &file)
		for _, test := range file.Tests {
			for _, check := range test.Checks {
				of := map[bool]map[string]bool{true: fired, false: silent}[len(check.Samples) > 0]
				of[name.FindStringSubmatch(check.Expr)[1]] = true
			}
		}
	}
	for _, rule := range rules(t) {
		if rule.Alert != "" {
			require.True(t, fired[rule.Alert], "no test where %s fires", rule.Alert)
			require.True(t, silent[rule.Alert], "no test where %s is silent", rule.Alert)
		}
	}
}

func TestAlertsLinkToTheirSectionOfTheRunbook(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	for _, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		require.Contains(t, []string{"info", "warning", "critical"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		require.True(t, strings.HasSuffix(rule.Annotations["runbook_url"], "/runbook.md#"+strings.ToLower(rule.Alert)), rule.Alert)
		require.Contains(t, string(runbook), "\n## "+rule.Alert+"\n")
	}
}

func TestAlertsLinkToPagesOfTheConsole(t *testing.T) {
	t.Parallel()
	for _, rule := range rules(t) {
		page := rule.Annotations["page_url"]
		if page == "" {
			require.NotContains(t, rule.Annotations["description"], "$labels.topic", "%s: a topic has a page", rule.Alert)
			continue
		}
		path, ok := strings.CutPrefix(page, "{{ $externalLabels.dlq_console }}/")
		require.True(t, ok, rule.Alert)
		root := regexp.MustCompile(`^[a-z-]*`).FindString(path)
		require.Contains(t, append([]string{""}, console.Roots...), root, rule.Alert)
	}
}

// If the metric of a rule does not exist, the rule never fires.
func TestRulesUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	for _, rule := range rules(t) {
		for _, name := range regexp.MustCompile(`\bdlq_\w+`).FindAllString(rule.Expr, -1) {
			require.Contains(t, string(page), "| `"+strings.TrimSuffix(name, "_bucket")+"` |")
		}
	}
}
