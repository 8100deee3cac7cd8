//go:build release

package deploy_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// packed is a file of an archive.
type packed struct {
	name    string
	mode    os.FileMode
	changed time.Time
}

func untar(t *testing.T, path string) []packed {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	var files []packed
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid+header.Gid)
		require.Empty(t, header.Uname+header.Gname)
		if header.Typeflag == tar.TypeReg {
			files = append(files, packed{header.Name, header.FileInfo().Mode(), header.ModTime})
		}
	}
}

func unzip(t *testing.T, path string) []packed {
	t.Helper()
	reader, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer reader.Close()
	var files []packed
	for _, file := range reader.File {
		files = append(files, packed{file.Name, file.Mode(), file.Modified})
	}
	return files
}

func testArchivesOfDlqctl(t *testing.T, dist string) {
	t.Helper()
	output, err := exec.Command("git", "-C", dist, "log", "-1", "--format=%cI").Output()
	require.NoError(t, err)
	committed, err := time.Parse(time.RFC3339, strings.TrimSpace(string(output)))
	require.NoError(t, err)
	for platform, files := range map[string][]packed{
		"linux-amd64":   untar(t, filepath.Join(dist, "dlqctl-v9.9.9-rc.1-linux-amd64.tar.gz")),
		"darwin-arm64":  untar(t, filepath.Join(dist, "dlqctl-v9.9.9-rc.1-darwin-arm64.tar.gz")),
		"windows-amd64": unzip(t, filepath.Join(dist, "dlqctl-v9.9.9-rc.1-windows-amd64.zip")),
	} {
		program := "dlqctl"
		if platform == "windows-amd64" {
			program = "dlqctl.exe"
		}
		var names []string
		pages := 0
		for _, file := range files {
			name := strings.TrimPrefix(file.name, "dlqctl-v9.9.9-rc.1-"+platform+"/")
			mode := os.FileMode(0o644)
			if name == program {
				mode = 0o755
			}
			require.Equal(t, mode, file.mode, file.name)
			require.WithinDuration(t, committed, file.changed, 2*time.Second, file.name) // times in a ZIP file have steps of two seconds
			if strings.HasPrefix(name, "man/man1/dlqctl") {
				pages++
				continue
			}
			names = append(names, name)
		}
		require.Equal(t, []string{
			"LICENSE", "NOTICE", "completions/_dlqctl", "completions/dlqctl.bash", "completions/dlqctl.fish", "completions/dlqctl.ps1",
			program, "licences.csv",
		}, names, platform)
		require.Greater(t, pages, 40, platform)
		require.True(t, slices.IsSortedFunc(files, func(a, b packed) int { return strings.Compare(a.name, b.name) }), platform)
	}
}

func testArchivesAreReproducible(t *testing.T, dist string) {
	t.Helper()
	again := filepath.Join(t.TempDir(), "again")
	output, err := exec.Command("git", "clone", "--quiet", filepath.Dir(dist), again).CombinedOutput()
	require.NoError(t, err, string(output))
	said, err := release(t, again, releaseVersion, "")
	require.NoError(t, err, said)
	// Only the archives of dlqctl are reproducible, since the chart has the time of its build.
	ofDlqctl := regexp.MustCompile(`(?m)^.*  dlqctl[-.].*(gz|zip|deb|rb)$`)
	sums := ofDlqctl.FindAllString(read(t, filepath.Join(dist, "SHA256SUMS")), -1)
	require.Len(t, sums, 5)
	require.Equal(t, sums, ofDlqctl.FindAllString(read(t, filepath.Join(again, "dist/SHA256SUMS")), -1))
}

// tool finds a program. Without the program the test is skipped, but in CI it fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED: %s is not in PATH", name)
	}
	require.NoError(t, err)
	return path
}

func testFormula(t *testing.T, dist string) {
	t.Helper()
	formula := filepath.Join(dist, "dlqctl.rb")
	text := read(t, formula)
	var found []string
	for _, match := range regexp.MustCompile(`url "(.*)/(.*)"\n +sha256 "(.*)"`).FindAllStringSubmatch(text, -1) {
		require.Equal(t, releaseProject+"/releases/download/v9.9.9-rc.1", match[1])
		sum := sha256.Sum256([]byte(read(t, filepath.Join(dist, match[2]))))
		require.Equal(t, hex.EncodeToString(sum[:]), match[3], match[2])
		found = append(found, match[2])
	}
	require.Equal(t, []string{"dlqctl-v9.9.9-rc.1-darwin-arm64.tar.gz", "dlqctl-v9.9.9-rc.1-linux-amd64.tar.gz"}, found)
	require.Regexp(t, `(?s)on_macos do\n    on_arm do\n.*on_linux do\n    on_intel do\n`, text)
	for _, match := range regexp.MustCompile(`completions/[\w.]+`).FindAllString(text, -1) {
		require.True(t, slices.ContainsFunc(untar(t, filepath.Join(dist, found[0])), func(file packed) bool { return strings.HasSuffix(file.name, match) }), match)
	}
	ruby := tool(t, "ruby")
	output, err := exec.Command(ruby, "-c", formula).CombinedOutput()
	require.NoError(t, err, string(output))
}

func testDebianPackage(t *testing.T, dist string) {
	t.Helper()
	tool(t, "dpkg")
	root := t.TempDir()
	state := filepath.Join(root, "var/lib/dpkg")
	for _, folder := range []string{"info", "updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(state, folder), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(state, "status"), nil, 0o600))
	dpkg := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "dpkg", append([]string{
			"--root=" + root, "--force-not-root", "--log=" + filepath.Join(state, "log"),
			"--path-include=/usr/share/*", // container images leave out these files
		}, args...)...)
		command.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C") // dpkg looks for ldconfig
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
		return string(output)
	}
	installed := func() []string {
		return slices.DeleteFunc(filesIn(t, root), func(file string) bool { return strings.HasPrefix(file, "/var/lib/dpkg/") })
	}

	dpkg("--install", filepath.Join(dist, "dlqctl-v9.9.9-rc.1-linux-amd64.deb"))
	said, err := exec.Command(filepath.Join(root, "usr/bin/dlqctl"), "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "dlqctl v9.9.9-rc.1\n", string(said))
	require.Subset(t, installed(), []string{
		"/usr/bin/dlqctl", "/usr/share/man/man1/dlqctl.1.gz", "/usr/share/man/man1/dlqctl-messages-list.1.gz",
		"/usr/share/bash-completion/completions/dlqctl", "/usr/share/zsh/vendor-completions/_dlqctl", "/usr/share/fish/vendor_completions.d/dlqctl.fish",
		"/usr/share/doc/dlqctl/copyright", "/usr/share/doc/dlqctl/NOTICE", "/usr/share/doc/dlqctl/licences.csv",
	})
	require.Contains(t, dpkg("--status", "dlqctl"), "\nVersion: 9.9.9~rc.1\n")
	for _, older := range []string{"9.9.9~rc.1 lt 9.9.9", "9.9.9~rc.2 lt 9.9.9~rc.10", "9.9.8 lt 9.9.9~rc.1"} {
		dpkg(append([]string{"--compare-versions"}, strings.Fields(older)...)...)
	}

	dpkg("--purge", "dlqctl")
	require.Empty(t, installed())
	_, err = os.Stat(filepath.Join(root, "usr"))
	require.ErrorIs(t, err, os.ErrNotExist, "folders are removed too")
}
