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

// TestTheStagesOfTheDockerfileMakeTheImages runs the instructions of the Dockerfile without a container: each COPY from the
// build context, each RUN in /src, and each COPY into an image. It uses Go's caches on this machine.
func TestTheStagesOfTheDockerfileMakeTheImages(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
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
	imageHas(t, named(t, stages, "base"), source, "/dlq-api", "/dlq-worker")
	image := imageHas(t, named(t, stages, "dlqctl"), source, "/dlqctl")
	dlqctl := exec.Command(filepath.Join(image, "dlqctl"), "--version")
	dlqctl.Env = []string{} // an image sets no HOME and has no configuration folder
	said, err := dlqctl.Output()
	require.NoError(t, err)
	require.Equal(t, "dlqctl 7.7.7\n", string(said))
}

// imageHas copies the files of a stage into a folder. It requires that the folder has the certificates, these programs, and
// nothing else. The programs must be static and know their version.
func imageHas(t *testing.T, from stage, source string, programs ...string) string {
	t.Helper()
	image := t.TempDir()
	for _, line := range from.lines {
		fields := strings.Fields(line)
		if fields[0] != "COPY" {
			continue
		}
		require.Equal(t, "--from=build", fields[1])
		for _, file := range fields[2 : len(fields)-1] {
			if inSource, found := strings.CutPrefix(file, "/src/"); found {
				file = filepath.Join(source, inSource)
			}
			copyFile(t, file, filepath.Join(image, fields[len(fields)-1], filepath.Base(file)))
		}
	}

	require.ElementsMatch(t, append(programs, "/etc/ssl/certs/ca-certificates.crt"), filesIn(t, image), "nothing else")
	for _, program := range programs {
		binary, err := elf.Open(filepath.Join(image, program))
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), "%s is static", program)
		require.NoError(t, binary.Close())
		contents, err := os.ReadFile(filepath.Join(image, program))
		require.NoError(t, err)
		require.True(t, bytes.Contains(contents, []byte("7.7.7")), "%s has its version", program)
	}
	return image
}

// copyContext copies files of the repository, except for the files that .dockerignore lists.
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
