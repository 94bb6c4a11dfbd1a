package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/proxy/wire"
)

// toolName is a name with a version at its end (seed 002: "echo.v1"), of the characters that MCP allows (2025-11-25 tools, Tool Names).
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]*[A-Za-z0-9_-]\.v[0-9]+(\.[0-9]+){0,2}$`)

// scheme is the scheme of a URI (RFC 3986 §3.1), the seed's letters, digits and hyphens among it.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// dialect is the dialect of the contract's schemas.
const dialect = "https://json-schema.org/draft/2020-12/schema"

var errTwice = errors.New("the provider lists another one of this name")

// maxToolName is the most characters of the name of a tool.
const maxToolName = 128

// definitions returns the definitions of a page, JSON objects, and remembers what calls need of them. One that breaks a rule is left out, and
// the log says which.
func (u *Upstream) definitions(kind providerpb.Kind, of *providerpb.ListCapabilitiesResponse) (out [][]byte) {
	seen := map[string]bool{}
	keep := func(what, name string, raw []byte, err error) (kept bool) {
		subject := what + " " + wire.Shown(name)
		key := subject
		if seen[name] {
			key += " again"
			err = cmp.Or(err, errTwice)
		}
		seen[name] = true
		if u.known.fault(key, err) {
			u.opt.Note("warn", "a definition of the provider is left out", fmt.Errorf("%s: %w", subject, err))
		}
		if err == nil {
			out = append(out, raw)
		}
		return err == nil
	}
	switch kind {
	case providerpb.Kind_KIND_TOOL:
		for _, t := range of.GetTools() {
			raw, facts, err := u.tool(t)
			if keep("tool", t.GetName(), raw, err) {
				u.known.addTool(t.GetName(), facts)
			}
		}
	case providerpb.Kind_KIND_RESOURCE:
		for _, r := range of.GetResources() {
			raw, err := resourceDefinition(r)
			if keep("resource", r.GetUri(), raw, err) {
				u.known.addResource(r.GetUri(), r.GetAsks())
			}
		}
	case providerpb.Kind_KIND_RESOURCE_TEMPLATE:
		for _, t := range of.GetResourceTemplates() {
			raw, err := templateDefinition(t)
			if keep("resource template", t.GetUriTemplate(), raw, err) && t.GetAsks() {
				u.known.addAsking(t.GetUriTemplate())
			}
		}
	case providerpb.Kind_KIND_PROMPT:
		for _, p := range of.GetPrompts() {
			raw, facts, err := u.prompt(p)
			if keep("prompt", p.GetName(), raw, err) {
				u.known.addPrompt(p.GetName(), facts)
			}
		}
	}
	return out
}

// tool returns the definition of a tool, and what its calls need.
func (u *Upstream) tool(t *providerpb.Tool) ([]byte, *tool, error) {
	switch name := t.GetName(); {
	case len(name) > maxToolName || !toolName.MatchString(name):
		return nil, nil, fmt.Errorf("its name has no version at its end, or other characters than letters, digits, _, - and . (at most %d); fix: a name such as echo.v1", maxToolName)
	case strings.TrimSpace(t.GetDescription()) == "":
		return nil, nil, fmt.Errorf("it has no description")
	}
	input, err := u.checkedSchema("input_schema", t.GetInputSchema(), true)
	if err != nil {
		return nil, nil, err
	}
	output, err := u.checkedSchema("output_schema", t.GetOutputSchema(), false)
	if err != nil {
		return nil, nil, err
	}
	b := wire.NewBuilder(nil)
	b.Text("name", t.GetName())
	b.Some("title", t.GetTitle())
	b.Text("description", t.GetDescription())
	b.Add("inputSchema", input)
	b.Add("outputSchema", output)
	addHints(b, t.GetAnnotations())
	addIcons(b, t.GetIcons())
	raw, err := withMeta(b, t.GetMeta())
	return raw, &tool{asks: t.GetAsks(), input: input, output: output}, err
}

func addHints(b *wire.Builder, of *providerpb.ToolAnnotations) {
	if of == nil || proto.Size(of) == 0 {
		return
	}
	b.Key("annotations")
	a := wire.NewBuilder(b.Raw)
	for _, hint := range [...]struct {
		key string
		at  *bool
	}{{"readOnlyHint", of.ReadOnly}, {"destructiveHint", of.Destructive}, {"idempotentHint", of.Idempotent}, {"openWorldHint", of.OpenWorld}} {
		if hint.at != nil {
			a.Add(hint.key, fmt.Appendf(nil, "%t", *hint.at))
		}
	}
	b.Raw = a.Done()
}

// checkedSchema returns a schema that can be used; nil if it is empty and optional.
func (u *Upstream) checkedSchema(field, text string, required bool) ([]byte, error) {
	if text == "" && !required {
		return nil, nil
	}
	if text == "" {
		return nil, fmt.Errorf("it has no %s; fix: {\"type\":\"object\"} for no arguments", field)
	}
	raw, err := value(text, field)
	if err != nil {
		return nil, fmt.Errorf("its %s is no JSON", field)
	}
	if raw[0] != '{' || required && !wire.Get(raw, wire.Whole(raw), "type").Is(raw, "object") {
		return nil, fmt.Errorf(`its %s is not of type "object"`, field)
	}
	if at := wire.Get(raw, wire.Whole(raw), "$schema"); at.Present() && strings.TrimSuffix(string(at.Text(raw)), "#") != dialect {
		return nil, fmt.Errorf("its %s is not in the dialect %s", field, dialect)
	}
	if _, err := u.schemas.Notes(raw); err != nil {
		return nil, fmt.Errorf("its %s cannot be used: %w", field, err)
	}
	return raw, nil
}

// resourceDefinition returns the definition of a resource.
func resourceDefinition(r *providerpb.Resource) ([]byte, error) {
	if !scheme.MatchString(r.GetUri()) {
		return nil, fmt.Errorf("its URI has no scheme; fix: a URI such as hello://greeting")
	}
	if _, err := url.Parse(r.GetUri()); err != nil {
		return nil, fmt.Errorf("its URI is no URI")
	}
	if err := described(r.GetName(), r.GetDescription()); err != nil {
		return nil, err
	}
	b := wire.NewBuilder(nil)
	if err := addResource(b, r); err != nil {
		return nil, err
	}
	return withMeta(b, r.GetMeta())
}

func described(name, description string) error {
	switch {
	case name == "":
		return fmt.Errorf("it has no name")
	case strings.TrimSpace(description) == "":
		return fmt.Errorf("it has no description")
	}
	return nil
}

// templateDefinition returns the definition of a resource template.
func templateDefinition(t *providerpb.ResourceTemplate) ([]byte, error) {
	if !scheme.MatchString(t.GetUriTemplate()) {
		return nil, fmt.Errorf("its template begins with no scheme; fix: a template such as hello://greeting/{name}")
	}
	if err := described(t.GetName(), t.GetDescription()); err != nil {
		return nil, err
	}
	b := wire.NewBuilder(nil)
	b.Text("uriTemplate", t.GetUriTemplate())
	b.Text("name", t.GetName())
	b.Some("title", t.GetTitle())
	b.Text("description", t.GetDescription())
	b.Some("mimeType", t.GetMimeType())
	addIcons(b, t.GetIcons())
	addAnnotations(b, t.GetAnnotations())
	return withMeta(b, t.GetMeta())
}

// placeholder is a place in the template of a prompt.
var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_-]*)\}`)

