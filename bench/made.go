package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// makeTargets has the targets of the Makefile that run the benchmark, by the arguments of the benchmark.
var makeTargets = map[string]string{
	"": "make bench", "-quick": "make bench-quick", "-soak 30m": "make soak",
	"-rows 14,19 -stored 10000000 -bare -out ": "make bench-large",
}

// command is the command line that makes the same report.
func command(args []string) string {
	joined := strings.Join(args, " ")
	if target, ok := makeTargets[joined]; ok {
		return target
	}
	return "go run ./bench " + joined
}

// commit returns a name for the measured code: the commit, as far as git can tell.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "an unknown commit"
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	return commitOf(string(head), err == nil && len(changes) == 0)
}

func commitOf(head string, isClean bool) string {
	name := "commit " + strings.TrimSpace(head)
	if !isClean {
		name += " with uncommitted changes"
	}
	return name
}

// madeBy is the first sentence of a report.
func (o *options) madeBy() string { return fmt.Sprintf("Written by `%s` at %s.", o.command, o.commit) }
