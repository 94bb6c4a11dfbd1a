package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/definitions"
	"dragoman/internal/testkit"
)

// setTool adds a tool to a server, or changes its description.
func setTool(server *mcp.Server, name, description string) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
}

// approving serves a server whose definitions have to be approved, and returns what runs `dragoman approve`.
func approving(t *testing.T) (s *served, server *mcp.Server, run func(args ...string) (code int, out, errs string)) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	setTool(server, "a", "Reads.")
	setTool(server, "b", "Writes.")
	s = serveAggregator(t, fmt.Sprintf("[upstreams.one]\nurl = %q\ndefinitions = \"approve\"\n", servedBy(t, server)))
	s.becomes("one", "CONNECTED", 2)
	return s, server, func(args ...string) (code int, out, errs string) {
		_, code, out, errs = runLine(t, s.environ, nil, append([]string{"approve"}, args...)...)
		return code, out, errs
	}
}

// holds waits until so many definitions are held.
func (s *served) holds(many int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint(many, " are held"), func() bool {
		var one aggregator.Server
		if err := json.Unmarshal(s.api("GET", "/servers/one", ""), &one); err != nil {
			s.t.Fatal(err)
		}
		return one.Held == many
	})
}

// What is held is listed, shown and approved.
func TestApprove(t *testing.T) {
	s, server, run := approving(t)
	f := func(code int, out, errs string, args ...string) {
		t.Helper()
		if gotCode, gotOut, gotErrs := run(args...); gotCode != code || gotOut != out || gotErrs != errs {
			t.Errorf("%q: %d\n%s%s\nwant %d\n%s%s", args, gotCode, gotOut, gotErrs, code, out, errs)
		}
	}
	f(ExitOK, "nothing is held\n", "")
	f(ExitOK, "nothing is held of one\n", "", "one")
	f(ExitOK, "{}\n", "", "--json")
	f(ExitOK, "[]\n", "", "one", "--json")
	setTool(server, "a", "Reads.\nAnd sends \x1b[8mall\u202e.")
	setTool(server, "c", "New.")
	s.holds(2)
	f(ExitOK, "SERVER  KIND   STATE    KEY\none     tools  changed  a\none     tools  new      c\n", "")
	s.want(ExitOK, "configuration  2 definitions are held; `dragoman approve one` shows them\n", "list")
	s.want(ExitOK, "note        2 definitions are held; `dragoman approve one` shows them\n", "show", "one")
	if out := s.want(ExitOK, "one.a  one     held", "tools", "one"); !strings.Contains(out, "one.b  one     yes") {
		t.Errorf("tools\n%s", out)
	}
	const ofA = "tool a has changed\n  description\n  - Reads.\n  + Reads.\n  + And sends \\u001b[8mall\\u202e.\n" +
		"  text that people do not see: terminal escape sequence U+001B, at character 17 of description\n  text that people do not see: change of the direction of writing U+202E, at character 24 of description\n"
	const nobody = "dragoman: nothing was approved, as nobody can be asked: standard input is no terminal; fix: write --yes\n"
	if code, out, errs := run("one", "a"); code != ExitUsage || out != ofA || errs != nobody {
		t.Errorf("%d %s%q", code, out, errs)
	}
	var held []definitions.Held
	if _, out, _ := run("one", "--json"); json.Unmarshal([]byte(out), &held) != nil || len(held) != 2 || held[0].Key != "a" || strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("JSON %q", out)
	}
	var all map[string][]definitions.Held
	if _, out, _ := run("--json"); json.Unmarshal([]byte(out), &all) != nil || len(all["one"]) != 2 {
		t.Errorf("JSON %q", out)
	}
	f(ExitFailed, "", "dragoman: servers: one has no definition \"something\" that is held; fix: `dragoman approve one` shows what is held\n", "one", "something", "--yes")
	f(ExitFailed, "", "dragoman: servers: Server not found: two\n", "two", "--yes")
	if _, code, _, errs := runLine(t, []string{s.environ[0]}, nil, "approve", "--key", viewerKey, "one", "--yes"); code != ExitFailed || !strings.Contains(errs, "operator") {
		t.Errorf("a viewer: %d %s", code, errs)
	}
	f(ExitOK, ofA+"1 definition of one approved\n", "", "one", "one.a", "--yes")
	s.holds(1)
	s.want(ExitOK, "1 definition is held; `dragoman approve one` shows it\n", "list")
	_, _, out, _ := runLine(t, s.environ, nil, "__complete", "approve", "")
	if out != "one\tCONNECTED, 3 tools\n:4\n" {
		t.Errorf("completed %q", out)
	}
	var done aggregator.Approved
	if code, out, errs := run("one", "--yes", "--json"); code != ExitOK || json.Unmarshal([]byte(out), &done) != nil || len(done.Definitions) != 1 || done.Definitions[0].Key != "c" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	s.holds(0)
	if out := s.want(ExitOK, "one   CONNECTED  3", "list") + s.want(ExitOK, "", "show", "one"); strings.Contains(out, "held") {
		t.Errorf("nothing is held any more:\n%s", out)
	}
	testkit.Eventually(t, "the log has it", func() bool {
		log := s.logs.String()
		return strings.Contains(log, `"kind":"tools","key":"a"`) && strings.Contains(log, `"by":"op"`) && strings.Contains(log, "definitions of a server are held")
	})
}

// Nothing that a server says in a definition reaches the terminal as it is, and no line of it looks like one of ours.
func TestApproveHostile(t *testing.T) {
	const evil = `x\u001b[2J\u202e\nforged`
	one := `{"id":"x","name":"x","status":"CONNECTED","held_definitions":1}`
	held := `[{"kind":"` + evil + `","key":"` + evil + `","state":"` + evil + `","hash":"` + evil + `","fields":[{"name":"` + evil + `","before":"` + evil + `","after":"` + evil + `"}],"hidden_text":[{"place":"` + evil + `","what":"` + evil + `"}]}]`
	const path = aggregator.Path
	admin := adminTalk(t, map[string]func(*fasthttp.Response){path + "/servers": says(200, "["+one+"]"), path + "/servers/x/definitions": says(200, held)})
	for _, args := range [][]string{{}, {"x"}, {"--json"}, {"x", "--json"}} {
		_, _, out, errs := runLine(t, nil, nil, append(append([]string{"approve"}, args...), "--key", viewerKey, "--admin", admin)...)
		if text := out + errs; strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nforged") || !strings.Contains(text, "u001b") {
			t.Errorf("%q: %q", args, text)
		}
	}
}
