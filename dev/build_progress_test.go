package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABuildCountsPackagesAndModulesAndKeepsTheErrors(t *testing.T) {
	t.Parallel()
	const written = "go: downloading go.temporal.io/api v1.2.3\n" +
		"go: downloading github.com/x/y v0.1.0\n" +
		"internal/goarch\nruntime\ngithub.com/x/y/internal/z\n" +
		"# github.com/x/y\n" +
		"../y/y.go:3:4: undefined: Z\n" +
		"\tindented\n\n" +
		"no space left on device"
	for _, size := range []int{1, 7, 100, len(written)} {
		var output goOutput
		for chunk := []byte(written); len(chunk) > 0; {
			n, err := output.Write(chunk[:min(size, len(chunk))])
			require.NoError(t, err)
			chunk = chunk[n:]
		}
		require.Equal(t, "2 modules downloaded, 3 packages compiled", output.progress(), "in pieces of %d", size)
		require.Equal(t, "# github.com/x/y\n../y/y.go:3:4: undefined: Z\n\tindented\n\nno space left on device", output.messages())
	}
}

func TestABuildWithoutDownloadsDoesNotMentionModules(t *testing.T) {
	t.Parallel()
	var output goOutput
	require.Equal(t, "0 packages compiled", output.progress())
	_, _ = io.WriteString(&output, "runtime\n")
	require.Equal(t, "1 packages compiled", output.progress())
}

func TestProgressIsShownAtEveryTickUntilItIsStopped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	start, ticks, n := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC), make(chan time.Time), 0
	stop := showProgress(&out, start, ticks, func() string { n += 100; return fmt.Sprintf("%d packages compiled", n) })
	ticks <- start.Add(10*time.Second + 3*time.Millisecond)
	ticks <- start.Add(70 * time.Second)
	stop()
	select {
	case ticks <- start:
		t.Fatal("a tick was heard after the end")
	default:
	}
	require.Equal(t, "  after 10s: 100 packages compiled\n  after 1m10s: 200 packages compiled\n", out.String())
}

func TestABuildShowsProgressAndDuration(t *testing.T) {
	t.Parallel()
	target, ticks := filepath.Join(t.TempDir(), "bin", "tool"), make(chan time.Time)
	var out bytes.Buffer
	b := buildOnce{target: target, announce: "building the tool", out: &out, ticks: ticks, build: func(_ context.Context, dir string, output io.Writer) error {
		_, _ = io.WriteString(output, "runtime\nnet/http\n")
		ticks <- time.Now()
		_, _ = io.WriteString(output, "tool\n")
		return os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o755)
	}}
	_, err := b.ensure(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^building the tool\n  after \d+s: [23] packages compiled\nbuilt `+target+` in \d+s \(3 packages compiled\)\n$`, out.String())
}

// A process that waits for another one's build says so, and repeats it.
func TestAProcessThatWaitsForABuildSaysSo(t *testing.T) {
	t.Parallel()
	target, ticks := filepath.Join(t.TempDir(), "bin", "tool"), make(chan time.Time)
	lock, err := tryLock(target + ".lock")
	require.NoError(t, err)
	var out bytes.Buffer
	waited := make(chan error)
	go func() {
		_, err := buildOnce{target: target, out: &out, ticks: ticks, build: func(context.Context, string, io.Writer) error {
			return errors.New("it is built already")
		}}.ensure(t.Context())
		waited <- err
	}()
	ticks <- time.Now() // received only while waiting
	require.NoError(t, os.WriteFile(target, []byte("#!/bin/sh\n"), 0o755))
	lock.release()
	require.NoError(t, <-waited)
	require.Regexp(t, fmt.Sprintf(`^waiting for process %d, which builds %s…\n  after \d+s: still waiting\n$`, os.Getpid(), target), out.String())
}

func TestAFailedBuildShowsErrorsWithoutPackageNames(t *testing.T) {
	t.Parallel()
	b := buildOnce{target: filepath.Join(t.TempDir(), "bin", "tool"), build: func(_ context.Context, _ string, output io.Writer) error {
		_, _ = io.WriteString(output, "runtime\n# tool\nno space left on device\n")
		return errors.New("exit status 1")
	}}
	_, err := b.ensure(t.Context())
	require.EqualError(t, err, "exit status 1\n# tool\nno space left on device")

	b.build = func(ctx context.Context, dir string, output io.Writer) error {
		return goInstall(ctx, dir, "no-module@v1.0.0", output) // refused by its name, before any download
	}
	_, err = b.ensure(t.Context())
	require.ErrorContains(t, err, "go install no-module@v1.0.0: exit status 1\n")
	require.ErrorContains(t, err, "malformed module path")
}
