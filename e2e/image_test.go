//go:build linux && image

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// imageEnv is the environment variable with the folder of the programs that `make build` built.
const imageEnv = "DLQ_TEST_IMAGE"

// imageUser is the user of the Dockerfile.
const imageUser = 65532

// TestTheImageNeedsNoPrivilegesAndNoWritableFiles runs the programs with the files of the image
// and with /proc, which the Temporal SDK reads. A container would also add /dev and /etc/hosts.
func TestTheImageNeedsNoPrivilegesAndNoWritableFiles(t *testing.T) {
	t.Parallel()
	built := os.Getenv(imageEnv)
	require.NotEmpty(t, built, "make image-check sets %s", imageEnv)
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	root := mountImage(t, built)
	s.image = func(name string, args ...string) *exec.Cmd {
		command := exec.Command("/dlq-"+name, args...)
		command.Dir = "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return command
	}
	worker, api := s.startWorker(), s.startAPI()
	for _, p := range []*program{worker, api} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		require.NoError(t, err)
		require.Contains(t, string(status), "Uid:\t65532\t65532\t65532\t65532")
		require.Contains(t, string(status), "CapEff:\t0000000000000000")
	}

	s.produceDeadLetters(cluster, 1)
	s.eventually("it is stored", func() bool { return s.pending() == 1 })
	status, answer := s.call(http.MethodPost, "/api/v1/dlq/messages/"+s.ids()[0]+"/retry")
	require.Equal(t, http.StatusOK, status, answer)
	for name, p := range map[string]*program{"api": api, "worker": worker} {
		s.env = p.Env // with the port of the program
		s.run(name, "healthcheck")
	}
	require.NoError(t, api.end())
	require.NoError(t, worker.end())
}

// copyImage copies the files of the Dockerfile's last stages.
func copyImage(t *testing.T, built, root string) {
	t.Helper()
	dockerfile, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	_, image, found := strings.Cut(string(dockerfile), "\nFROM scratch AS base\n")
	require.True(t, found)
	require.Contains(t, image, fmt.Sprintf("\nUSER %[1]d:%[1]d\n", imageUser))
	for line := range strings.Lines(image) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "COPY" {
			continue
		}
		folder := filepath.Join(root, words[len(words)-1])
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for _, path := range words[2 : len(words)-1] { // after COPY --from=build
			if name, isProgram := strings.CutPrefix(path, "/src/.build/bin/"); isProgram {
				path = filepath.Join(built, name)
			}
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(path)), content, 0o755))
		}
	}
}

// mountImage returns a read-only folder with the files of the image.
func mountImage(t *testing.T, built string) string {
	t.Helper()
	root := t.TempDir()
	copyImage(t, built, root)
	proc := filepath.Join(root, "proc")
	require.NoError(t, os.Mkdir(proc, 0o755))
	require.NoError(t, syscall.Mount(root, root, "", syscall.MS_BIND, ""), "only root may mount")
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	require.NoError(t, syscall.Mount("proc", proc, "proc", syscall.MS_RDONLY, ""))
	t.Cleanup(func() { _ = syscall.Unmount(proc, syscall.MNT_DETACH) })
	require.NoError(t, syscall.Mount("", root, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.ErrorIs(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600), syscall.EROFS)
	return root
}
