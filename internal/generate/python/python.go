// Package python generates a typed package for Python 3.10 and later: a module for each tool, with functions for threads and for asyncio, models of
// pydantic, and errors as exceptions.
package python

import (
	_ "embed" // runtime.py
	"fmt"
	"strings"

	"dragoman/internal/generate"
	"dragoman/internal/generate/names"
	"dragoman/internal/generate/output"
	"dragoman/internal/generate/shape"
)

// runtime is the module that the others use.
//
//go:embed runtime.py
var runtime []byte

// Package is the name of the package that has one for each service.
const Package = "mcp_clients"

const project = `# Written by dragoman generate, not for editing.
[project]
name = "mcp-clients"
version = "0.0.0"
description = "Clients of MCP tools"
requires-python = ">=3.10"
dependencies = ["httpx>=0.27", "pydantic>=2.7"]

[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[tool.setuptools.packages.find]
include = ["mcp_clients*"]

[tool.setuptools.package-data]
mcp_clients = ["py.typed"]
`

const readme = `# Clients of MCP tools

Written by ` + "`dragoman generate`" + `, not for editing. ` + "`pip install .`" + ` installs the package; it needs httpx and pydantic.

    from mcp_clients import Client
    from mcp_clients.SERVICE.TOOL import TOOL

    with Client() as client:
        result = TOOL(client, ARGUMENT=...)
        print(result.text, result.structured)

Each module has a second function for asyncio, whose name ends with ` + "`_async`" + ` and which takes an ` + "`AsyncClient`" + `. An argument
that is left out is not sent. A call that fails raises a ` + "`ToolError`" + `. ` + "`Client(on_progress=print)`" + ` is told how far a call is.
A token is taken from MCP_TOKEN_SERVICE, another address from MCP_URL_SERVICE.
`

// keywords are the words that no name may be: those of the language, and the types that annotations name.
const keywords = `False None True and as assert async await break class continue def del elif else except finally for from global if import in is
	lambda nonlocal not or pass raise return try while with match case type print
	str int float bool list dict tuple set object date datetime UUID Any Literal client`

// modelNames are what a model of pydantic has already.
const modelNames = `construct copy dict from_orm json model_computed_fields model_config model_construct model_copy model_dump model_dump_json model_extra model_fields
	model_fields_set model_json_schema model_parametrized_name model_post_init model_rebuild model_validate model_validate_json model_validate_strings parse_file
	parse_obj parse_raw schema schema_json update_forward_refs validate`

var (
	files      = names.Style{Join: "_", Plain: true, Fold: true, Empty: "tool", Reserved: names.Set(strings.ToLower(keywords) + " con prn aux nul")}
	parameters = names.Style{Join: "_", Empty: "value", Reserved: names.Set(keywords)}
	members    = names.Style{Join: "_", Empty: "value", Reserved: names.Set(keywords + " " + modelNames)}
	classes    = names.Style{Capital: true, First: true, Empty: "Value", Reserved: names.Set("False None True Any Literal Client AsyncClient Field Model Omit ToolResult TypeAdapter TypeAliasType UUID")}
)

// Common returns the files that all services share.
func Common() []output.Unit {
	return []output.Unit{
		{Dir: "python", Open: true, Files: []output.File{{Path: "pyproject.toml", Data: []byte(project)}, {Path: "README.md", Data: []byte(readme)}}},
		{Dir: "python/" + Package, Open: true, Files: []output.File{{Path: "py.typed"}, {Path: "runtime.py", Data: runtime}, {Path: "__init__.py", Data: initial()}}},
	}
}

// initial returns the module of the package, which exports what callers need of the runtime.
func initial() []byte {
	all := strings.Fields("OMIT AsyncClient CallTimeoutError Client ExecutionError InputRequiredError InternalError InvalidArgumentsError InvalidResultError Log " +
		"Progress RateLimitedError ServiceUnavailableError ToolError ToolNotFoundError ToolResult TransportError")
	var b strings.Builder
	b.WriteString("\"\"\"Clients of MCP tools. Written by dragoman generate, not for editing.\"\"\"\n\nfrom .runtime import (\n")
	for _, name := range all {
		fmt.Fprintf(&b, "    %s,\n", name)
	}
	b.WriteString(")\n\n__all__ = [\n")
	for _, name := range all {
		fmt.Fprintf(&b, "    %q,\n", name)
	}
	b.WriteString("]\n")
	return []byte(b.String())
}

