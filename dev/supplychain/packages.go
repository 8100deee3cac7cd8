package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// module is a Go module that a program contains packages of.
type module struct {
	Path, Version, Dir, Sum string
	Main                    bool
	Replace                 *module
}

// source is the module whose files are compiled.
func (m *module) source() *module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// pkg is a package that is linked into a program.
type pkg struct {
	ImportPath, Dir string
	Standard        bool
	Module          *module
}

// linked lists the packages of programs outside the standard library, as they are built for the
// images.
func linked(programs ...string) ([]pkg, error) {
	args := append([]string{"list", "-deps", "-tags", tags, "-json=ImportPath,Dir,Standard,Module"}, programs...)
	command := exec.Command("go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	command.Stderr = os.Stderr
	listed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) { //nolint:musttag // the fields have the names of go list
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if !p.Standard && p.Module != nil {
			packages = append(packages, p)
		}
	}
}
