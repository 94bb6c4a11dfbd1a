package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// demoConfig is the built-in server as a child of one era.
func demoConfig(t *testing.T, name, era string) string {
	t.Helper()
	self := testkit.Executable(t)
	return fmt.Sprintf("[upstreams.%s]\ncommand = [%q, \"demo\", \"--era\", %q]\nstop_grace = \"500ms\"\n[upstreams.%s.env]\n%s = \"main\"\nGORACE = \"atexit_sleep_ms=0\"\n",
		name, self, era, name, testkit.AsDragoman)
}

// restAnswer is a REST answer.
type restAnswer struct {
	Success   bool            `json:"success"`
	Data      json.RawMessage `json:"data"`
	Error     string          `json:"error"`
	Code      string          `json:"code"`
	RequestID string          `json:"request_id"`
	Timestamp string          `json:"timestamp"`
	Meta      struct {
		Took   *int            `json:"execution_time_ms"`
		Result json.RawMessage `json:"result"`
		Cause  json.RawMessage `json:"cause"`
	} `json:"meta"`
}

// post makes a REST call and checks the members that every envelope has.
func (r *rig) post(path, body string, headers ...string) (int, restAnswer) {
	r.t.Helper()
	res := r.must("POST", path, body, append([]string{"Content-Type", jsonType}, headers...)...)
	var e restAnswer
	if err := json.Unmarshal([]byte(res.body), &e); err != nil {
		r.t.Fatalf("%s: %d %s", path, res.status, res.body)
	}
	if e.Success != (res.status == 200) || e.Success != (len(e.Data) > 0) || e.Success == (e.Error != "" || e.Code != "") || e.RequestID == "" || e.Timestamp == "" || e.Meta.Took == nil {
		r.t.Errorf("%s: %d %s", path, res.status, res.body)
	}
	return res.status, e
}

// call makes a REST call of a tool, checks the status, and returns data, or code and error.
func (r *rig) call(status int, tool, args string) string {
	r.t.Helper()
	got, e := r.post("/call-tool", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, tool, args))
	if got != status {
		r.t.Errorf("%s %s: %d, want %d: %+v", tool, args, got, status, e)
	}
	if e.Success {
		return string(e.Data)
	}
	return e.Code + " " + e.Error
}

var demoEras = []string{"legacy", "modern"}

// The endpoints of seed 000 and the further ones, in front of the built-in server in both eras.
func TestRestDemo(t *testing.T) {
	for _, era := range demoEras {
		t.Run(era, func(t *testing.T) {
			r := startRig(t, "[service]\nname = \"code-graph\"\n"+demoConfig(t, "default", era), true)
			tools := r.must("GET", "/tools", "")
			mentions(t, tools.body, `{"service":"code-graph","version":"1.0.0","tools":[{"name":`, `{"name":"echo","description":"Gives the message back","input_schema":{`)
			if below := r.must("GET", "/servers/default/tools", ""); below.status != 200 || below.body != tools.body {
				t.Errorf("%d %s", below.status, below.body)
			}
			mentions(t, r.must("GET", "/servers/default/openapi.json", "").body, `"openapi":"3.1`, `"/tools/echo":{`, `"url":"/servers/default"`)
			if page := r.must("GET", "/docs", ""); page.status != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.body, "openapi.json") || page.header.Get("Content-Security-Policy") == "" {
				t.Errorf("%d %v", page.status, page.header)
			}
			mentions(t, r.call(200, "echo", `{"message":"hi"}`), `"content":[{"type":"text","text":"Echo: hi"}]`)
			mentions(t, r.call(200, "add", `{"a":2,"b":3}`), `"structuredContent":{"sum":5}`)
			mentions(t, r.call(500, "fail", `{}`), "EXECUTION_ERROR deliberate failure")
			mentions(t, r.call(404, "no such", `{}`), "TOOL_NOT_FOUND Tool not found: no such")
			mentions(t, r.call(400, "add", `{"a":"2","b":3}`), "INVALID_ARGUMENTS arguments: /a: ", "(type)")
			mentions(t, r.call(400, "echo", `{}`), "INVALID_ARGUMENTS", "(required)")
			if status, e := r.post("/tools/echo", `{"message":"typed"}`); status != 200 || !strings.Contains(string(e.Data), "typed") {
				t.Errorf("%d %+v", status, e)
			}
			if res := r.must("POST", "/mcp/tools/call", `{"name":"echo","arguments":{"message":"bare"}}`, "Content-Type", jsonType); res.status != 200 || !strings.Contains(res.body, `"text":"Echo: bare"`) || strings.Contains(res.body, `"success"`) {
				t.Errorf("%d %s", res.status, res.body)
			}
			if status, e := r.post("/servers/nobody/call-tool", `{"tool":"echo","arguments":{}}`); status != 404 || e.Code != "TOOL_NOT_FOUND" {
				t.Errorf("%d %+v", status, e)
			}
			r.restOthers()
		})
	}
}

