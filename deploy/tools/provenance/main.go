// Provenance says where files come from: an in-toto Statement v1 with the predicate SLSA provenance v1. It is unsigned.
//
//	provenance -builder URI -type URI [-parameter NAME=VALUE]... [-source URI=COMMIT] [-material URI=FILE]... FILE...
//
// The statement has neither times nor an id of the run, so that the same files from the same source get the same statement.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// predicate is the type of SLSA's provenance.
const predicate = "https://slsa.dev/provenance/v1"

// build is what the flags say.
type build struct {
	builder, kind                         string
	parameters, sources, materials, files pairs
}

// pairs is a repeatable flag NAME=VALUE.
type pairs [][2]string

func (p *pairs) String() string { return "" }

// Set adds one; the name has no equals sign.
func (p *pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return errors.New("write NAME=VALUE")
	}
	*p = append(*p, [2]string{name, value})
	return nil
}

func main() {
	var b build
	flag.StringVar(&b.builder, "builder", "", "who builds, a URI")
	flag.StringVar(&b.kind, "type", "", "what the parameters mean, a URI")
	flag.Var(&b.parameters, "parameter", "of the build, NAME=VALUE; repeatable")
	flag.Var(&b.sources, "source", "of what was built, URI=COMMIT")
	flag.Var(&b.materials, "material", "file that was used, URI=FILE; repeatable")
	flag.Parse()
	for _, name := range flag.Args() {
		b.files = append(b.files, [2]string{filepath.ToSlash(name), name})
	}
	if err := b.write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func (b *build) write(w io.Writer) error {
	subjects, err := digests(b.files)
	if err != nil {
		return err
	}
	materials, err := digests(b.materials)
	if err != nil {
		return err
	}
	for _, m := range materials {
		m.Uri, m.Name = m.GetName(), ""
	}
	for _, s := range b.sources {
		materials = append([]*intoto.ResourceDescriptor{{Uri: s[0], Digest: map[string]string{"gitCommit": s[1]}}}, materials...)
	}
	parameters := map[string]any{}
	for _, p := range b.parameters {
		parameters[p[0]] = p[1]
	}
	external, err := structpb.NewStruct(parameters)
	if err != nil {
		return err
	}
	made := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{BuildType: b.kind, ExternalParameters: external, ResolvedDependencies: materials},
		RunDetails:      &slsa.RunDetails{Builder: &slsa.Builder{Id: b.builder}},
	}
	if err := made.Validate(); err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicate}
	raw, err := protojson.Marshal(made)
	if err != nil {
		return err
	}
	statement.Predicate = new(structpb.Struct)
	if err := protojson.Unmarshal(raw, statement.Predicate); err != nil {
		return err
	}
	if err := statement.Validate(); err != nil {
		return err
	}
	if raw, err = protojson.Marshal(statement); err != nil {
		return err
	}
	return indented(w, raw)
}

// indented writes JSON in one form: that of protojson has spaces at random.
func indented(w io.Writer, raw []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

// digests returns the files of pairs NAME=FILE with their SHA-256 sums, sorted by name.
func digests(files pairs) (all []*intoto.ResourceDescriptor, err error) {
	for _, f := range files {
		data, err := os.Open(f[1])
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, data)
		if err = errors.Join(err, data.Close()); err != nil {
			return nil, err
		}
		all = append(all, &intoto.ResourceDescriptor{Name: f[0], Digest: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}})
	}
	slices.SortFunc(all, func(a, b *intoto.ResourceDescriptor) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}
