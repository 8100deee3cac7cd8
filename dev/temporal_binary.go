package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// temporalModule is the version that `go install` can build: later ones carry
// replace directives, which it refuses.
const temporalModule = "github.com/temporalio/cli/cmd/temporal@v1.5.1"

// temporalBinary finds the Temporal CLI: the given one, the one on PATH, the one
// in binDir, in this order. When there is none it is built into binDir.
func temporalBinary(ctx context.Context, given, binDir string, out io.Writer) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("the Temporal CLI %q: %w", given, err)
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		return filepath.Abs(path)
	}
	return onceBuilt{
		target: filepath.Join(binDir, "temporal"), announce: "building the Temporal CLI, once, about 3 minutes…",
		out: out, ticks: time.Tick(progressInterval),
		build: func(ctx context.Context, dir string, output io.Writer) error {
			return goInstall(ctx, dir, temporalModule, output)
		},
	}.ensure(ctx)
}

// onceBuilt is a program that is built when it is not there. Of several processes
// that ask at once one builds and the others wait. The program appears whole or
// not at all.
type onceBuilt struct {
	target string
	// announce is written before the build begins.
	announce string
	// out may be nil.
	out io.Writer
	// ticks are when to show that the build, or the wait for it, goes on.
	ticks <-chan time.Time
	// build makes the program, under its own name in the folder given. It writes
	// what the go command writes.
	build func(ctx context.Context, dir string, output io.Writer) error
}

// ensure returns the target once it is there.
func (b onceBuilt) ensure(ctx context.Context) (string, error) {
	if b.out == nil {
		b.out = io.Discard
	}
	if isExecutable(b.target) {
		return b.target, nil
	}
	lock, err := b.waitTurn(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", b.target, err)
	}
	defer lock.release()
	if isExecutable(b.target) { // the one we waited for built it
		return b.target, nil
	}

	fmt.Fprintln(b.out, b.announce)
	start := time.Now()
	// Beside the target, so that the rename stays within one file system.
	dir, err := os.MkdirTemp(filepath.Dir(b.target), ".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	output := &goOutput{}
	stop := showProgress(b.out, start, b.ticks, output.progress)
	err = b.build(ctx, dir, output)
	stop()
	if err != nil {
		if messages := strings.TrimSpace(output.messages()); messages != "" {
			err = fmt.Errorf("%w\n%s", err, messages)
		}
		return "", err
	}
	if err := os.Rename(filepath.Join(dir, filepath.Base(b.target)), b.target); err != nil {
		return "", err
	}
	fmt.Fprintf(b.out, "built %s in %s (%s)\n", b.target, time.Since(start).Round(time.Second), output.progress())
	return b.target, nil
}

// waitTurn takes the lock of the target, and says so when it has to wait for it.
func (b onceBuilt) waitTurn(ctx context.Context) (*fileLock, error) {
	path, stop := b.target+".lock", func() {}
	defer func() { stop() }()
	return waitLock(ctx, path, func() {
		who := "another process"
		if pid := lockHolder(path); pid != "" {
			who = "process " + pid
		}
		fmt.Fprintf(b.out, "waiting for %s, which builds %s…\n", who, b.target)
		stop = showProgress(b.out, time.Now(), b.ticks, func() string { return "still waiting" })
	})
}

// goInstall builds the program of a module into dir, whatever the settings of
// the module that we were started in.
func goInstall(ctx context.Context, dir, module string, output io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "install", "-v", module)
	cmd.Dir = dir
	cmd.Env = append(buildEnvironment(os.Environ()), "GOBIN="+dir, "PWD="+dir)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 5 * time.Second // for compilers that hold the output open
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("build %s: the go command is not on PATH; install the program yourself and put it there", module)
	}
	if err != nil {
		return fmt.Errorf("go install %s: %w", module, errors.Join(err, ctx.Err()))
	}
	return nil
}

// buildEnvironment drops what would build for another system or apply our own
// module's flags, and does without a C compiler.
func buildEnvironment(environment []string) []string {
	own := []string{"GOOS", "GOARCH", "GOFLAGS", "GOWORK", "GO111MODULE", "GOBIN", "CGO_ENABLED", "PWD"}
	kept := slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(own, name)
	})
	return append(kept, "GOWORK=off", "CGO_ENABLED=0")
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
