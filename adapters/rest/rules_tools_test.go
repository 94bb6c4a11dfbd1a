package rest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-json"

	"dragoman/proxy"
)

// odd is a list of tools of servers that do not know ToolSchema.
const odd = `{"tools":[{"name":"query_callers","description":"Find","inputSchema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}},` +
	`{"name":"query_callers","description":"twice"},{"name":"query\u005fcallers"},{"name":"tools/list-all.v2 \u00e4","title":"A title","inputSchema":{}},` +
	`{"name":"2","description":"","inputSchema":true},{"name":"3","description":null,"inputSchema":{"type":["object","null"]}},` +
	`{"name":"4","description":5,"title":6,"inputSchema":{"type":"string","properties":7,"required":["y"]}},{"name":"5","inputSchema":{"properties":{"z":{}},"$ref":"#/$defs/q","$defs":{"q":{}}}}]}`

// toolShown is a ToolSchema in an answer.
type toolShown struct {
	Name, Description *string
	Schema            map[string]json.RawMessage `json:"input_schema"`
}

func (r *rig) shown() []toolShown {
	r.t.Helper()
	a := r.ask("GET", "/tools", "")
	var tools []toolShown
	if err := json.Unmarshal(a.m["tools"], &tools); err != nil || a.status != 200 {
		r.t.Fatalf("%v: %d %s", err, a.status, a.body)
	}
	return tools
}

// Seed 000, ToolSchema: what GET /tools shows of each tool, whatever the server gives.
func TestRulesToolSchema(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/list", odd)
	tools := r.shown()
	each := func(rule string, holds func(s *toolShown) bool) {
		t.Helper()
		t.Run(rule, func(t *testing.T) {
			for i := range tools {
				if !holds(&tools[i]) {
					t.Errorf("%d: %+v", i, tools[i])
				}
			}
		})
	}
	t.Run("rule 3.1 name is a text of which there is one", func(t *testing.T) {
		var names []string
		for _, s := range tools {
			names = append(names, *s.Name)
		}
		if want := []string{"query_callers", "tools/list-all.v2 ä", "2", "3", "4", "5"}; !slices.Equal(names, want) {
			t.Errorf("%q", names)
		}
	})
	each("rule 3.2 description is a text", func(s *toolShown) bool { return s.Description != nil && utf8.ValidString(*s.Description) })
	each("rule 3.3 input_schema is an object", func(s *toolShown) bool { return s.Schema != nil })
	t.Run("rule 3.4 a name that is no Python identifier passes as it is", func(t *testing.T) {
		r.s.result("tools/call", `{}`)
		if a := r.ask("POST", "/call-tool", `{"tool":"tools/list-all.v2 ä","arguments":{}}`); a.status != 200 {
			t.Error(a.body)
		}
		all := r.s.all("tools/call")
		if got := string(all[len(all)-1].Msg.Of(all[len(all)-1].Msg.Params)); !strings.HasPrefix(got, `{"name":"tools/list-all.v2 ä",`) {
			t.Error(got)
		}
	})
	each("rule 3.5 description is not empty", func(s *toolShown) bool { return strings.TrimSpace(*s.Description) != "" })
	t.Run("rule 3.6 input_schema is JSON Schema, of draft 7 where it says so", func(t *testing.T) { ruleDrafts(t) })
	each("rule 3.7 input_schema.type is object", func(s *toolShown) bool { return string(s.Schema["type"]) == `"object"` })
	each("rule 3.8 input_schema.properties is there, perhaps empty", func(s *toolShown) bool { return s.Schema["properties"] != nil && s.Schema["properties"][0] == '{' })
	t.Run("rule 3.9 required and all else of the schema stay", func(t *testing.T) {
		got := r.ask("GET", "/tools", "").body
		for _, part := range []string{`"input_schema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`, `"required":["y"]`, `"$ref":"#/$defs/q","$defs":{"q":{}}`} {
			if !strings.Contains(got, part) {
				t.Errorf("no %s in %s", part, got)
			}
		}
		if string(tools[0].Schema["required"]) != `["x"]` || tools[1].Schema["required"] != nil {
			t.Errorf("%+v", tools)
		}
	})
}