// prompt returns the definition of a prompt, and what getting it needs. MCP's list of arguments is made of the schema.
func (u *Upstream) prompt(p *providerpb.Prompt) ([]byte, *prompt, error) {
	if err := described(p.GetName(), p.GetDescription()); err != nil {
		return nil, nil, err
	}
	arguments, err := u.checkedSchema("args_schema", p.GetArgsSchema(), true)
	if err != nil {
		return nil, nil, err
	}
	properties := wire.Get(arguments, wire.Whole(arguments), "properties")
	for _, place := range placeholder.FindAllStringSubmatch(p.GetTemplate(), -1) {
		if !wire.Get(arguments, properties, place[1]).Present() {
			return nil, nil, fmt.Errorf("its template has a placeholder {%s}, which is no property of its args_schema", place[1])
		}
	}
	b := wire.NewBuilder(nil)
	b.Text("name", p.GetName())
	b.Some("title", p.GetTitle())
	b.Text("description", p.GetDescription())
	b.Key("arguments")
	b.Raw = appendArguments(b.Raw, arguments, properties)
	addIcons(b, p.GetIcons())
	raw, err := withMeta(b, p.GetMeta())
	return raw, &prompt{asks: p.GetAsks(), arguments: arguments, template: p.GetTemplate(), description: p.GetDescription()}, err
}

// appendArguments appends the arguments of a prompt: the properties of its schema, in their order.
func appendArguments(dst, schema []byte, properties wire.Span) []byte {
	required := map[string]bool{}
	for _, name := range wire.Items(schema, wire.Get(schema, wire.Whole(schema), "required")) {
		required[string(name.Text(schema))] = true
	}
	dst = append(dst, '[')
	for name, of := range wire.Members(schema, properties) {
		b := wire.NewBuilder(nil)
		b.Add("name", name.Of(schema))
		for _, key := range [...]string{"title", "description"} {
			if text := wire.Get(schema, of, key); text.IsString(schema) {
				b.Add(key, text.Of(schema))
			}
		}
		b.Add("required", strconv.AppendBool(nil, required[string(name.Text(schema))]))
		dst = wire.AppendItem(dst, b.Done())
	}
	return append(dst, ']')
}
