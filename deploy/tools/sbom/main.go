// Sbom says what is in a binary: `sbom FILE` prints CycloneDX 1.6 in JSON of the modules that Go has written into it, with the
// standard library as one. It is the same again for the same binary: neither a serial number nor a time is in it.
//
// -version is that of the main module, if the binary does not know it by itself (a release before its tag).
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "of the main module")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: sbom [-version v1.2.3] FILE")
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, file, version string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill(info, version))
}

// bill lists the main module's parts: that it depends on all of them is known, which of them on which is not.
func bill(info *debug.BuildInfo, version string) *cdx.BOM {
	main := component(cdx.ComponentTypeApplication, &debug.Module{Path: info.Main.Path, Version: info.Main.Version})
	if version != "" {
		main = component(cdx.ComponentTypeApplication, &debug.Module{Path: info.Main.Path, Version: version})
	}
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	built := []cdx.Property{}
	for _, s := range info.Settings {
		built = append(built, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &built
	parts := []cdx.Component{component(cdx.ComponentTypeLibrary, &debug.Module{Path: "std", Version: info.GoVersion})}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(cdx.ComponentTypeLibrary, m))
	}
	refs := []string{}
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	out := cdx.NewBOM()
	out.SpecVersion = cdx.SpecVersion1_6
	out.JSONSchema = "http://cyclonedx.org/schema/bom-1.6.schema.json"
	out.Metadata = &cdx.Metadata{Component: &main}
	out.Components = &parts
	out.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return out
}

// component is a module, known by its package URL (purl-spec, type golang).
func component(kind cdx.ComponentType, m *debug.Module) cdx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := cdx.Component{Type: kind, BOMRef: url, PackageURL: url, Name: m.Path, Version: m.Version}
	// h1: is a SHA-256 sum over the module's files and their names (golang.org/x/mod/sumdb/dirhash).
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
