// Command slowest runs the tests of some packages, and prints the ten slowest tests and the ten slowest
// packages as tables for docs/development.md. Arguments go to go test.
//
//	go run ./dev/slowest ./...
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const most = 10

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "slowest:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action  string  `json:"action"`
	Package string  `json:"package"`
	Test    string  `json:"test"`
	Output  string  `json:"output"`
	Elapsed float64 `json:"elapsed"` // seconds
}

func run(args []string, out io.Writer) error {
	command := exec.Command("go", append([]string{"test", "-count=1", "-json"}, args...)...)
	command.Stderr = os.Stderr
	lines, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	err = report(lines, out)
	return cmp.Or(command.Wait(), err)
}

// report prints the tests that failed, and the slowest tests and packages.
func report(lines io.Reader, out io.Writer) error {
	var tests, packages []event
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil || e.Action != "pass" && e.Action != "fail" || strings.Contains(e.Test, "/") {
			continue
		}
		e.Package = strings.TrimPrefix(e.Package, "dlqmanager/")
		if e.Action == "fail" {
			fmt.Fprintln(out, "FAIL", e.Package, e.Test)
		}
		if e.Test == "" {
			packages = append(packages, e)
		} else {
			tests = append(tests, e)
		}
	}
	for _, list := range [][]event{tests, packages} {
		slices.SortFunc(list, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
		fmt.Fprintln(out, "\n| test | seconds |\n|---|--:|")
		for _, e := range list[:min(most, len(list))] {
			fmt.Fprintf(out, "| `%s` | %.0f |\n", strings.TrimSuffix(e.Package+"."+e.Test, "."), e.Elapsed)
		}
	}
	return scanner.Err()
}
