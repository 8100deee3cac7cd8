//go:build frameworks

package frameworks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is a consumer that uses a framework. Both commands run in its folder.
type program struct {
	folder  string
	version string   // of the framework
	tools   []string // that must be in PATH, beside those of the commands
	build   []string
	run     []string
}

// maven returns a program in Java. Its pom.xml takes the framework in framework.version.
func maven(folder, version, class string) program {
	target := filepath.Join("target", version)
	return program{
		folder: folder, version: version, tools: []string{"javac"},
		build: []string{"mvn", "-q", "-B", "-Dframework.version=" + version, "compile",
			"dependency:copy-dependencies", "-DincludeScope=runtime"},
		run: []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", filepath.Join(target, "classes") + ":" + filepath.Join(target, "dependency", "*"), class},
	}
}

var built sync.Map // folder and version

// make builds the program, once in a run of the tests.
func (p program) make(t *testing.T) {
	t.Helper()
	for _, tool := range p.tools {
		needs(t, tool)
	}
	if _, done := built.LoadOrStore(p.folder+p.version, true); done || len(p.build) == 0 {
		return
	}
	needs(t, p.build[0])
	command := exec.Command(p.build[0], p.build[1:]...)
	command.Dir = p.folder
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// needs skips the test where a tool is missing. With CI=true it fails.
func needs(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not in PATH", tool)
	}
	t.Skipf("SKIPPED: %s is not in PATH", tool)
}

// process is one run of a program.
type process struct {
	command *exec.Cmd
	done    chan struct{}
}

// start runs the program with additional environment variables. It ends with the test at
// the latest. Its log is shown if the test fails.
func (p program) start(t *testing.T, environment []string) *process {
	t.Helper()
	p.make(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	command := exec.Command(p.run[0], p.run[1:]...)
	command.Dir = p.folder
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children end with it
	require.NoError(t, command.Start())
	run := &process{command: command, done: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(run.done)
	}()
	t.Cleanup(func() {
		run.stop()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s wrote:\n%s", p.folder, text[max(0, len(text)-8000):])
		}
	})
	return run
}

func (r *process) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stop ends the program, after five seconds by force.
func (r *process) stop() {
	group := -r.command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-r.done:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-r.done
}
