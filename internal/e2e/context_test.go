//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// searching is a configuration of threeServers whose tools are found, not listed.
func searching(t *testing.T, more string) string {
	sorting := "classification.mode = \"off\"\n" // no client is told of other lists at any moment
	if strings.Contains(more, "[categories.") {
		sorting = ""
	}
	return sorting + "context.mode = \"search\"\ncontext.always = [\"a.ech*\"]\n" + more + threeServers(t)
}

// finder sends requests of one kind of client. call calls a tool and answers its questions; params are those of tools/call without braces.
type finder struct {
	list func() string
	call func(tool, arguments string) string
}

// finders returns the kinds of clients at a rig, and one on stdio with the same configuration.
func finders(t *testing.T, r *rig, toml string) map[string]finder {
	t.Helper()
	post := func(method, name, params string) string {
		return r.must("POST", "/mcp", strings.Replace(modernAsk(method, params), `/clientCapabilities":{}`, `/clientCapabilities":{"elicitation":{"form":{}}}`, 1), modernHeaders(method, name)...).body
	}
	all := map[string]finder{
		"modern": {func() string { return post("tools/list", "", "") }, func(tool, arguments string) string {
			params := fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
			got := post("tools/call", tool, params)
			if strings.Contains(got, `"inputRequests"`) {
				got = post("tools/call", tool, params+`,"inputResponses":`+answersTo(got)+stateIn(got, "requestState"))
			}
			return got
		}},
		"REST": {func() string { return r.must("GET", "/tools", "").body }, func(tool, arguments string) string {
			body := fmt.Sprintf(`"tool":%q,"arguments":%s`, tool, arguments)
			got := r.must("POST", "/call-tool", "{"+body+"}", "Content-Type", jsonType).body
			if strings.Contains(got, `"input_requests"`) {
				got = r.must("POST", "/call-tool", "{"+body+`,"input_responses":`+answersTo(got)+stateIn(got, "request_state")+"}", "Content-Type", jsonType).body
			}
			return got
		}},
	}
	for name, client := range map[string]testClient{"legacy": newHTTPTestClient(r), "HTTP+SSE": newSSEChannelClient(r), "stdio": newPipeClient(t, startStdio(t, toml))} {
		client.open("2025-11-25", `{"elicitation":{}}`)
		n := 0
		request := func(method, params string) string {
			n++
			id := fmt.Sprint(n)
			client.send(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
			for {
				got := client.receives(id)
				asked := regexp.MustCompile(`"method":"elicitation/create"`).MatchString(got)
				if !asked {
					return got
				}
				question := parsed(got)
				client.send("answer", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":"Ada","name":"Ada"}}}`, question.ID))
			}
		}
		all[name] = finder{func() string { return request("tools/list", "") }, func(tool, arguments string) string {
			return request("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
		}}
	}
	return all
}

// stateIn returns the member with the state of a result that asks, with a comma before it; empty: it has none.
func stateIn(result, member string) string {
	return regexp.MustCompile(`,"` + member + `":"[^"]*"`).FindString(result)
}

// answersTo answers the questions of a modern result.
func answersTo(result string) string {
	var all []string
	for _, key := range regexp.MustCompile(`"([^"]+)":\{"method":"elicitation/create"`).FindAllStringSubmatch(result, -1) {
		all = append(all, fmt.Sprintf(`%q:{"action":"accept","content":{"answer":"Ada","name":"Ada"}}`, key[1]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Every kind of client finds a tool, reads its definition, and calls it through call_tool, with a question in the middle. A tool that is not
// listed can be called by its own name as well.
func TestFindAndCall(t *testing.T) {
	t.Parallel()
	toml := searching(t, "")
	r := startRig(t, toml, true)
	for kind, c := range finders(t, r, toml) {
		if got, want := toolsOf(t, c.list()), []string{"a.echo", "call_tool", "describe_tools", "find_tools"}; !slices.Equal(got, want) {
			t.Errorf("%s: listed %v, want %v", kind, got, want)
		}
		found := c.call("find_tools", `{"query":"add two numbers","limit":3}`)
		for _, want := range []string{`a.add`, `b.add`, `c.add`, `original_name`, `inputSchema`} {
			if !strings.Contains(found, want) {
				t.Errorf("%s: find_tools lacks %s: %s", kind, want, found)
			}
		}
		if got := c.call("find_tools", `{"query":"add two numbers","server":"b"}`); !strings.Contains(got, "b.add") || strings.Contains(got, "a.add") {
			t.Errorf("%s: find_tools of b: %s", kind, got)
		}
		if got := c.call("describe_tools", `{"names":["c.ask_user","c.ask_usr"]}`); !strings.Contains(got, "question") || !strings.Contains(got, "nearest") {
			t.Errorf("%s: describe_tools: %s", kind, got)
		}
		for _, server := range []string{"a", "b", "c"} {
			if got := c.call("call_tool", `{"name":"`+server+`.ask_user","arguments":{"question":"Who?"}}`); !strings.Contains(got, "accept Ada") {
				t.Errorf("%s: call_tool of %s.ask_user: %s", kind, server, got)
			}
		}
		if got := c.call("call_tool", `{"name":"b.add","arguments":"{\"a\":1,\"b\":2}"}`); !strings.Contains(got, "3") || strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: arguments as text: %s", kind, got)
		}
		if got := c.call("b.add", `{"a":1,"b":2}`); !strings.Contains(got, "3") || strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: by its own name: %s", kind, got)
		}
		for arguments, want := range map[string]string{`{}`: "arguments must have", `{"name":7}`: "must be a string", `{"name":"find_tools"}`: "by itself", `{"name":"a.add","arguments":[]}`: "must be an object"} {
			if got := c.call("call_tool", arguments); !strings.Contains(got, want) && !strings.Contains(got, "INVALID_ARGUMENTS") {
				t.Errorf("%s: call_tool with %s: %s", kind, arguments, got)
			}
		}
		if got := c.call("call_tool", `{"name":"a.nothing"}`); !strings.Contains(got, "nothing") || strings.Contains(got, "call_tool") {
			t.Errorf("%s: a tool that there is not: %s", kind, got)
		}
	}
}

// call_read_only_tool takes only what a trusted server declares to change nothing.
func TestReadOnlyCalls(t *testing.T) {
	t.Parallel()
	r := startRig(t, strings.Replace(searching(t, ""), "[upstreams.a]\n", "[upstreams.a]\ntrusted = true\n", 1), true)
	call := func(tool string) string {
		return r.must("POST", "/call-tool", fmt.Sprintf(`{"tool":"call_read_only_tool","arguments":{"name":%q,"arguments":{"message":"hi"}}}`, tool), "Content-Type", jsonType).body
	}
	if got := call("a.echo"); !strings.Contains(got, "Echo: hi") {
		t.Errorf("a read-only tool of a trusted server: %s", got)
	}
	for _, tool := range []string{"b.echo", "a.write_note", "a.nothing"} {
		if got := call(tool); !strings.Contains(got, "use call_tool") {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

// A client is told what is behind by the description of find_tools, and learns what a list spares it.
func TestContextOfClients(t *testing.T) {
	t.Parallel()
	r := startRig(t, "context.tools = 5\n[contexts.curious]\nclients = [\"cur*\"]\nmode = \"search\"\n[contexts.small]\npaths = [\"/groups/some\"]\nmode = \"auto\"\n"+threeServers(t), true)
	list := func(path, client string) string {
		return r.must("POST", path+"/mcp", strings.Replace(modernAsk("tools/list", ""), `"name":"c"`, fmt.Sprintf(`"name":%q`, client), 1), modernHeaders("tools/list", "")...).body
	}
	if got := list("", "other"); len(toolsOf(t, got)) < 20 || strings.Contains(got, "find_tools") {
		t.Errorf("another client: %s", got)
	}
	got := list("", "curious")
	if names := toolsOf(t, got); !slices.Equal(names, []string{"call_tool", "describe_tools", "find_tools"}) {
		t.Errorf("a client of search: %v", names)
	}
	mentions(t, got, `"io.dragoman/context":{"mode":"search"`, `"sparedTokensEstimate"`, "of 3 servers", "Servers: a (", `"cacheScope":"private"`)
	if got := toolsOf(t, list("/groups/some", "other")); !slices.Equal(got, []string{"a__echo", "b__echo"}) {
		t.Errorf("a group with few tools: %v", got)
	}
}
