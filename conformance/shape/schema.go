package shape

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed schemas
var files embed.FS

// revisions are the revisions of the protocol, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// Side is the sender of a message.
type Side int

// The two sides of the protocol.
const (
	Server Side = iota
	Client
)

// String is "server" or "client".
func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

type object = map[string]any

// schema is the official schema of one revision, amended.
type schema struct {
	revision string
	at       string // where the definitions are: "definitions" or "$defs"
	defs     object
	requests [2]map[string]string // by Side: the definition of each method
	notices  [2]map[string]string

	results map[string]string // by the method of the request

	mu       sync.Mutex
	compiler *jsonschema.Compiler // keeps what it has compiled
}

// schemas are those of all revisions; each is read when it is first needed.
var schemas = func() map[string]func() (*schema, error) {
	all := map[string]func() (*schema, error){}
	for _, revision := range revisions {
		all[revision] = sync.OnceValues(func() (*schema, error) { return read(revision, amendments) })
	}
	return all
}()

// open returns the schema of a revision.
func open(revision string) (*schema, error) {
	load := schemas[revision]
	if load == nil {
		return nil, fmt.Errorf("shape: no revision %q; known are %v", revision, revisions)
	}
	return load()
}

func read(revision string, amend func() ([]amendment, error)) (*schema, error) {
	raw, err := unzip("schemas/" + revision + ".schema.json.gz")
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	s := &schema{revision: revision, at: "$defs", compiler: jsonschema.NewCompiler(), results: map[string]string{}}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("shape: %s: %w", revision, err)
	}
	if doc.(object)["definitions"] != nil {
		s.at = "definitions"
	}
	s.defs = doc.(object)[s.at].(object)
	changes, err := amend()
	if err != nil {
		return nil, fmt.Errorf("shape: %s: %w", revision, err)
	}
	s.amend(changes)
	for _, side := range []Side{Server, Client} {
		title := map[Side]string{Server: "Server", Client: "Client"}[side]
		s.requests[side] = s.methods(title+"Request", "Extension"+title+"Request")
		s.notices[side] = s.methods(title+"Notification", "Extension"+title+"Notification")
	}
	for method, names := range results {
		if name := s.resultOf(names); name != "" {
			s.results[method] = name
		}
	}
	s.compiler.AssertFormat()
	for name, f := range formats {
		s.compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if text, ok := v.(string); ok && !f.holds(text) {
				return errors.New("not " + f.means)
			}
			return nil
		}})
	}
	s.compiler.RegisterFormat(&jsonschema.Format{Name: metaFormat, Validate: metaNamesHold})
	return s, s.compiler.AddResource("mcp.json", doc)
}

func unzip(name string) ([]byte, error) {
	raw, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// amendment is what the text of some revisions says and their schemas do not: a JSON Merge Patch of the definitions.
type amendment struct {
	In   string `json:"in"` // a range of revisions, such as "2025-06-18.."
	Why  string `json:"why"`
	Defs object `json:"defs"`
}

// amendments reads amendments.json, anew for each revision, since the patches become part of its schema.
func amendments() (all []amendment, err error) {
	raw, err := files.ReadFile("schemas/amendments.json")
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	return all, err
}

// amend applies the amendments, and what concerns many definitions: the names within _meta, and the resultType of each result.
func (s *schema) amend(all []amendment) {
	for _, one := range all {
		from, to, _ := strings.Cut(one.In, "..")
		if s.revision >= from && (to == "" || s.revision <= to) {
			merge(s.defs, one.Defs)
		}
	}
	if s.revision >= "2025-06-18" {
		metaNames(s.defs)
	}
	if s.revision < "2026-07-28" {
		return
	}
	for name, def := range s.defs {
		if !strings.HasSuffix(name, "MetaObject") {
			continue
		}
		merge(def.(object), object{
			"format": metaFormat, // basic §_meta
			"properties": object{ // W3C Trace Context and Baggage
				"traceparent": object{"type": "string", "format": "traceparent"}, "tracestate": object{"type": "string"}, "baggage": object{"type": "string"},
			},
		})
	}
	for _, names := range results { // basic §ResultType: a value that is not known is invalid; the schema takes any string
		for _, name := range names {
			if def, ok := s.defs[name].(object); ok && def["$ref"] == nil {
				merge(def, object{"properties": object{"resultType": object{"const": resultType(name)}}})
			}
		}
	}
}

// resultType is the value by which a result says what it is, in 2026-07-28.
func resultType(definition string) string {
	switch definition {
	case "InputRequiredResult":
		return "input_required"
	case "CreateTaskResult":
		return "task"
	}
	return "complete"
}

// merge applies a JSON Merge Patch (RFC 7386).
func merge(into, patch object) {
	for name, v := range patch {
		of, isObject := v.(object)
		before, wasObject := into[name].(object)
		switch {
		case v == nil:
			delete(into, name)
		case isObject && wasObject:
			merge(before, of)
		default:
			into[name] = v
		}
	}
}

// metaNames adds the grammar of basic §_meta to every _meta whose schema is written where it is used.
func metaNames(v any) {
	switch v := v.(type) {
	case object:
		if properties, ok := v["properties"].(object); ok {
			if meta, ok := properties["_meta"].(object); ok && meta["$ref"] == nil {
				meta["format"] = metaFormat
			}
		}
		for _, one := range v {
			metaNames(one)
		}
	case []any:
		for _, one := range v {
			metaNames(one)
		}
	}
}

// methods returns the definition of each method in unions such as ClientRequest.
func (s *schema) methods(unions ...string) map[string]string {
	out := map[string]string{}
	for _, union := range unions {
		def, _ := s.defs[union].(object)
		all, _ := def["anyOf"].([]any)
		if def != nil && all == nil { // a union of one
			all = []any{object{"$ref": "/" + union}}
		}
		for _, one := range all {
			name := target(one.(object))
			properties, _ := s.defs[name].(object)["properties"].(object)
			method, _ := properties["method"].(object)["const"].(string)
			out[method] = name
		}
	}
	return out
}

// target is the name of the definition that a $ref points to.
func target(node object) string {
	ref, _ := node["$ref"].(string)
	return ref[strings.LastIndexByte(ref, '/')+1:]
}

// resultOf returns the definition of the result of a method: one of those that the revision has, or their union, which is made here.
func (s *schema) resultOf(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.defs[name] == nil })
	union := strings.Join(names, ".")
	if len(names) > 1 {
		var of []any
		for _, name := range names {
			of = append(of, object{"$ref": "#/" + s.at + "/" + name})
		}
		s.defs[union] = object{"anyOf": of}
	}
	return union
}

// validate compares a value with a definition. nil is a sound value.
func (s *schema) validate(v any, definition string) (*jsonschema.ValidationError, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	compiled, err := s.compiler.Compile("mcp.json#/" + s.at + "/" + definition)
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	var failed *jsonschema.ValidationError
	if err := compiled.Validate(v); err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("shape: %w", err)
	}
	return failed, nil
}
