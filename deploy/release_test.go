//go:build release

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clone makes a copy of the repository, and adds a section to its changelog.
func clone(t *testing.T, section string) string {
	t.Helper()
	if _, err := os.Stat("../.git"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED: these sources are not a git repository")
	}
	dir := filepath.Join(t.TempDir(), "clone")
	git := func(args ...string) {
		output, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	git("clone", "--quiet", "--depth=1", "file://"+absolute(t, ".."), dir)
	changelog := filepath.Join(dir, "CHANGELOG.md")
	text := strings.Replace(read(t, changelog), "## Unreleased\n", section, 1)
	require.NoError(t, os.WriteFile(changelog, []byte(text), 0o600))
	git("-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty", "-am", "release")
	return dir
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

const (
	releaseVersion = "v9.9.9-rc.1"
	releaseProject = "https://git.example.com/owner/dlq-manager"
	// Each of these platforms has another form of archive.
	dlqctlPlatforms = "linux/amd64 darwin/arm64 windows/amd64"
)

// release builds a release with the programs for these platforms.
func release(t *testing.T, dir, version, platforms string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "dev/release.sh", version, platforms, dlqctlPlatforms, releaseProject,
		chartTool(t, ".build/bin", "helm", "HELM_VERSION"), chartTool(t, ".build/bin", "cyclonedx-gomod", "CYCLONEDX_GOMOD_VERSION"),
		chartTool(t, ".build/bin", "nfpm", "NFPM_VERSION"))
	command.Dir = dir
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestARelease(t *testing.T) {
	t.Parallel()
	dir := clone(t, "## Unreleased\n\n## 9.9.9-rc.1 – 2026-01-31\n\n- What is new.\n\n## 9.9.8\n")
	output, err := release(t, dir, releaseVersion, "linux/amd64")
	require.NoError(t, err, output)
	dist := filepath.Join(dir, "dist")
	for name, test := range map[string]func(*testing.T, string){
		"has programs, chart, notes and checksums":            testProgramsChartNotesAndChecksums,
		"has archives of dlqctl alone":                        testArchivesOfDlqctl,
		"has the same archives and packages when built again": testArchivesAreReproducible,
		"has a formula for its archives":                      testFormula,
		"has a Debian package that leaves nothing":            testDebianPackage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dist)
		})
	}
}

func testProgramsChartNotesAndChecksums(t *testing.T, dist string) {
	t.Helper()
	require.Equal(t, "## 9.9.9-rc.1 – 2026-01-31\n\n- What is new.\n", read(t, filepath.Join(dist, "notes.md")))

	script := `sha256sum --quiet -c SHA256SUMS && tar -C "$OUT" -xzf dlq-manager-v9.9.9-rc.1-linux-amd64.tar.gz &&
		for program in api worker; do echo "$program $("$OUT"/dlq-manager-v9.9.9-rc.1-linux-amd64/dlq-$program version)"; done &&
		"$OUT"/dlq-manager-v9.9.9-rc.1-linux-amd64/dlqctl --version &&
		tar -xzOf dlq-manager-9.9.9-rc.1.tgz dlq-manager/Chart.yaml | grep ersion: && cut -c 67- SHA256SUMS &&
		grep -hE '"name": "(std|github.com/jackc/pgx/v5|github.com/twmb/franz-go/pkg/kfake)"' dlq-api.cdx.json`
	command := exec.CommandContext(t.Context(), "bash", "-euc", script)
	command.Dir, command.Env = dist, append(os.Environ(), "OUT="+t.TempDir())
	said, err := command.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Equal(t, strings.TrimLeft(`
api v9.9.9-rc.1
worker v9.9.9-rc.1
dlqctl v9.9.9-rc.1
apiVersion: v2
appVersion: 9.9.9-rc.1
kubeVersion: '>=1.25.0-0'
version: 9.9.9-rc.1
dlq-api.cdx.json
dlq-manager-9.9.9-rc.1.tgz
dlq-manager-v9.9.9-rc.1-linux-amd64.tar.gz
dlq-worker.cdx.json
dlqctl-v9.9.9-rc.1-darwin-arm64.tar.gz
dlqctl-v9.9.9-rc.1-linux-amd64.deb
dlqctl-v9.9.9-rc.1-linux-amd64.tar.gz
dlqctl-v9.9.9-rc.1-windows-amd64.zip
dlqctl.cdx.json
dlqctl.rb
notes.md
      "name": "github.com/jackc/pgx/v5",
      "name": "std",
`, "\n"), string(said))
}

func TestAReleaseIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	dir := clone(t, "## Unreleased\n")
	for version, reason := range map[string]string{
		"0.1.0":  "VERSION must be like v0.1.0, not '0.1.0'",
		"v9.9.9": "CHANGELOG.md has no section '## 9.9.9'",
	} {
		output, err := release(t, dir, version, "linux/amd64")
		require.Error(t, err)
		require.Contains(t, output, reason)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left"), nil, 0o600))
	output, err := release(t, dir, "v9.9.9", "linux/amd64")
	require.Error(t, err)
	require.Contains(t, output, "commit or remove what git status shows")
}
