package legacy

import (
	"sync"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// The legacy faces in groups.
var (
	httpFace  = []peer.Face{peer.LegacyHTTP}
	sseFace   = []peer.Face{peer.SSE}
	stdioFace = []peer.Face{peer.LegacyStdio}
	webFaces  = []peer.Face{peer.LegacyHTTP, peer.SSE}
	faces     = []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}
)

// Tools of the fixtures that checks call.
const (
	toolElicits = "test_elicitation"
	toolSamples = "test_sampling"
)

// mustRequest sends a request and returns the answer. Without one it breaks the trial: other checks judge missing answers.
func mustRequest(t *suite.Trial, c *peer.Conn, method, params string) peer.Message {
	m, err := c.Request(method, params)
	if err != nil {
		t.Break("%s was not answered: %v", method, err)
	}
	return m
}

// mustResult sends a request and returns its result. Without one the trial fails.
func mustResult(t *suite.Trial, c *peer.Conn, method, params, expected string) peer.Object {
	m, err := c.Request(method, params)
	switch {
	case err != nil:
		t.Fatal(expected, "no answer: %v", err)
	case m.Failed():
		t.Fatal(expected, "%s", checkutil.Failure(m))
	case m.Result() == nil:
		t.Fatal(expected, "%s", m.Raw)
	}
	return m.Result()
}

// mustStart sends a request, or breaks the trial.
func mustStart(t *suite.Trial, c *peer.Conn, method, params string) *peer.Call {
	call, err := c.Start(method, params)
	if err != nil {
		t.Break("%s could not be sent: %v", method, err)
	}
	return call
}

// mustEnd waits for the response of a call, or breaks the trial.
func mustEnd(t *suite.Trial, call *peer.Call) peer.Message {
	m, err := call.Wait()
	if err != nil {
		t.Break("no answer: %v", err)
	}
	return m
}

// toolCall returns the params of tools/call; token is the progress token as JSON, or "".
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

// all returns the messages of the given calls, and of no call.
func all(c *peer.Conn, calls ...*peer.Call) []peer.Message {
	out := c.Others()
	for _, call := range calls {
		out = append(out, call.Got()...)
	}
	return out
}

// responder answers the server's requests, and records them.
type responder struct {
	says map[string]string // by method, a result or an error with its member name; otherwise the error -32601

	mu    sync.Mutex
	asked []peer.Message
}

func (u *responder) answer(m peer.Message) string {
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

// questions returns the requests with a method so far.
func (u *responder) questions(method string) []peer.Message {
	u.mu.Lock()
	defer u.mu.Unlock()
	return checkutil.OfMethod(u.asked, method)
}

// with returns settings with capabilities and this responder.
func (u *responder) with(capabilities string) func(*peer.Settings) {
	return func(s *peer.Settings) { s.Capabilities, s.Answer = capabilities, u.answer }
}

// openInitialized opens a session with a handshake that lacks notifications/initialized.
func openInitialized(t *suite.Trial, change func(*peer.Settings)) *peer.Conn {
	c := t.Open(func(s *peer.Settings) {
		s.NoHandshake = true
		if change != nil {
			change(s)
		}
	})
	m := mustRequest(t, c, "initialize", checkutil.InitializeParams(t.Revision, c.Capabilities))
	if m.Failed() || m.Result() == nil {
		t.Break("initialize was refused: %s", m.Raw)
	}
	c.Server, c.Agreed = m.Result(), peer.Text(m.Result(), "protocolVersion")
	return c
}

// declares reports whether the server has declared a capability in this session.
func declares(c *peer.Conn, path ...string) bool {
	v := peer.Get(c.Server, append([]string{"capabilities"}, path...)...)
	return v != nil && v != false
}