// ruleDrafts checks the same arguments against a keyword of each draft.
func ruleDrafts(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{}`)
	n := 0
	f := func(schema string, status int) {
		t.Helper()
		n++ // a new list for each
		r.s.result("tools/list", `{"tools":[{"name":"a","inputSchema":`+schema+`}]}`)
		if a := r.ask("POST", fmt.Sprintf("/servers/s%d/tools/a", n), `{"p":[1,"x"],"q":1}`); a.status != status {
			t.Errorf("%s: %d %s", schema, a.status, a.body)
		}
	}
	const seven, newest = `{"$schema":"http://json-schema.org/draft-07/schema#",`, `{"$schema":"https://json-schema.org/draft/2020-12/schema",`
	f(seven+`"dependencies":{"q":["r"]}}`, 400)
	f(seven+`"properties":{"p":{"items":[{},{"type":"number"}]}}}`, 400)
	f(seven+`"properties":{"p":{"prefixItems":[{},{"type":"number"}]}}}`, 200) // unknown in draft 7
	f(newest+`"properties":{"p":{"prefixItems":[{},{"type":"number"}]}}}`, 400)
	f(newest+`"dependentRequired":{"q":["r"]}}`, 400)
	f(`{"dependentRequired":{"q":["r"]}}`, 400) // 2020-12 where nothing is said
	f(`{"type":"nonsense"}`, 200)               // invalid: refuses nothing
}

// Seed 000, ToolRequest: what POST /call-tool accepts, and what reaches the server.
func TestRulesToolRequest(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"content":[]}`)
	f := func(t *testing.T, status int, code, part, body string) *answered {
		t.Helper()
		before := len(r.s.all("tools/call"))
		a := r.ask("POST", "/call-tool", body)
		if got, _ := a.text("code"); a.status != status || got != code || !strings.Contains(a.body, part) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		if calls := len(r.s.all("tools/call")) - before; (calls == 1) != (status == 200) {
			t.Errorf("%s: %d calls at the server", body, calls)
		}
		return a
	}
	const no = "INVALID_ARGUMENTS"
	t.Run("rule 5.1 tool is a text that must be there", func(t *testing.T) {
		f(t, 400, no, `member \"tool\" is missing`, `{"arguments":{}}`)
		f(t, 400, no, `member \"tool\" is missing`, `{"tool":null,"arguments":{}}`)
		f(t, 400, no, `member \"tool\" must be a string`, `{"tool":["plain"],"arguments":{}}`)
		f(t, 200, "", "", `{"tool":"plain","arguments":{}}`)
		f(t, 200, "", "", `{"name":"plain","arguments":{}}`) // the other spelling
	})
	t.Run("rule 5.2 arguments is an object that must be there", func(t *testing.T) {
		f(t, 400, no, `member \"arguments\" is missing`, `{"tool":"plain"}`)
		f(t, 400, no, `member \"arguments\" is missing`, `{"tool":"plain","arguments":null}`)
		for _, args := range []string{`[]`, `"{}"`, `7`, `true`} {
			f(t, 400, no, `member \"arguments\" must be an object`, `{"tool":"plain","arguments":`+args+`}`)
		}
		f(t, 200, "", "", `{"tool":"plain","arguments":{}}`)
	})
	t.Run("rule 5.3 request_id may be left out", func(t *testing.T) {
		f(t, 200, "", "", `{"tool":"plain","arguments":{}}`)
		f(t, 200, "", "", `{"tool":"plain","arguments":{},"request_id":null}`)
		f(t, 200, "", callerID, `{"tool":"plain","arguments":{},"request_id":"`+callerID+`"}`)
	})
	t.Run("rule 5.4 tool is one of GET /tools", func(t *testing.T) {
		for _, s := range r.shown() {
			f(t, 200, "", "", fmt.Sprintf(`{"tool":%q,"arguments":{"function_name":"f"}}`, *s.Name))
		}
		for _, name := range []string{"none", "Plain", "plain ", ""} {
			f(t, 404, "TOOL_NOT_FOUND", "Tool not found: "+name, fmt.Sprintf(`{"tool":%q,"arguments":{}}`, name))
		}
	})
	t.Run("rule 5.5 arguments fit the tool's input_schema", func(t *testing.T) {
		q := func(args string) string { return `{"tool":"query_callers","arguments":` + args + `}` }
		f(t, 200, "", "", q(`{"function_name":"f"}`))
		f(t, 200, "", "", q(`{"function_name":"f","max_depth":1}`))
		f(t, 200, "", "", q(`{"function_name":"f","max_depth":10}`))
		f(t, 400, no, `"path":"","rule":"required"`, q(`{}`))
		f(t, 400, no, `"path":"/function_name","rule":"type"`, q(`{"function_name":7}`))
		f(t, 400, no, `"path":"/max_depth","rule":"minimum"`, q(`{"function_name":"f","max_depth":0}`))
		f(t, 400, no, `"path":"/max_depth","rule":"maximum"`, q(`{"function_name":"f","max_depth":11}`))
		f(t, 400, no, `"path":"/max_depth","rule":"type"`, q(`{"function_name":"f","max_depth":1.5}`))
	})
	t.Run("rule 5.6 request_id is a UUID of version 4, else one is made", func(t *testing.T) {
		for _, id := range []string{`""`, `"1"`, `7`, `{}`, `"550e8400-e29b-11d4-a716-446655440000"`, `"550e8400-e29b-41d4-c716-446655440000"`, `"550e8400e29b41d4a716446655440000"`,
			`"{550e8400-e29b-41d4-a716-446655440000}"`, `"00000000-0000-0000-0000-000000000000"`} {
			a := f(t, 400, no, `member \"request_id\" must be a UUID of version 4`, `{"tool":"plain","arguments":{},"request_id":`+id+`}`)
			if made, _ := a.text("request_id"); !uuid4.MatchString(made) {
				t.Error(a.body)
			}
		}
		f(t, 200, "", callerID, `{"tool":"plain","arguments":{},"request_id":"`+callerID+`"}`)
		f(t, 200, "", strings.ToUpper(callerID), `{"tool":"plain","arguments":{},"request_id":"`+strings.ToUpper(callerID)+`"}`)
	})
}

