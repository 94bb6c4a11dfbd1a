package everything

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/conformance/everything/calls"
	"dragoman/proxy"
)

const allCaps = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// asked is a result that asks.
type asked struct {
	ResultType    string
	InputRequests map[string]json.RawMessage
	RequestState  string
	Content       []struct{ Text string }
	IsError       bool
}

// modern sends a request of a modern client with all capabilities or, if not empty, those in caps.
func modern(t *testing.T, s *Server, method, members, caps string) (asked, response) {
	t.Helper()
	return modernAs(t, s, "", method, members, caps)
}

func modernAs(t *testing.T, s *Server, principal, method, members, caps string) (asked, response) {
	t.Helper()
	if caps == "" {
		caps = allCaps
	}
	ex := exchange(t, method, members, "")
	ex.Client.Caps, ex.Caller.Principal = []byte(caps), principal
	_, resp := do(t, s, ex)
	var a asked
	if resp.Error == nil {
		if err := json.Unmarshal(resp.Result, &a); err != nil {
			t.Fatal(err)
		}
	}
	return a, resp
}

func (a asked) text() string {
	if len(a.Content) == 0 {
		return ""
	}
	return a.Content[0].Text
}

const (
	saysAda  = `{"action":"accept","content":{"name":"Ada"}}`
	saysPoem = `{"role":"assistant","model":"m","content":{"type":"text","text":"a poem"}}`
	hasRoots = `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`
)

func TestAskModern(t *testing.T) {
	s := newServer(t, Options{})
	f := func(tool, args, requests string, sealed bool, responses, text string) {
		t.Helper()
		call := `"name":"` + tool + `","arguments":` + args
		a, resp := modern(t, s, "tools/call", call, "")
		if a.ResultType != "input_required" || (a.RequestState != "") != sealed || !strings.Contains(string(resp.Result), "serverInfo") {
			t.Fatalf("%s: %s, %v", tool, resp.Result, resp.Error)
		}
		got, _ := json.Marshal(a.InputRequests)
		same(t, tool, got, requests)
		call += `,"inputResponses":` + responses
		if sealed {
			call += `,"requestState":"` + a.RequestState + `"`
		}
		if a, resp = modern(t, s, "tools/call", call, ""); a.ResultType != "complete" || a.text() != text || a.IsError {
			t.Errorf("%s: %s, %v; want %s", tool, resp.Result, resp.Error, text)
		}
	}
	const name = `{"method":"elicitation/create","params":{"mode":"form","message":"What is your name?","requestedSchema":` +
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	sample := func(prompt, tokens string) string {
		return `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"` + prompt + `"}}],"maxTokens":` + tokens + `}}`
	}
	const roots = `{"method":"roots/list","params":{}}`
	f("ask_user", `{"question":"Who \"are\" you?"}`, `{"user":{"method":"elicitation/create","params":{"mode":"form","message":"Who \"are\" you?",`+
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}`, false, `{"user":`+saysAda+`}`, "accept Ada")
	f("ask_user", `{"question":"?"}`, `{"user":`+strings.Replace(name, "What is your name?", "?", 1)+`}`, false, `{"user":{"action":"decline"}}`, "decline -")
	f("ask_model", `{"prompt":"x"}`, `{"model":`+sample("x", "100")+`}`, false, `{"model":`+saysPoem+`}`, "a poem")
	f("ask_model", `{"prompt":"x"}`, `{"model":`+sample("x", "100")+`}`, false,
		`{"model":{"content":[{"type":"text","text":"a"},{"type":"image"}]}}`, "a (image)")
	f("ask_roots", `{}`, `{"where":`+roots+`}`, false, `{"where":`+hasRoots+`}`, "file:///a, file:///b")
	f("ask_roots", `{}`, `{"where":`+roots+`}`, false, `{"where":{"roots":[]}}`, "none")
	f("ask_url", `{}`, `{"page":{"method":"elicitation/create","params":{"mode":"url","message":"Please agree on this page","url":"https://example.com/agree"}}}`,
		false, `{"page":{"action":"accept"}}`, "accept")
	f("ask_at_once", `{}`, `{"user":`+name+`,"model":`+sample("a riddle", "100")+`}`, false, `{"user":`+saysAda+`,"model":`+saysPoem+`,"x":1}`, "Ada: a poem")
	f("test_sampling", `{"prompt":"x"}`, `{"model":`+sample("x", "100")+`}`, false, `{"model":`+saysPoem+`}`, "LLM response: a poem")
	f("test_streaming_elicitation", `{}`, `{"word":`+strings.NewReplacer("What is your name?", "Which word?", `"name"`, `"word"`).Replace(name)+`}`,
		false, `{"word":{"action":"accept","content":{"word":"w"}}}`, `User response: action=accept, content={"word":"w"}`)
	f("test_elicitation_sep1034_defaults", `{}`, `{"filled":{"method":"elicitation/create","params":{"mode":"form","message":"Is this right?","requestedSchema":`+
		defaultsSchema+`}}}`, false, `{"filled":{"action":"cancel"}}`, "Elicitation completed: action=cancel, content={}")
	f("test_input_required_result_multiple_inputs", `{}`, `{"user_name":`+name+`,"greeting":`+sample("Generate a greeting", "50")+`,"client_roots":`+roots+`}`,
		true, `{"user_name":`+saysAda+`,"greeting":`+saysPoem+`,"client_roots":`+hasRoots+`}`, "a poem (Ada, roots: file:///a, file:///b)")
	f("test_input_required_result_request_state", `{}`, `{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"Please confirm",`+
		`"requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}}}`, true,
		`{"confirm":{"action":"accept","content":{"ok":true}}}`, `state-ok, action=accept, content={"ok":true}`)
}

