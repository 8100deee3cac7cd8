// Command man writes the manual pages of dlqctl: go run ./cmd/dlqctl/man FOLDER v0.1.0 SECONDS. SECONDS is the date of the
// pages, in seconds since 1970. It is a separate program, so that dlqctl does not contain the generator.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"dlqmanager/cmd/dlqctl/ctl"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("give a folder, a version and the seconds since 1970, not %d arguments", len(args))
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("the date must be seconds since 1970: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	root := ctl.Command()
	root.DisableAutoGenTag = true // the tag would have the day of the build
	return doc.GenManTree(root, &doc.GenManHeader{Source: "dlqctl " + args[1], Manual: "DLQ manager", Date: &date}, args[0])
}
