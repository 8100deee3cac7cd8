package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sboms writes a bill of materials for each program into a folder. It has neither a time nor a
// random serial number, so the same sources give the same file.
func sboms(version, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, program := range programs {
		name := "dlq-" + path.Base(program)
		bom, err := sbom(program, name, version)
		if err != nil {
			return err
		}
		file, err := os.Create(filepath.Join(folder, name+".cdx.json"))
		if err != nil {
			return err
		}
		if err := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%s: %d components\n", file.Name(), len(*bom.Components))
	}
	return nil
}

func sbom(program, name, version string) (*cdx.BOM, error) {
	packages, err := linked(program)
	if err != nil {
		return nil, err
	}
	found, err := findLicences(program)
	if err != nil {
		return nil, err
	}
	modules := map[string]*module{}
	for _, p := range packages {
		if !p.Module.Main {
			modules[p.Module.Path] = p.Module.source()
		}
	}
	// Scanners find the vulnerabilities of the standard library by this name.
	components := []cdx.Component{component("std", strings.TrimPrefix(runtime.Version(), "go"), "", []finding{{"BSD-3-Clause", ""}})}
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		m := modules[key]
		components = append(components, component(m.Path, m.Version, m.Sum, found[key]))
	}
	bom := cdx.NewBOM()
	own := component(name, version, "", []finding{{"Apache-2.0", ""}})
	own.Type = cdx.ComponentTypeApplication
	bom.Metadata = &cdx.Metadata{Component: &own}
	bom.Components = &components
	var references []string
	for i := range components {
		references = append(references, components[i].BOMRef)
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: own.BOMRef, Dependencies: &references}}
	return bom, nil
}

// component describes a module. Its hash is that of go.sum, which covers the files of the
// module and their names.
func component(name, version, sum string, found []finding) cdx.Component {
	reference := "pkg:golang/" + name + "@" + version
	c := cdx.Component{BOMRef: reference, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: reference}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	var names []string
	choices := cdx.Licenses{}
	for _, f := range found {
		if !slices.Contains(names, f.licence) && f.licence != noLicence {
			names = append(names, f.licence)
			choices = append(choices, cdx.LicenseChoice{License: &cdx.License{ID: f.licence}})
		}
	}
	if len(choices) > 0 {
		c.Licenses = &choices
	}
	return c
}
