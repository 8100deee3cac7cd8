// Package e2e tests the built programs: it starts them, calls them over HTTP and Kafka, and
// kills them.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/temporaltest"
)

// programs is the folder that holds the built programs.
var programs string

func TestMain(m *testing.M) {
	dlqtest.AtOnce(4)
	if testing.Short() {
		if os.Getenv("CI") == "true" {
			fmt.Println("CI skips no tests: run them without -short")
			os.Exit(1)
		}
		fmt.Println("SKIPPED: end-to-end tests are long")
		os.Exit(0)
	}
	os.Exit(temporaltest.Main(runner(func() int {
		if err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(programs) }()
		return dbtest.Main(m)
	})))
}

type runner func() int

func (r runner) Run() int { return r() }

func build() (err error) {
	if programs, err = os.MkdirTemp("", "dlq-e2e-"); err != nil {
		return err
	}
	for _, name := range []string{"api", "worker", "dlqctl"} {
		command := exec.Command("go", "build", "-o", filepath.Join(programs, name), "../cmd/"+name)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
}
