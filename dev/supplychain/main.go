// Command supplychain lists what the shipped programs consist of: the licences of their
// packages, and a bill of materials for each program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

var errUsage = errors.New("usage: supplychain licences [-write] | supplychain sbom [-version VERSION] [-out FOLDER]")

// programs are those that are shipped.
var programs = []string{"./cmd/api", "./cmd/worker"}

// tags are the build tags of the images.
const tags = "timetzdata"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	write := flags.Bool("write", false, "")
	version := flags.String("version", "dev", "")
	out := flags.String("out", ".build/sbom", "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "licences":
		return licences("docs/licences.csv", *write)
	case "sbom":
		return sboms(*version, *out)
	default:
		return errUsage
	}
}