// Modules returns the names of the modules of the services, which differ.
func Modules(services []string) []string { return files.Assign(services) }

// Functions returns the names of the modules and functions of a service's tools, in their order.
func Functions(s *generate.Service) []string { return s.Files(files) }

// Files returns the modules of a service.
func Files(s *generate.Service) []output.File {
	about := generate.FirstOf(s.Title, s.Name)
	first := fmt.Sprintf("%s\nfrom ..runtime import Service\n\nSERVICE = Service(%s, %s, %s, %s)\n", docstring("", "Tools of "+about+". Written by dragoman generate, not for editing."),
		quote(s.Name), quote(s.URL), quote(s.URLVariable), quote(s.TokenVariable))
	all := []output.File{{Path: "__init__.py", Data: []byte(first)}}
	for i, name := range Functions(s) {
		m := module{tool: s.Tools[i], function: name}
		all = append(all, output.File{Path: name + ".py", Data: m.source()})
	}
	return all
}

// module writes the module of a tool.
type module struct {
	tool     *generate.Tool
	function string
	named    map[*shape.Type]string
	imports  imports
	fields   []string // the names of the arguments
}

// imports are the names that a module uses of others.
type imports struct{ any, literal, alias, date, datetime, uuid, field, model, adapter bool }

func (m *module) source() []byte {
	t := m.tool
	arguments := t.Arguments.Named()
	if t.Arguments.Kind == shape.Object { // it is the function's parameters
		arguments = arguments[:len(arguments)-1]
	}
	types, texts := arguments, []string(nil)
	for _, one := range types {
		texts = append(texts, t.Name+" "+one.Label)
	}
	if t.Result != nil {
		for _, one := range t.Result.Named() {
			types, texts = append(types, one), append(texts, t.Name+" result "+strings.TrimPrefix(one.Label, "arguments"))
		}
	}
	m.named = make(map[*shape.Type]string, len(types))
	for i, name := range classes.Assign(texts) {
		m.named[types[i]] = name
	}
	m.fields = parameters.Assign(generate.FieldNames(t.Arguments))
	var body strings.Builder
	for _, one := range types {
		m.class(&body, one)
	}
	result, adapter := "Any", "NO_SCHEMA"
	if t.Result != nil {
		m.imports.adapter = true
		result, adapter = m.expression(t.Result), "RESULT"
		fmt.Fprintf(&body, "\n\nRESULT: TypeAdapter[%s] = TypeAdapter(%s)\n", result, result)
	} else {
		m.imports.any = true
	}
	m.functions(&body, result, adapter)
	var b strings.Builder
	b.WriteString(docstring("", generate.FirstOf(t.Title, t.Name)+". Written by dragoman generate, not for editing."))
	b.WriteString("\nfrom __future__ import annotations\n\n" + m.imports.text(adapter == "NO_SCHEMA", m.optional()))
	rest := body.String()
	if !strings.HasPrefix(rest, "\n\nclass ") && !strings.HasPrefix(rest, "\n\ndef ") {
		rest = rest[1:] // linters want two empty lines before these only
	}
	b.WriteString(rest)
	return []byte(b.String())
}

// optional reports whether an argument may be left out.
func (m *module) optional() bool {
	for _, f := range m.tool.Arguments.Fields {
		if !f.Required {
			return true
		}
	}
	return false
}

func (i *imports) text(noSchema, optional bool) string {
	var b strings.Builder
	from := func(module string, used ...any) {
		var all []string
		for n := 0; n < len(used); n += 2 {
			if used[n].(bool) {
				all = append(all, used[n+1].(string))
			}
		}
		if len(all) > 0 {
			fmt.Fprintf(&b, "from %s import %s\n", module, strings.Join(all, ", "))
		}
	}
	from("datetime", i.date, "date", i.datetime, "datetime")
	from("typing", i.any, "Any", i.literal, "Literal")
	from("uuid", i.uuid, "UUID")
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	from("pydantic", i.field, "Field", i.adapter, "TypeAdapter")
	from("typing_extensions", i.alias, "TypeAliasType")
	if i.field || i.adapter || i.alias {
		b.WriteString("\n")
	}
	from("..runtime", noSchema, "NO_SCHEMA", optional, "OMIT", true, "AsyncClient", true, "Client", i.model, "Model", optional, "Omit", true, "ToolResult")
	from(".", true, "SERVICE")
	return b.String()
}

