//go:build image

package deploy_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheStagesOfTheDockerfileMakeTheImage runs what the Dockerfile says, without a container: each COPY from the build
// context, each RUN in /src, and each COPY into the image. Only the place of Go's caches is that of this machine.
func TestTheStagesOfTheDockerfileMakeTheImage(t *testing.T) {
	t.Parallel()
	source, image := t.TempDir(), t.TempDir()
	ignored := strings.Fields(read(t, "../.dockerignore"))
	env := append(os.Environ(), "VERSION=7.7.7")
	mount := regexp.MustCompile(`--mount=\S+ `)
	stages := dockerfile(t)
	for _, line := range named(t, stages, "build").lines {
		instruction, rest, _ := strings.Cut(line, " ")
		switch instruction {
		case "COPY":
			files := strings.Fields(rest)
			copyContext(t, files[:len(files)-1], ignored, source)
		case "RUN":
			run := exec.Command("sh", "-c", mount.ReplaceAllString(rest, ""))
			run.Dir, run.Env = source, env
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s: %s", line, out)
		}
	}
	for _, line := range named(t, stages, "base").lines {
		fields := strings.Fields(line)
		if fields[0] != "COPY" {
			continue
		}
		require.Equal(t, "--from=build", fields[1])
		for _, from := range fields[2 : len(fields)-1] {
			if inSource, found := strings.CutPrefix(from, "/src/"); found {
				from = filepath.Join(source, inSource)
			}
			copyFile(t, from, filepath.Join(image, fields[len(fields)-1], filepath.Base(from)))
		}
	}

	var files []string
	require.NoError(t, filepath.WalkDir(image, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, image))
		}
		return err
	}))
	slices.Sort(files)
	require.Equal(t, []string{"/dlq-api", "/dlq-worker", "/etc/ssl/certs/ca-certificates.crt"}, files, "nothing else")
	for _, program := range files[:2] {
		binary, err := elf.Open(filepath.Join(image, program))
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), "%s is static", program)
		require.NoError(t, binary.Close())
		contents, err := os.ReadFile(filepath.Join(image, program))
		require.NoError(t, err)
		require.True(t, bytes.Contains(contents, []byte("7.7.7")), "%s has its version", program)
	}
}

// copyContext copies files of the repository that .dockerignore does not leave out.
func copyContext(t *testing.T, names, ignored []string, target string) {
	t.Helper()
	listed, err := exec.Command("git", append([]string{"-C", "..", "ls-files", "--"}, names...)...).Output()
	require.NoError(t, err)
	for file := range strings.FieldsSeq(string(listed)) {
		top, _, _ := strings.Cut(file, "/")
		if !slices.Contains(ignored, top) {
			copyFile(t, filepath.Join("..", file), filepath.Join(target, file))
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.NoError(t, err)
	contents, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, contents, info.Mode().Perm()))
}