// restOthers requests resources, prompts and completions.
func (r *rig) restOthers() {
	r.t.Helper()
	mentions(r.t, r.must("GET", "/resources", "").body, `{"success":true,"data":{"resources":[{`, `"uri":"demo://static/text"`, `"resourceTemplates":[{`)
	mentions(r.t, r.must("GET", "/prompts", "").body, `{"success":true,"data":{"prompts":[{`, `"name":"greet"`)
	_, e := r.post("/read-resource", `{"uri":"demo://static/text"}`)
	mentions(r.t, string(e.Data), `"contents":[{"uri":"demo://static/text"`)
	status, e := r.post("/read-resource", `{"uri":"demo://none"}`)
	mentions(r.t, fmt.Sprint(status, e.Code), "400INVALID_ARGUMENTS")
	_, e = r.post("/get-prompt", `{"name":"greet","arguments":{"name":"Ada"}}`)
	mentions(r.t, string(e.Data), `"messages":[{`, "Ada")
	_, e = r.post("/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"A"}}`)
	mentions(r.t, string(e.Data), `"completion":{"values":[`)
}

// Questions over REST: the call ends with the question as data; the next call has the answers and goes on.
func TestRestQuestions(t *testing.T) {
	answer := map[string]string{
		"elicitation/create":     `{"action":"accept","content":{"name":"Ada"}}`,
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"a poem"},"model":"m","stopReason":"endTurn"}`,
		"roots/list":             `{"roots":[{"uri":"file:///r"}]}`,
	}
	for _, era := range demoEras {
		t.Run(era, func(t *testing.T) {
			r := startRig(t, "[rest]\ncapabilities = [\"elicitation.form\", \"elicitation.url\", \"sampling\", \"roots\"]\n"+demoConfig(t, "default", era), true)
			for tool, want := range map[[2]string]string{
				{"ask_user", `{"question":"Who?"}`}: "accept Ada",
				{"ask_model", `{"prompt":"p"}`}:     "a poem",
				{"ask_roots", `{}`}:                 "file:///r",
				{"ask_rounds", `{}`}:                "Ada: a poem",
				{"ask_at_once", `{}`}:               "Ada: a poem",
			} {
				got := r.call(200, tool[0], tool[1])
				rounds := 0
				for ; strings.Contains(got, `"result_type":"input_required"`) && rounds < 5; rounds++ {
					var q struct {
						Requests map[string]struct{ Method string } `json:"input_requests"`
						State    *string                            `json:"request_state"`
					}
					if err := json.Unmarshal([]byte(got), &q); err != nil {
						t.Fatal(err)
					}
					var answers []string
					for key, asked := range q.Requests {
						answers = append(answers, fmt.Sprintf("%q:%s", key, answer[asked.Method]))
					}
					state := ""
					if q.State != nil {
						state = fmt.Sprintf(`,"request_state":%q`, *q.State)
					}
					status, e := r.post("/call-tool", fmt.Sprintf(`{"tool":%q,"arguments":%s,"input_responses":{%s}%s}`, tool[0], tool[1], strings.Join(answers, ","), state))
					if got = string(e.Data); status != 200 {
						t.Fatalf("%s: %d %+v", tool[0], status, e)
					}
				}
				if rounds == 0 || !strings.Contains(got, want) {
					t.Errorf("%s: %d rounds, %s", tool[0], rounds, got)
				}
			}
			if r.h.Pending().Suspended() > 0 {
				t.Error("suspended calls are left")
			}
		})
	}
}

// A caller gets no question for a capability that rest.capabilities, or the call, leaves out.
func TestRestCapabilities(t *testing.T) {
	for _, era := range demoEras {
		r := startRig(t, "[rest]\ncapabilities = []\n"+demoConfig(t, "default", era), true)
		body := `{"tool":"ask_user","arguments":{"question":"Who?"}`
		if status, e := r.post("/call-tool", body+`}`); status == 200 {
			t.Errorf("%s: %s", era, e.Data)
		}
		if _, e := r.post("/call-tool", body+`,"client_capabilities":{"elicitation":{}}}`); !strings.Contains(string(e.Data), "input_required") {
			t.Errorf("%s: %+v", era, e)
		}
	}
}

// Long work: a stream of progress and logs, and the envelope at its end.
func TestRestStream(t *testing.T) {
	for _, era := range demoEras {
		r := startRig(t, demoConfig(t, "default", era), true)
		stream := func(path, body string) string {
			res := r.must("POST", path, body, "Content-Type", jsonType, "Accept", "text/event-stream")
			if res.status != 200 || res.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: %d %v", era, res.status, res.header)
			}
			return res.body
		}
		got := stream("/call-tool", `{"tool":"progress","arguments":{"steps":3,"delayMs":1},"request_id":"550e8400-e29b-41d4-a716-446655440000"}`)
		mentions(t, got, `event: progress`, `"progressToken":"550e8400-e29b-41d4-a716-446655440000"`, "event: result\ndata: {\"success\":true,\"data\":{")
		if n := strings.Count(got, "event: progress\n"); n != 3 {
			t.Errorf("%s: %d of 3\n%s", era, n, got)
		}
		got = stream("/tools/log", `{"count":2}`)
		if n := strings.Count(got, "event: log\n"); n != 2 {
			t.Errorf("%s: %d log events\n%s", era, n, got)
		}
		got = stream("/tools/log?log_level=error", `{"count":2}`)
		if strings.Contains(got, "event: log\n") || !strings.Contains(got, "event: result\n") {
			t.Errorf("%s: %s", era, got)
		}
		mentions(t, stream("/tools/fail", `{}`), "event: result\ndata: {\"success\":false,\"error\":\"deliberate failure\",\"code\":\"EXECUTION_ERROR\"")
	}
}

// Closing the connection cancels the call at the server, with and without a stream.
func TestRestLeaving(t *testing.T) {
	for _, kind := range kinds {
		for _, accept := range []string{jsonType, "text/event-stream"} {
			u := newUpstream(t, kind)
			u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}`) })
			r := startRig(t, u.toml(""), true)
			started := hanging(u, 0)
			ctx, leave := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() {
				_, err := r.do(ctx, "POST", "/call-tool", `{"tool":"slow","arguments":{}}`, "Content-Type", jsonType, "Accept", accept)
				over <- err
			}()
			c := testkit.Receive(t, "the call", started)
			leave()
			<-c.cancelled
			if err := testkit.Receive(t, "the end", over); err == nil {
				t.Errorf("%s: it was answered", kind)
			}
		}
	}
}
