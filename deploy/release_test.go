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

// clone is a copy of the repository with a change to its changelog.
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

func release(t *testing.T, dir, version string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "dev/release.sh", version, "linux/amd64",
		absolute(t, chartTool(t, ".build/bin", "helm", "HELM_VERSION")), absolute(t, chartTool(t, ".build/bin", "cyclonedx-gomod", "CYCLONEDX_GOMOD_VERSION")))
	command.Dir = dir
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestAReleaseHasProgramsChartNotesAndChecksums(t *testing.T) {
	t.Parallel()
	dir := clone(t, "## Unreleased\n\n## 9.9.9 – 2026-01-31\n\n- What is new.\n\n## 9.9.8\n")
	output, err := release(t, dir, "v9.9.9")
	require.NoError(t, err, output)
	require.Equal(t, "## 9.9.9 – 2026-01-31\n\n- What is new.\n", read(t, filepath.Join(dir, "dist/notes.md")))

	script := `cd dist && sha256sum --quiet -c SHA256SUMS && tar -xzf dlq-manager-v9.9.9-linux-amd64.tar.gz &&
		for program in api worker; do echo "$program $(./dlq-manager-v9.9.9-linux-amd64/dlq-$program version)"; done &&
		./dlq-manager-v9.9.9-linux-amd64/dlqctl --version &&
		tar -xzOf dlq-manager-9.9.9.tgz dlq-manager/Chart.yaml | grep ersion: && cut -c 67- SHA256SUMS &&
		grep -hE '"name": "(std|github.com/jackc/pgx/v5|github.com/twmb/franz-go/pkg/kfake)"' dlq-api.cdx.json`
	command := exec.CommandContext(t.Context(), "bash", "-euc", script)
	command.Dir = dir
	said, err := command.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Equal(t, strings.TrimLeft(`
api v9.9.9
worker v9.9.9
dlqctl v9.9.9
apiVersion: v2
appVersion: 9.9.9
kubeVersion: '>=1.25.0-0'
version: 9.9.9
dlq-api.cdx.json
dlq-manager-9.9.9.tgz
dlq-manager-v9.9.9-linux-amd64.tar.gz
dlq-worker.cdx.json
dlqctl.cdx.json
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
		output, err := release(t, dir, version)
		require.Error(t, err)
		require.Contains(t, output, reason)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left"), nil, 0o600))
	output, err := release(t, dir, "v9.9.9")
	require.Error(t, err)
	require.Contains(t, output, "commit or remove what git status shows")
}
