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
	return ensureBuilt(ctx, filepath.Join(binDir, "temporal"), "building the Temporal CLI, once, about 3 minutes…", out,
		func(ctx context.Context, dir string) error { return goInstall(ctx, dir, temporalModule) })
}

// ensureBuilt returns target and calls build to make it, under its own name in
// the folder given, when it is not there. Of several processes that ask at once
// one builds and the others wait. target appears whole or not at all.
func ensureBuilt(ctx context.Context, target, progress string, out io.Writer,
	build func(ctx context.Context, dir string) error,
) (string, error) {
	if out == nil {
		out = io.Discard
	}
	if isExecutable(target) {
		return target, nil
	}
	lock, err := waitLock(ctx, target+".lock", func() {
		fmt.Fprintf(out, "waiting for another process that builds %s…\n", target)
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", target, err)
	}
	defer lock.release()
	if isExecutable(target) { // the one we waited for built it
		return target, nil
	}

	fmt.Fprintln(out, progress)
	start := time.Now()
	// Beside the target, so that the rename stays within one file system.
	dir, err := os.MkdirTemp(filepath.Dir(target), ".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, dir); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(dir, filepath.Base(target)), target); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "built %s in %s\n", target, time.Since(start).Round(time.Second))
	return target, nil
}

// goInstall builds the program of a module into dir, whatever the settings of
// the module that we were started in.
func goInstall(ctx context.Context, dir, module string) error {
	cmd := exec.CommandContext(ctx, "go", "install", module)
	cmd.Dir = dir
	cmd.Env = append(buildEnvironment(os.Environ()), "GOBIN="+dir, "PWD="+dir)
	cmd.WaitDelay = 5 * time.Second // for compilers that hold the output open
	output, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("build %s: the go command is not on PATH; install the program yourself and put it there", module)
	}
	if err != nil {
		return fmt.Errorf("go install %s: %w\n%s", module, errors.Join(err, ctx.Err()), output)
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