// A script reports invalid arguments like any tool.
func TestAskWithWrongArguments(t *testing.T) {
	s := newServer(t, Options{})
	if a, resp := modern(t, s, "tools/call", `"name":"ask_user"`, ""); !a.IsError || !strings.Contains(a.text(), `"question" is missing`) {
		t.Errorf("%s, %v", resp.Result, resp.Error)
	}
}

func TestAskInRounds(t *testing.T) {
	s := newServer(t, Options{})
	const call = `"name":"ask_rounds","arguments":{}`
	first, _ := modern(t, s, "tools/call", call, "")
	second, resp := modern(t, s, "tools/call", call+`,"inputResponses":{"user":`+saysAda+`,"model":`+saysPoem+`},"requestState":"`+first.RequestState+`"`, "")
	if _, ok := second.InputRequests["model"]; !ok || len(second.InputRequests) != 1 || second.RequestState == first.RequestState {
		t.Fatalf("the second round: %s, %v; an answer to what was not asked yet does not count", resp.Result, resp.Error)
	}
	last, resp := modern(t, s, "tools/call", call+`,"inputResponses":{"model":`+saysPoem+`},"requestState":"`+second.RequestState+`"`, "")
	if last.text() != "Ada: a poem" {
		t.Errorf("the end: %s, %v", resp.Result, resp.Error)
	}
	// Answers without the state of their round do not count where the script is sealed.
	if a, resp := modern(t, s, "tools/call", call+`,"inputResponses":{"user":`+saysAda+`}`, ""); a.InputRequests["user"] == nil {
		t.Errorf("without state: %s, %v", resp.Result, resp.Error)
	}
}

// The unanswered questions of a round are asked again; the answered ones are kept.
func TestAskAgain(t *testing.T) {
	s := newServer(t, Options{})
	const call = `"name":"ask_at_once","arguments":{}`
	for _, bad := range []string{`5`, `null`, `"x"`, `{}`, `[]`, `{"content":null}`, `{"content":"text"}`} {
		a, resp := modern(t, s, "tools/call", call+`,"inputResponses":{"user":`+saysAda+`,"model":`+bad+`}`, "")
		if len(a.InputRequests) != 1 || a.InputRequests["model"] == nil || a.RequestState == "" {
			t.Fatalf("%s: %s, %v", bad, resp.Result, resp.Error)
		}
		a, resp = modern(t, s, "tools/call", call+`,"inputResponses":{"model":`+saysPoem+`},"requestState":"`+a.RequestState+`"`, "")
		if a.text() != "Ada: a poem" {
			t.Errorf("%s: %s, %v", bad, resp.Result, resp.Error)
		}
	}
	for _, bad := range []string{`{"user":{"action":"maybe"},"model":` + saysPoem + `}`, `{"user":{"content":{}},"model":` + saysPoem + `}`} {
		if a, resp := modern(t, s, "tools/call", call+`,"inputResponses":`+bad, ""); len(a.InputRequests) != 1 || a.InputRequests["user"] == nil {
			t.Errorf("%s: %s, %v", bad, resp.Result, resp.Error)
		}
	}
	for _, bad := range []string{`null`, `[]`, `7`} {
		if _, resp := modern(t, s, "tools/call", call+`,"inputResponses":`+bad, ""); resp.Error == nil || resp.Error.Code != -32602 {
			t.Errorf("inputResponses %s: %s, %v", bad, resp.Result, resp.Error)
		}
	}
}

