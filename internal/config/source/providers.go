package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"dragoman/internal/config/value"
)

// Provider is an entry of a providers.yaml (seed 002, Configuration Schema).
type Provider struct {
	Name     string            `yaml:"name"`
	Type     string            `yaml:"type"`
	Address  string            `yaml:"address"`
	Enabled  *bool             `yaml:"enabled"` // nil: true
	Metadata map[string]string `yaml:"metadata"`
	Line     int               `yaml:"-"` // of the entry
}

// maxProviders bounds the entries of a file.
const maxProviders = 1000

// Providers reads a providers.yaml: gRPC services that are servers. The errors name the lines.
func Providers(path string) ([]Provider, value.ConfigErrors) {
	data, err := contents(path)
	if err != nil {
		return nil, readErrors(path, err)
	}
	all, err := parseProviders(data)
	if err != nil {
		return nil, readErrors(path, err)
	}
	var errs value.ConfigErrors
	seen := map[string]int{}
	for i := range all {
		p := &all[i]
		if what, fix := p.wrong(); what != "" {
			errs = append(errs, &value.ConfigError{Source: value.Source{Kind: value.FromFile, Name: path, Line: p.Line}, Key: "providers[" + strconv.Itoa(i) + "]", Problem: what, Fix: fix})
		} else if first := seen[p.Name]; first > 0 {
			errs = append(errs, &value.ConfigError{Source: value.Source{Kind: value.FromFile, Name: path, Line: p.Line}, Key: "providers[" + strconv.Itoa(i) + "]",
				Problem: fmt.Sprintf("has the name %s, as the entry in line %d", value.Quote(value.Shorten(p.Name)), first), Fix: "rename one of the two"})
		}
		seen[p.Name] = p.Line
	}
	return all, errs
}

// parseProviders parses the file. Its lines are those of its syntax tree, its values those of the decoder, which takes no other keys.
func parseProviders(data []byte) (all []Provider, err error) {
	defer func() { // as in ParseYAML
		if recover() != nil {
			all, err = nil, failed(0, "is not YAML", "check brackets and indentation")
		}
	}()
	if line := yamlDepth(data); line > 0 {
		return nil, tooDeep(line)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlSyntax(err)
	}
	var root struct {
		Providers []Provider `yaml:"providers"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlSyntax(err)
	}
	if len(root.Providers) == 0 {
		return nil, failed(0, "has no list of providers", "write providers:, and below it entries with name, type and address")
	}
	if len(root.Providers) > maxProviders {
		return nil, failed(0, fmt.Sprintf("has more than %d providers", maxProviders), "split them over several files")
	}
	for _, doc := range file.Docs {
		top, ok := doc.Body.(ast.MapNode)
		if !ok {
			continue
		}
		for it := top.MapRange(); it.Next(); {
			if list, ok := it.Value().(*ast.SequenceNode); ok {
				for i, entry := range list.Values {
					if i < len(root.Providers) {
						root.Providers[i].Line = yamlLine(entry)
					}
				}
			}
		}
	}
	return root.Providers, nil
}

// wrong returns what is wrong with an entry, and what fixes it; empty: nothing.
func (p *Provider) wrong() (what, fix string) {
	const example = "write host:port, such as localhost:50051"
	host, port, err := net.SplitHostPort(p.Address)
	number, perr := strconv.Atoi(port)
	switch {
	case p.Name == "":
		return "has no name", "write name: NAME"
	case p.Type == "":
		return "has no type", `write type: grpc`
	case p.Type != "grpc":
		return fmt.Sprintf("has the type %s, which is not supported", value.Quote(value.Shorten(p.Type))), "write type: grpc"
	case p.Address == "":
		return "has no address", example
	case err != nil || host == "" || perr != nil || number < 1 || number > 65535:
		return fmt.Sprintf("has the address %s, which is no host:port", value.Quote(value.Shorten(p.Address))), example
	}
	return "", ""
}

// On reports whether the provider is enabled.
func (p *Provider) On() bool { return p.Enabled == nil || *p.Enabled }

// readErrors returns the error of a file that cannot be read as one.
func readErrors(path string, err error) value.ConfigErrors {
	var problem *value.ConfigError
	if !errors.As(err, &problem) {
		problem = &value.ConfigError{Problem: fmt.Sprintf("cannot be read: %v", value.Reason(err)), Fix: "check the path and the permissions"}
	}
	problem.Source.Kind, problem.Source.Name = value.FromFile, path
	return value.ConfigErrors{problem}
}

// Sorted returns the metadata in the order of its names, as pairs.
func (p *Provider) Sorted() []string {
	out := make([]string, 0, len(p.Metadata))
	for key, text := range p.Metadata {
		out = append(out, key+"="+text)
	}
	slices.Sort(out)
	return out
}
