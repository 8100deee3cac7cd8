package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/console"
)

// dashboard has the fields of Grafana's model that the dashboards use. All other fields are refused.
type dashboard struct {
	UID, Title, Description, Timezone, Refresh string
	Tags                                       []string
	SchemaVersion                              int
	Editable                                   bool
	Time                                       struct{ From, To string }
	Links                                      []struct {
		Type, Title, Icon, Tooltip, URL                string
		Tags                                           []string
		AsDropdown, IncludeVars, KeepTime, TargetBlank bool
	}
	Templating struct {
		List []struct {
			Name, Type, Label, AllValue string
			Query                       any
			Datasource                  *datasource
			Refresh, Sort, Hide         int
			IncludeAll, Multi           bool
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               *datasource
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct {
			Defaults struct {
				Unit, NoValue string
				Links         []struct {
					Title, URL  string
					TargetBlank bool
				}
				Min        *float64
				Thresholds *struct {
					Mode  string
					Steps []struct {
						Value *float64
						Color string
					}
				}
			}
			Overrides []any
		}
		Targets []struct {
			RefID, Expr, LegendFormat, Format string
			Datasource                        *datasource
			Instant                           bool
		}
	}
}

type datasource struct{ Type, UID string }

// dashboards are the dashboards in deploy/grafana, by the names of their files.
func dashboards(t *testing.T) map[string]*dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	require.NoError(t, err)
	all := map[string]*dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		all[file] = &dashboard{}
		require.NoError(t, decoder.Decode(all[file]), file)
	}
	require.Len(t, all, 5)
	return all
}

func TestDashboardsAreLaidOutAndExplained(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for file, d := range dashboards(t) {
		require.False(t, uids[d.UID], "%s: the uid is used twice", file)
		uids[d.UID] = true
		require.NotEmpty(t, d.Description, file)
		require.Equal(t, "datasource", d.Templating.List[0].Name, "%s: which Prometheus is a choice", file)
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			require.False(t, ids[p.ID], "%s: panel %q", file, p.Title)
			ids[p.ID] = true
			require.Equal(t, &datasource{"prometheus", "${datasource}"}, p.Datasource, "%s: panel %q", file, p.Title)
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s: panel %q", file, p.Title)
			require.NotEmpty(t, p.Targets, "%s: panel %q", file, p.Title)
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%s: panel %q", file, p.Title)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Empty(t, taken[[2]int{x, y}], "%s: panel %q", file, p.Title)
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

func TestDashboardsLinkToPagesOfTheConsole(t *testing.T) {
	t.Parallel()
	root := regexp.MustCompile(`^\$\{console:raw\}/([a-z]*)`)
	for file, d := range dashboards(t) {
		variable := d.Templating.List[len(d.Templating.List)-1]
		require.Equal(t, "console", variable.Name, file)
		require.Equal(t, map[string]any{"query": "label_values(dlq_console_info, url)", "refId": "console"}, variable.Query, file)
		require.Equal(t, "${console:raw}/", d.Links[len(d.Links)-1].URL, file)
		for _, p := range d.Panels {
			for _, link := range p.FieldConfig.Defaults.Links {
				page := root.FindStringSubmatch(link.URL)
				require.NotNil(t, page, "%s: panel %q", file, p.Title)
				require.Contains(t, console.Roots, page[1], "%s: panel %q", file, p.Title)
			}
		}
	}
}

func TestDashboardsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	metrics, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	recorded := map[string]bool{}
	for _, rule := range rules(t) {
		recorded[rule.Record] = true
	}
	name := regexp.MustCompile(`\bdlq[_:][a-z0-9_:]+`)
	var written []string
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, used := range name.FindAllString(target.Expr, -1) {
					known := recorded[used] || strings.Contains(string(metrics), "`"+strings.TrimSuffix(used, "_bucket")+"`")
					require.True(t, known, "%s: panel %q uses %s", file, p.Title, used)
				}
				expr := strings.NewReplacer("$topic", ".*", "$__rate_interval", "5m").Replace(target.Expr)
				require.NotContains(t, expr, "$", "%s: panel %q", file, p.Title)
				written = append(written, fmt.Sprintf("  - {record: panel_%d, expr: %q}\n", len(written), expr))
			}
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	require.NoError(t, os.WriteFile(file, []byte("groups:\n- name: panels\n  rules:\n"+strings.Join(written, "")), 0o600))
	promtool(t, "check", "rules", file)
}