// class writes a named type: an object as a model, another as an alias.
func (m *module) class(b *strings.Builder, t *shape.Type) {
	name := m.named[t]
	if t.Kind != shape.Object {
		m.imports.alias = true
		fmt.Fprintf(b, "\n\n%s = TypeAliasType(%s, %s)\n", name, quote(name), quote(m.unnamed(t)))
		return
	}
	m.imports.model = true
	fmt.Fprintf(b, "\n\nclass %s(Model):\n", name)
	b.WriteString(docstring("    ", generate.FirstOf(t.Description, t.Title, "An object.")))
	for i, field := range members.Assign(generate.FieldNames(t)) {
		f := &t.Fields[i]
		kind := m.expression(f.Type)
		var settings []string
		if !f.Required {
			if kind != "Any" && kind != "None" && !strings.HasSuffix(kind, "| None") {
				kind += " | None"
			}
			settings = append(settings, "default=None")
		}
		if field != f.Name {
			settings = append(settings, "validation_alias="+quote(f.Name), "serialization_alias="+quote(f.Name))
		}
		fmt.Fprintf(b, "\n    %s: %s", field, kind)
		switch {
		case len(settings) == 1 && !f.Required:
			b.WriteString(" = None")
		case len(settings) > 0:
			m.imports.field = true
			fmt.Fprintf(b, " = Field(%s)", strings.Join(settings, ", "))
		}
		b.WriteString("\n")
		if text := strings.Join(append([]string{f.Description}, generate.Notes(f)...), "\n"); strings.TrimSpace(text) != "" {
			b.WriteString(docstring("    ", text))
		}
	}
}

// functions writes the two functions of the tool.
func (m *module) functions(b *strings.Builder, result, adapter string) {
	t := m.tool
	extra := t.Arguments.Extra
	if t.Arguments.Kind == shape.Map {
		extra = t.Arguments.Items
	}
	for _, async := range []bool{false, true} {
		client, define, call, name := "Client", "def", "client.call", m.function
		if async {
			client, define, call, name = "AsyncClient", "async def", "await client.call", name+"_async"
		}
		fmt.Fprintf(b, "\n\n%s %s(\n    client: %s,\n    /,\n", define, name, client)
		if len(m.fields) > 0 {
			b.WriteString("    *,\n")
		}
		for _, required := range []bool{true, false} {
			for i, f := range t.Arguments.Fields {
				switch {
				case f.Required != required:
				case required:
					fmt.Fprintf(b, "    %s: %s,\n", m.fields[i], m.expression(f.Type))
				default:
					fmt.Fprintf(b, "    %s: %s | Omit = OMIT,\n", m.fields[i], m.expression(f.Type))
				}
			}
		}
		if extra != nil {
			fmt.Fprintf(b, "    **others: %s,\n", m.expression(extra))
		}
		fmt.Fprintf(b, ") -> ToolResult[%s]:\n%s", result, docstring("    ", m.documentation()))
		fmt.Fprintf(b, "    return %s(\n        SERVICE,\n        %s,\n        {", call, quote(t.Name))
		var sent []string
		if extra != nil {
			sent = append(sent, "**others")
		}
		for i, f := range t.Arguments.Fields {
			sent = append(sent, quote(f.Name)+": "+m.fields[i])
		}
		b.WriteString(strings.Join(sent, ", "))
		fmt.Fprintf(b, "},\n        %s,\n    )\n", adapter)
	}
}

// documentation is the text about the tool and its arguments.
func (m *module) documentation() string {
	t := m.tool
	text := generate.FirstOf(t.Description, t.Title, t.Name)
	if len(t.Arguments.Fields) == 0 {
		return text
	}
	text += "\n\nArgs:"
	for i, f := range t.Arguments.Fields {
		notes := append([]string{strings.TrimSpace(f.Description)}, generate.Notes(&t.Arguments.Fields[i])...)
		about := strings.ReplaceAll(strings.Join(notes, "; "), "\n", " ")
		text += "\n    " + m.fields[i] + ": " + strings.TrimPrefix(about, "; ")
	}
	return text
}
