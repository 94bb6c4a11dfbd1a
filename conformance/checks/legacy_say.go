package checks

import (
	"slices"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// The legacy faces in groups.
var (
	legacyHTTP  = []peer.Face{peer.LegacyHTTP}
	legacySSE   = []peer.Face{peer.SSE}
	legacyStdio = []peer.Face{peer.LegacyStdio}
	legacyWeb   = []peer.Face{peer.LegacyHTTP, peer.SSE}
	legacyFaces = []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}
)

// Tools of the fixtures that checks call.
const (
	toolProgress = "test_tool_with_progress"
	toolLogging  = "test_tool_with_logging"
	toolElicits  = "test_elicitation"
	toolSamples  = "test_sampling"
)

// answered is the answer to a request. Without one the trial is broken: that requests are answered is for other checks.
func answered(t *suite.Trial, c *peer.Conn, method, params string) peer.Message {
	m, err := c.Request(method, params)
	if err != nil {
		t.Break("%s was not answered: %v", method, err)
	}
	return m
}

// demanded is the result of a request. No answer, or an error, is what the check is about.
func demanded(t *suite.Trial, c *peer.Conn, method, params, expected string) peer.Object {
	m, err := c.Request(method, params)
	switch {
	case err != nil:
		t.Fatal(expected, "no answer: %v", err)
	case m.Failed():
		t.Fatal(expected, "%s", failure(m))
	case m.Result() == nil:
		t.Fatal(expected, "%s", m.Raw)
	}
	return m.Result()
}

// failure tells of an error response.
func failure(m peer.Message) string {
	code, message, _ := m.Error()
	return "the error " + peer.Encode(code) + ": " + message
}

// failedWith demands an error response with one of the codes; none: any.
func failedWith(t *suite.Trial, m peer.Message, expected string, codes ...int) {
	if !m.Failed() {
		t.Fail(expected, "a result: %s", m.Raw)
		return
	}
	if code, _, _ := m.Error(); len(codes) > 0 && !slices.Contains(codes, code) {
		t.Fail(expected, "%s", failure(m))
	}
}

// started begins a request.
func started(t *suite.Trial, c *peer.Conn, method, params string) *peer.Call {
	call, err := c.Start(method, params)
	if err != nil {
		t.Break("%s could not be sent: %v", method, err)
	}
	return call
}

// ended waits for the response of a call.
func ended(t *suite.Trial, call *peer.Call) peer.Message {
	m, err := call.Wait()
	if err != nil {
		t.Break("no answer: %v", err)
	}
	return m
}

// toolCall are params of tools/call; token is that of progress, as JSON, or empty.
func toolCall(name string, arguments peer.Object, token string) string {
	params := `{"name":` + peer.Encode(name)
	if arguments != nil {
		params += `,"arguments":` + peer.Encode(arguments)
	}
	if token != "" {
		params += `,"_meta":{"progressToken":` + token + `}`
	}
	return params + "}"
}

// lull is how long a stream is watched that has nothing which could be waited for.
const lull = 120 * time.Millisecond

// settled waits until what the server has sent by now has come. On one stream the answer to a ping comes behind it; streams of their
// own are watched a moment.
func settled(t *suite.Trial, c *peer.Conn) {
	_ = answered(t, c, "ping", "")
	if t.Face != peer.LegacyHTTP || !c.Listens() {
		return
	}
	settledStreams(t)
}

// all is what has come, for no call and for those given.
func all(c *peer.Conn, calls ...*peer.Call) []peer.Message {
	out := c.Others()
	for _, call := range calls {
		out = append(out, call.Got()...)
	}
	return out
}

// those picks messages of a method.
func those(in []peer.Message, method string) (out []peer.Message) {
	for _, m := range in {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// of picks messages of a kind.
func of(in []peer.Message, kind peer.Kind) (out []peer.Message) {
	for _, m := range in {
		if m.Kind() == kind {
			out = append(out, m)
		}
	}
	return out
}

// user answers what a server asks, and remembers it.
type user struct {
	says map[string]string // by method: a result or an error with its member name; without one -32601 is said

	mu    sync.Mutex
	asked []peer.Message
}

func (u *user) answer(m peer.Message) string {
	u.mu.Lock()
	u.asked = append(u.asked, m)
	u.mu.Unlock()
	switch says, ok := u.says[m.Method]; {
	case ok:
		return says
	case m.Method == "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32601,"message":"Method not found"}`
}

// questions are those of a method so far.
func (u *user) questions(method string) []peer.Message {
	u.mu.Lock()
	defer u.mu.Unlock()
	return those(u.asked, method)
}

// with are settings with capabilities and a user who answers.
func (u *user) with(capabilities string) func(*peer.Settings) {
	return func(s *peer.Settings) { s.Capabilities, s.Answer = capabilities, u.answer }
}

// shaken does the handshake by hand, as far as initialized, which is not sent.
func shaken(t *suite.Trial, change func(*peer.Settings)) *peer.Conn {
	c := t.Open(func(s *peer.Settings) {
		s.NoHandshake = true
		if change != nil {
			change(s)
		}
	})
	m := answered(t, c, "initialize", hello(t.Revision, c.Capabilities))
	if m.Failed() || m.Result() == nil {
		t.Break("initialize was refused: %s", m.Raw)
	}
	c.Server, c.Agreed = m.Result(), peer.Text(m.Result(), "protocolVersion")
	return c
}

// hello are the params of initialize.
func hello(revision, capabilities string) string {
	return `{"protocolVersion":` + peer.Encode(revision) + `,"capabilities":` + capabilities + `,"clientInfo":{"name":"dragoman-conformance","version":"1"}}`
}

// declares tells whether the server has declared a capability in this conversation.
func declares(c *peer.Conn, path ...string) bool {
	v := peer.Get(c.Server, append([]string{"capabilities"}, path...)...)
	return v != nil && v != false
}

// legacyHead is the head of a request in a session of legacy HTTP; more sets or drops fields. c may be nil: before initialize.
func legacyHead(c *peer.Conn, more ...peer.Field) peer.Fields {
	f := peer.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json, text/event-stream"}}
	if c != nil && c.Session != "" {
		f = append(f, peer.Field{Name: "Mcp-Session-Id", Value: c.Session})
	}
	if c != nil && c.Revision >= peer.R2506 {
		f = append(f, peer.Field{Name: "MCP-Protocol-Version", Value: c.Revision})
	}
	return f.With(more...)
}

// pingAs is a ping with an id, as JSON.
func pingAs(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }

// status demands that of a response.
func status(t *suite.Trial, res *peer.Response, expected string, right func(int) bool) {
	if !right(res.Status) {
		t.Fail(expected, "status %d", res.Status)
	}
}

func isStatus(want int) func(int) bool { return func(got int) bool { return got == want } }
func good(got int) bool                { return got/100 == 2 }
func refusal(got int) bool             { return got/100 == 4 }