// A requestState is valid only for its request, caller and lifetime, and only unchanged.
func TestRequestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := newServer(t, Options{}), newServer(t, Options{})
		const rest = `,"inputResponses":{"confirm":{"action":"accept"}},"requestState":`
		call := func(name, args string) string {
			return `"name":"test_input_required_result_` + name + `","arguments":` + args
		}
		a, _ := modernAs(t, s, "ada", "tools/call", call("request_state", `{"a":1}`), "")
		f := func(s *Server, what, principal, call, state string, ok bool) {
			t.Helper()
			_, resp := modernAs(t, s, principal, "tools/call", call+rest+state, "")
			if ok && resp.Error != nil || !ok && (resp.Error == nil || resp.Error.Code != -32602) {
				t.Errorf("%s: %s, %v", what, resp.Result, resp.Error)
			}
		}
		mine := call("request_state", `{"a":1}`)
		f(s, "the same", "ada", mine, `"`+a.RequestState+`"`, true)
		f(s, "the same again", "ada", mine, `"`+a.RequestState+`"`, true)
		f(s, "another caller", "bob", mine, `"`+a.RequestState+`"`, false)
		f(s, "no caller", "", mine, `"`+a.RequestState+`"`, false)
		f(s, "other arguments", "ada", call("request_state", `{"a":2}`), `"`+a.RequestState+`"`, false)
		f(s, "another tool", "ada", call("tampered_state", `{"a":1}`), `"`+a.RequestState+`"`, false)
		f(other, "another server", "ada", mine, `"`+a.RequestState+`"`, false)
		f(s, "longer", "ada", mine, `"`+a.RequestState+`-TAMPERED"`, false)
		f(s, "no base64", "ada", mine, `"****"`, false)
		f(s, "empty", "ada", mine, `""`, false)
		f(s, "no string", "ada", mine, `5`, false)
		raw, err := base64.RawURLEncoding.DecodeString(a.RequestState)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			raw[i] ^= 1
			f(s, "a bit", "ada", mine, `"`+base64.RawURLEncoding.EncodeToString(raw)+`"`, false)
			raw[i] ^= 1
		}
		time.Sleep(calls.StateTTL - 2*time.Second)
		f(s, "late", "ada", mine, `"`+a.RequestState+`"`, true)
		time.Sleep(3 * time.Second)
		f(s, "too late", "ada", mine, `"`+a.RequestState+`"`, false)
	})
}

// Absent and empty arguments are the same request.
func TestRequestStateWithoutArguments(t *testing.T) {
	s := newServer(t, Options{})
	const name = `"name":"test_input_required_result_request_state"`
	a, _ := modern(t, s, "tools/call", name, "")
	if _, resp := modern(t, s, "tools/call", name+`,"arguments":{},"inputResponses":{},"requestState":"`+a.RequestState+`"`, ""); resp.Error != nil {
		t.Errorf("%v", resp.Error)
	}
}

func TestAnswersTooLargeToCarry(t *testing.T) {
	s := newServer(t, Options{})
	big := `{"action":"accept","content":{"name":"` + strings.Repeat("x", calls.MaxState) + `"}}`
	a, resp := modern(t, s, "tools/call", `"name":"ask_at_once","inputResponses":{"user":`+big+`}`, "")
	if !a.IsError || a.RequestState != "" {
		t.Errorf("%.200s, %v", resp.Result, resp.Error)
	}
}