// Seed 000, ToolsResponse: GET /tools describes the service, without an envelope.
func TestRulesToolsResponse(t *testing.T) {
	r := newRig(t, nil)
	answer := r.ask("GET", "/tools", "")
	t.Run("rule 6.0 it is bare, with its members and no others", func(t *testing.T) {
		if !slices.Equal(answer.keys, []string{"service", "version", "tools"}) || answer.status != 200 {
			t.Error(answer.status, answer.body)
		}
	})
	t.Run("rule 6.1 service is a text", func(t *testing.T) {
		if s, ok := answer.text("service"); !ok || s == "" {
			t.Error(answer.body)
		}
	})
	t.Run("rule 6.2 version is a text", func(t *testing.T) {
		if s, ok := answer.text("version"); !ok || s == "" {
			t.Error(answer.body)
		}
	})
	t.Run("rule 6.3 tools is a list of ToolSchema", func(t *testing.T) {
		var tools []map[string]json.RawMessage
		if err := json.Unmarshal(answer.m["tools"], &tools); err != nil || len(tools) != 2 {
			t.Fatal(err, answer.body)
		}
		for _, s := range tools {
			if len(s) != 3 || s["name"] == nil || s["description"] == nil || s["input_schema"] == nil {
				t.Errorf("%s", s)
			}
		}
	})
	t.Run("rule 6.4 service is the configured name", func(t *testing.T) {
		for _, path := range []string{"/tools", "/servers/x/tools"} {
			other := newRig(t, func(o *Options) { o.Service = "another-one" })
			if s, _ := other.ask("GET", path, "").text("service"); s != "another-one" {
				t.Errorf("%s: %s", path, s)
			}
		}
	})
	t.Run("rule 6.5 version is semantic", func(t *testing.T) {
		for given, want := range map[string]string{"0.0.24": "0.0.24", "1.2.3-rc.1+5": "1.2.3-rc.1+5", "1.2": "0.0.0", "v1.2.3": "0.0.0", "0.0.24.dev1": "0.0.0", "": "0.0.0", "latest": "0.0.0"} {
			other := newRig(t, nil)
			other.s.result("tools/list", `{"tools":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"`+given+`"}}}`)
			if got, _ := other.ask("GET", "/tools", "").text("version"); got != want {
				t.Errorf("%q: %q, want %q", given, got, want)
			}
		}
	})
	t.Run("rule 6.6 tools may be empty", func(t *testing.T) {
		other := newRig(t, nil)
		other.s.result("tools/list", `{"tools":[]}`)
		if a := other.ask("GET", "/tools", ""); string(a.m["tools"]) != "[]" {
			t.Error(a.body)
		}
		other = newRig(t, nil)
		other.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
			return failed(ex, `{"code":-32601,"message":"unknown"}`), nil
		})
		if a := other.ask("GET", "/tools", ""); string(a.m["tools"]) != "[]" {
			t.Error(a.body)
		}
	})
}
