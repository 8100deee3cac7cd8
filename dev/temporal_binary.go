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

// temporalModule is a version that `go install` can build. Later versions have replace
// directives, which `go install` refuses.
const temporalModule = "github.com/temporalio/cli/cmd/temporal@v1.5.1"

// temporalBinary returns the Temporal CLI: the given program, else the program on PATH,
// else the program in binDir, where it is built if it is missing.
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
	return buildOnce{
		target: filepath.Join(binDir, "temporal"), announce: "building the Temporal CLI, once, about 3 minutes…",
		out: out, ticks: time.Tick(progressInterval),
		build: func(ctx context.Context, dir string, output io.Writer) error {
			return goInstall(ctx, dir, temporalModule, output)
		},
	}.ensure(ctx)
}

// buildOnce builds a program if it is missing. If several processes need the program, one
// process builds it and the other processes wait. The program appears atomically.
type buildOnce struct {
	target string
	// announce is written before the build begins.
	announce string
	// out may be nil.
	out io.Writer
	// ticks trigger the progress of the build, or of the wait for it.
	ticks <-chan time.Time
	// build creates the program under its own name in the given folder. It writes the
	// output of the go command.
	build func(ctx context.Context, dir string, output io.Writer) error
}

// ensure returns the target, and builds it first if it is missing.
func (b buildOnce) ensure(ctx context.Context) (string, error) {
	if b.out == nil {
		b.out = io.Discard
	}
	if isExecutable(b.target) {
		return b.target, nil
	}
	lock, err := b.lock(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", b.target, err)
	}
	defer lock.release()
	if isExecutable(b.target) { // the previous holder of the lock has built it
		return b.target, nil
	}

	fmt.Fprintln(b.out, b.announce)
	start := time.Now()
	// In the target's folder, so that the rename stays within one file system.
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

// lock takes the lock of the target, and prints a message if it has to wait.
func (b buildOnce) lock(ctx context.Context) (*fileLock, error) {
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

// goInstall builds the program of a module into dir, independent of the settings of our
// own module.
func goInstall(ctx context.Context, dir, module string, output io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "install", "-v", module)
	cmd.Dir = dir
	cmd.Env = append(buildEnvironment(os.Environ()), "GOBIN="+dir, "PWD="+dir)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 5 * time.Second // compilers may keep the output open
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("build %s: the go command is not on PATH; install the program yourself and put it there", module)
	}
	if err != nil {
		return fmt.Errorf("go install %s: %w", module, errors.Join(err, ctx.Err()))
	}
	return nil
}

// buildEnvironment removes variables that would build for another system or apply our
// own module's flags, and disables cgo.
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