func TestAskUndeclared(t *testing.T) {
	s := newServer(t, Options{})
	f := func(tool, caps, required string) {
		t.Helper()
		_, resp := modern(t, s, "tools/call", `"name":"`+tool+`","arguments":{"question":"","prompt":"","message":""}`, caps)
		if required == "" {
			if resp.Error != nil {
				t.Errorf("%s with %s: %v", tool, caps, resp.Error)
			}
			return
		}
		if resp.Error == nil || resp.Error.Code != -32021 {
			t.Errorf("%s with %s: %s, %v", tool, caps, resp.Result, resp.Error)
			return
		}
		same(t, tool+" data", resp.Error.Data, `{"requiredCapabilities":`+required+`}`)
	}
	f("ask_user", `{}`, `{"elicitation":{"form":{}}}`)
	f("ask_user", `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`)
	f("ask_user", `{"elicitation":5}`, `{"elicitation":{"form":{}}}`)
	f("ask_user", `{"elicitation":{}}`, ``)
	f("ask_user", `{"elicitation":{"form":{},"url":{}}}`, ``)
	f("ask_url", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`)
	f("ask_url", `{"elicitation":{"url":{}}}`, ``)
	f("ask_model", `{"elicitation":{}}`, `{"sampling":{}}`)
	f("ask_model", `{"sampling":{"tools":{}}}`, ``)
	f("ask_roots", `{}`, `{"roots":{}}`)
	f("ask_roots", `{"roots":{"listChanged":true}}`, ``)
	f("ask_at_once", `{}`, `{"elicitation":{"form":{}},"sampling":{}}`)
	f("ask_at_once", `{"sampling":{}}`, `{"elicitation":{"form":{}}}`)
	f("test_missing_capability", `{}`, `{"sampling":{}}`)

	g := func(caps string, keys ...string) {
		t.Helper()
		a, resp := modern(t, s, "tools/call", `"name":"test_input_required_result_capabilities"`, caps)
		if len(a.InputRequests) != len(keys) {
			t.Errorf("%s: %s, %v", caps, resp.Result, resp.Error)
		}
		for _, k := range keys {
			if a.InputRequests[k] == nil {
				t.Errorf("%s: %s is not asked", caps, k)
			}
		}
	}
	g(`{"sampling":{}}`, "model")
	g(`{"roots":{},"elicitation":{}}`, "roots", "user")
	g(`{}`)
}

func TestPromptThatAsks(t *testing.T) {
	s := newServer(t, Options{})
	const get = `"name":"test_input_required_result_prompt"`
	if a, resp := modern(t, s, "prompts/get", get, ""); a.InputRequests["user_context"] == nil {
		t.Fatalf("%s, %v", resp.Result, resp.Error)
	}
	_, resp := modern(t, s, "prompts/get", get+`,"inputResponses":{"user_context":{"action":"accept","content":{"context":"c"}}}`, "")
	var r map[string]json.RawMessage
	if err := json.Unmarshal(resp.Result, &r); err != nil {
		t.Fatal(err)
	}
	same(t, "messages", r["messages"], `[{"role":"user","content":{"type":"text","text":"Context: c"}}]`)
	if _, resp := modern(t, s, "prompts/get", get, `{}`); resp.Error == nil || resp.Error.Code != -32021 {
		t.Errorf("undeclared: %s, %v", resp.Result, resp.Error)
	}
}

// Modern HTTP clients mirror arguments into headers; all others do not.
func TestMirrors(t *testing.T) {
	s := newServer(t, Options{})
	f := func(args string, ok bool, headers ...string) {
		t.Helper()
		ex := exchange(t, "tools/call", `"name":"route","arguments":`+args, "")
		ex.Mirrors = true
		for i := 0; i+1 < len(headers); i += 2 {
			ex.Headers = append(ex.Headers, proxy.Header{Name: headers[i], Value: headers[i+1]})
		}
		_, resp := do(t, s, ex)
		if ok && resp.Error != nil || !ok && (resp.Error == nil || resp.Error.Code != -32020) {
			t.Errorf("%s with %q: %v", args, headers, resp.Error)
		}
	}
	f(`{"region":"eu"}`, true, "mcp-param-REGION", "eu")
	f(`{"region":"eu"}`, false)
	f(`{"region":"eu"}`, false, "Mcp-Param-Region", "EU")
	f(`{"region":"42.0"}`, false, "Mcp-Param-Region", "42")
	f(`{"region":"é","shard":42,"urgent":true}`, true, "Mcp-Param-Region", "é", "Mcp-Param-Shard", "42.0", "Mcp-Param-Urgent", "true")
	f(`{"region":"eu","shard":42}`, false, "Mcp-Param-Region", "eu", "Mcp-Param-Shard", "43")
	f(`{"region":"eu","shard":null}`, true, "Mcp-Param-Region", "eu")
}
