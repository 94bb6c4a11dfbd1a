package modern

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") })

// annotated is a property with x-mcp-header.
type annotated struct {
	path   []string
	header string
	schema peer.Object
}

func (a annotated) String() string { return strings.Join(a.path, ".") }

// annotations returns the properties with x-mcp-header that properties alone lead to.
func annotations(schema any, path ...string) (found []annotated) {
	properties, _ := peer.Get(schema, "properties").(peer.Object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(peer.Object)
		at := append(slices.Clone(path), name)
		if header, has := property["x-mcp-header"]; has {
			text, _ := header.(string)
			found = append(found, annotated{at, text, property})
		}
		found = append(found, annotations(property, at...)...)
	}
	return found
}

// anywhere counts all x-mcp-header in a schema.
func anywhere(v any) (n int) {
	switch x := v.(type) {
	case peer.Object:
		for name, inner := range x {
			if name == "x-mcp-header" {
				n++
			}
			n += anywhere(inner)
		}
	case []any:
		for _, inner := range x {
			n += anywhere(inner)
		}
	}
	return n
}

// mirrored is a call of a tool that is safe to call, with a mirrored argument.
type mirrored struct {
	*rawClient
	tool   string
	at     annotated
	others []peer.Field // headers of further arguments
	params peer.Object
}

// mirror finds a tool for such a call. The trial is skipped if there is none.
func mirror(t *suite.Trial, kind string) mirrored {
	for _, tool := range t.Offer.Tools {
		name := peer.Text(tool, "name")
		if peer.Get(tool, "annotations", "readOnlyHint") != true && !strings.HasPrefix(name, "test_") {
			continue
		}
		m := mirrored{rawClient: newRawClient(t), tool: name}
		arguments := peer.Object{}
		for _, a := range annotations(tool["inputSchema"]) {
			if len(a.path) > 1 {
				continue
			}
			if m.at.header == "" && a.schema["type"] == kind && a.schema["enum"] == nil {
				m.at = a
			}
		}
		if m.at.header == "" {
			continue
		}
		arguments[m.at.path[0]] = value(m.at.schema)
		for _, r := range peer.List(tool, "inputSchema", "required") {
			other, _ := r.(string)
			if arguments[other] != nil {
				continue
			}
			property, _ := peer.Get(tool, "inputSchema", "properties", other).(peer.Object)
			arguments[other] = value(property)
			if header := peer.Text(property, "x-mcp-header"); header != "" {
				m.others = append(m.others, peer.Field{Name: "Mcp-Param-" + header, Value: strings.Trim(checkutil.Excerpt(arguments[other]), `"`)})
			}
		}
		m.params = peer.Object{"name": name, "arguments": arguments}
		return m
	}
	t.Skip("the server has no read-only tool with x-mcp-header on an argument of type %s", kind)
	return mirrored{}
}

// value returns a value that fits a simple schema.
func value(schema peer.Object) any {
	if list := peer.List(schema, "enum"); len(list) > 0 {
		return list[0]
	}
	switch schema["type"] {
	case "integer", "number":
		return 42
	case "boolean":
		return true
	case "object":
		return peer.Object{}
	case "array":
		return []any{}
	}
	return "eu west"
}

// call makes the call with a value of the header.
func (m mirrored) call(header string) reply {
	return m.send(peer.Field{Name: "Mcp-Param-" + m.at.header, Value: header})
}

func (m mirrored) send(more ...peer.Field) reply {
	fields := append([]peer.Field{{Name: "Mcp-Name", Value: m.tool}}, m.others...)
	return m.request("1", "tools/call", m.params, nil, append(fields, more...)...)
}

