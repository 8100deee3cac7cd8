//go:build console && lighthouse

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leastFigure is the budget of each figure of Lighthouse for each page.
const leastFigure = 95

// figures has the score that Lighthouse gives to each category, from 0 to 100.
type figures map[string]float64

var categories = []string{"accessibility", "best-practices", "performance"}

// TestTheConsoleInLighthouse measures every page, as a phone and as a desk see it. It has a build tag of its own, since it
// needs Node, and a quiet machine for the times of pages.
func TestTheConsoleInLighthouse(t *testing.T) { //nolint:paralleltest // another test would take its time
	s := openShop(t)
	pages := s.pages(s.fails("orders", 40), s.fails("stock", 12), s.fails("people", 3))
	delete(pages, "unknown") // Lighthouse measures no errors
	delete(pages, "sent")    // the page looks like the page "message"
	delete(pages, "plan-dead")
	for _, name := range slices.Sorted(maps.Keys(pages)) { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{"mobile", "desktop"} {
				got := measured(t, s.base+pages[name], name, form, 1)
				if got.below() != nil { // a single run may be slow by chance, the median of three runs is reliable
					got = median(got, measured(t, s.base+pages[name], name, form, 2), measured(t, s.base+pages[name], name, form, 3))
				}
				t.Logf("%-8s %v", form, got)
				for _, category := range got.below() {
					t.Errorf("%s: %s is %.0f, below %d; the reports are in .build/lighthouse/reports", form, category, got[category], leastFigure)
				}
			}
		})
	}
}

// below returns the categories with a score below the budget.
func (f figures) below() []string {
	return slices.DeleteFunc(slices.Clone(categories), func(category string) bool { return f[category] >= leastFigure })
}

// median is the middle of three runs for each category.
func median(runs ...figures) figures {
	middle := figures{}
	for _, category := range categories {
		var all []float64
		for _, run := range runs {
			all = append(all, run[category])
		}
		slices.Sort(all)
		middle[category] = all[len(all)/2]
	}
	return middle
}

// measured runs Lighthouse with a browser of its own. `make lighthouse` installs Lighthouse from npm. Lighthouse itself fails
// now and then, and asks to be run again.
func measured(t *testing.T, address, page, form string, run int) figures {
	t.Helper()
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err)
	home := filepath.Join("..", ".build", "lighthouse")
	program := filepath.Join(home, "node_modules", "lighthouse", "cli", "index.js")
	require.FileExists(t, program, "run `make lighthouse`, which brings it")
	reports := filepath.Join(home, "reports")
	require.NoError(t, os.MkdirAll(reports, 0o755))
	report := filepath.Join(reports, fmt.Sprintf("%s-%s-%d", page, form, run))
	arguments := []string{
		program, address, "--quiet", "--no-enable-error-reporting", "--disable-full-page-screenshot", "--only-categories=" + strings.Join(categories, ","),
		"--output=json", "--output=html", "--output-path=" + report, "--chrome-flags=--headless=new --no-sandbox --disable-gpu",
	}
	if form == "desktop" { // by default Lighthouse measures a phone
		arguments = append(arguments, "--preset=desktop")
	}
	for attempt := 1; ; attempt++ {
		command := exec.CommandContext(t.Context(), node, arguments...)
		command.Env = append(os.Environ(), "CHROME_PATH="+chromium)
		command.WaitDelay = 10 * time.Second // the browser may keep the pipes open
		output, err := command.CombinedOutput()
		if err == nil {
			return readFigures(t, report+".report.json")
		}
		require.Less(t, attempt, 3, "%s (%s): %s: %s", page, form, err, output)
	}
}

func readFigures(t *testing.T, path string) figures {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var report struct {
		Categories map[string]struct {
			Score *float64 `json:"score"`
		} `json:"categories"`
		Error *struct {
			Message string `json:"message"`
		} `json:"runtimeError"` //nolint:tagliatelle // Lighthouse names it
	}
	require.NoError(t, json.Unmarshal(content, &report))
	require.Nil(t, report.Error, path)
	got := figures{}
	for _, category := range categories {
		require.NotNil(t, report.Categories[category].Score, "%s in %s", category, path)
		got[category] = *report.Categories[category].Score * 100
	}
	return got
}
