package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences that may be in a shipped program, as SPDX identifiers. They ask for
// their text to be passed on, and for nothing else.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PostgreSQL"}

// noLicence is SPDX's word for a module that names no licence.
const noLicence = "NOASSERTION"

// accepted are modules without a licence file that a person has looked at, with the reason.
var accepted = map[string]string{
	"github.com/nexus-rpc/nexus-proto-annotations": "the only version, v0.1.0, has no licence file; go.temporal.io/api imports it",
}

// finding is a licence, and the file that has it.
type finding struct{ licence, file string }

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)

// licences compares the file with the linked packages, or writes it. It fails at a licence that
// is not allowed.
func licences(path string, write bool) error {
	found, err := findLicences(programs...)
	if err != nil {
		return err
	}
	if err := errors.Join(refused(found)...); err != nil {
		return err
	}
	content := table(found)
	if write {
		return os.WriteFile(path, content, 0o644)
	}
	recorded, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(content, recorded) {
		return fmt.Errorf("%s does not match the linked packages: look at the new licences, and run make licences-write", path)
	}
	fmt.Fprintf(os.Stdout, "%d modules with licences of %s\n", len(found)-len(accepted), strings.Join(allowed, ", "))
	for name, reason := range accepted {
		fmt.Fprintf(os.Stdout, "without a licence: %s (%s)\n", name, reason)
	}
	return nil
}

func refused(found map[string][]finding) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if len(found[name]) == 0 {
			errs = append(errs, fmt.Errorf("%s has no licence file", name))
		}
		for _, f := range found[name] {
			if !slices.Contains(allowed, f.licence) && f.licence != noLicence {
				errs = append(errs, fmt.Errorf("%s: %s: the licence %q is not allowed", name, f.file, f.licence))
			}
		}
	}
	return errs
}

// table writes a line for each licence file. It has no versions, so that it changes only when a
// module or a licence does.
func table(found map[string][]finding) []byte {
	var out bytes.Buffer
	lines := csv.NewWriter(&out)
	_ = lines.Write([]string{"module", "licence", "file"}) // a buffer accepts everything
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for _, f := range found[name] {
			_ = lines.Write([]string{name, f.licence, f.file})
		}
	}
	lines.Flush()
	return out.Bytes()
}

// findLicences finds the licences of the modules that are linked into programs. A package may
// have a licence of its own, beside that of its module.
func findLicences(programs ...string) (map[string][]finding, error) {
	packages, err := linked(programs...)
	if err != nil {
		return nil, err
	}
	classify, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("licence classifier: %w", err)
	}
	found, seen := map[string][]finding{}, map[string]bool{}
	for _, p := range packages {
		if p.Module.Main {
			continue
		}
		if _, known := found[p.Module.Path]; !known {
			found[p.Module.Path] = nil
		}
		root := p.Module.source().Dir
		for folder := p.Dir; !seen[folder] && strings.HasPrefix(folder, root); folder = filepath.Dir(folder) {
			seen[folder] = true
			own, err := licencesIn(classify, root, folder)
			if err != nil {
				return nil, err
			}
			found[p.Module.Path] = append(found[p.Module.Path], own...)
		}
	}
	for name, findings := range found {
		if reason := accepted[name]; reason != "" && len(findings) == 0 {
			found[name] = []finding{{noLicence, reason}}
		}
		slices.SortFunc(found[name], func(a, b finding) int { return strings.Compare(a.file, b.file) })
	}
	return found, nil
}

func licencesIn(classify *classifier.Classifier, root, folder string) (found []finding, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		for _, licence := range namesOf(classify, text) {
			found = append(found, finding{licence, file})
		}
	}
	return found, nil
}

// namesOf returns the licences that a text consists of, or "unknown".
func namesOf(classify *classifier.Classifier, text []byte) []string {
	var names []string
	for _, match := range classify.Match(text).Matches {
		if match.MatchType == "License" && !slices.Contains(names, match.Name) {
			names = append(names, match.Name)
		}
	}
	if len(names) == 0 {
		return []string{"unknown"}
	}
	slices.Sort(names)
	return names
}