// paramsChecks are about arguments of tools that headers mirror.
func paramsChecks() []*suite.Check {
	const (
		page = pageHTTP + "Server Behavior for Custom Headers"
		why  = "Gateways route and limit by these headers: a call whose body says something else goes past them."
	)
	refused := func(id, title, statement, fix string, send func(m mirrored) reply) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: suite.Must, Faces: httpFace, Page: page, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				m := mirror(t, "string")
				m.refuse(send(m), 400, checkutil.HeaderMismatch)
			}}
	}
	taken := func(id, title, statement, fix, kind string, level suite.Level, send func(m mirrored) reply) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: level, Faces: httpFace, Page: page, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				m := mirror(t, kind)
				r := send(m)
				if r.message == nil {
					m.accept(r, "a result: the header is right")
				} else if code, message, _ := r.message.Error(); code == checkutil.HeaderMismatch {
					t.Fail("no complaint of the header: it is right", "the error %d: %s", code, message)
				}
			}}
	}
	return []*suite.Check{
		annotationsCheck(),
		refused("params.missing", "Refuses a call whose mirrored argument is not in the head", "An argument with x-mcp-header that is in the body but not in the head must be refused with 400 and -32020.",
			"For each annotated property that is in arguments and not null, demand the header Mcp-Param-{name}. Answer 400 and -32020 if it is missing.",
			func(m mirrored) reply { return m.send() }),
		refused("params.mismatch", "Refuses a call whose mirrored argument differs from the head", "A header that does not match the argument must be refused with 400 and -32020.",
			"Compare each Mcp-Param header, decoded, with the argument at its exact path. Answer 400 and -32020 where they differ.",
			func(m mirrored) reply { return m.call("something else") }),
		refused("params.bad-base64", "Refuses a mirrored argument that cannot be decoded", "A recognised Mcp-Param header with invalid characters must be refused.",
			"Decode =?base64?…?= strictly, and answer 400 and -32020 if that fails. Never compare such a value as it stands.",
			func(m mirrored) reply { return m.call("=?base64?%%%?=") }),
		taken("params.plain", "Accepts a mirrored argument in plain text", "A header that matches the argument is right.",
			"Read the header without case of its name and compare it with the argument as text. Test with a tool that has x-mcp-header.", "string", suite.Must,
			func(m mirrored) reply { return m.call("eu west") }),
		taken("params.encoded", "Accepts a mirrored argument in Base64", "Servers must decode an encoded Mcp-Param header before comparing it.",
			"If the value begins with =?base64? and ends with ?=, decode what is between. Then compare with the argument.", "string", suite.Must,
			func(m mirrored) reply { return m.call(encoded("eu west")) }),
		taken("params.number", "Compares whole numbers as numbers", "Integers should be compared numerically: 42.0 equals 42.",
			"Parse header and argument as numbers before comparing them, if the property is an integer.", "integer", suite.Should,
			func(m mirrored) reply { return m.call("42.0") }),
		absentParam(),
	}
}

func absentParam() *suite.Check {
	return &suite.Check{
		ID: "params.absent", Title: "Expects no header for an argument that is not there", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Server Behavior for Custom Headers",
		Statement: "For an argument that is null or absent the server must not expect the header.",
		Why:       "Clients leave the header out then, as they must, and every such call would be refused.",
		Fix:       "Look at the argument first: demand Mcp-Param-{name} only if it is there and not null.",
		Run: func(t *suite.Trial) {
			m := mirror(t, "integer")
			arguments, _ := m.params["arguments"].(peer.Object)
			delete(arguments, m.at.path[0])
			if slices.Contains(peer.List(t.Offer.Tool(m.tool), "inputSchema", "required"), any(m.at.path[0])) {
				t.Skip("the argument %s is required", m.at)
			}
			if r := m.send(); r.message != nil {
				if code, message, _ := r.message.Error(); code == checkutil.HeaderMismatch {
					t.Fail("no header is expected for the absent argument "+m.at.String(), "the error %d: %s", code, message)
				}
			}
		},
	}
}

func annotationsCheck() *suite.Check {
	return &suite.Check{
		ID: "params.annotations", Title: "Annotates arguments so that clients can mirror them", Level: suite.Must, Faces: faces, Page: "server/tools §x-mcp-header",
		Needs:     []suite.Need{suite.NeedsTools},
		Statement: "x-mcp-header must be a field name, unique in the tool without regard to case, on a string, integer or boolean that properties alone lead to.",
		Why:       "HTTP clients drop a tool that breaks one of these rules: it cannot be called.",
		Fix:       "Correct or remove the annotation that is named here. Move the argument to the top level of the schema where it stands under items, anyOf or $ref.",
		Run: func(t *suite.Trial) {
			c := t.Open(nil)
			for _, p := range pagesOf(t, c, "tools/list") {
				for _, tool := range peer.List(p, "tools") {
					judgeAnnotations(t, tool)
				}
			}
		},
	}
}

func judgeAnnotations(t *suite.Trial, tool any) {
	name, seen := peer.Text(tool, "name"), map[string]bool{}
	found := annotations(peer.Get(tool, "inputSchema"))
	for _, a := range found {
		kind := checkutil.Excerpt(a.schema["type"])
		key := strings.ToLower(a.header)
		switch {
		case !fieldName().MatchString(a.header):
			t.Fail("a field name", "x-mcp-header %q on %s of %s", a.header, a, name)
		case seen[key]:
			t.Fail("a name of its own for each header of a tool", "x-mcp-header %q twice in %s", a.header, name)
		case strings.Contains(kind, `"number"`), strings.Contains(kind, `"object"`), strings.Contains(kind, `"array"`):
			t.Fail("x-mcp-header only on string, integer and boolean", "type %s of %s in %s", kind, a, name)
		}
		seen[key] = true
	}
	if n := anywhere(peer.Get(tool, "inputSchema")); n > len(found) {
		t.Fail("x-mcp-header only where properties alone lead to", "%d elsewhere in %s", n-len(found), name)
	}
}
