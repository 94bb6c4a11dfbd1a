package legacy

import (
	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// initializeChecks covers the answer to initialize.
func initializeChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "lifecycle.version-echoed", Title: "Answers initialize with the revision that was asked for, if it speaks it", Level: suite.Must, Faces: faces,
			Page:      "basic/lifecycle §Version Negotiation",
			Statement: "A server that supports the requested protocolVersion answers with the same one, each time.",
			Why:       "A client that asked for its best revision has to use another, or disconnect.",
			Fix:       "Compare params.protocolVersion with the list of revisions that you speak. If it is on it, put that very string into the result.",
			Run:       versionEchoed,
		},
		{
			ID: "lifecycle.version-unknown", Title: "Offers another revision where the one asked for is unknown", Level: suite.Must, Faces: faces,
			Page:      "basic/lifecycle §Version Negotiation, §Error Handling",
			Statement: "A server that does not support the requested protocolVersion answers with one that it does support; the page shows the error -32602 as well.",
			Why:       "A client of a revision to come cannot fall back, or believes that it is spoken.",
			Fix:       "Never repeat a protocolVersion that you do not know. Answer with the newest revision that you speak.",
			Run:       versionUnknown,
		},
		{
			ID: "lifecycle.server-info", Title: "Sends serverInfo and capabilities", Level: suite.Must, Faces: faces,
			Page:      "basic/lifecycle §Initialization",
			Statement: "The result of initialize has capabilities, an object, and serverInfo with name and version.",
			Why:       "Clients decide by the capabilities which requests to send, and show the name to their users.",
			Fix:       "Put capabilities (at least {}) and serverInfo with the texts name and version into the result of initialize.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if _, ok := c.Server["capabilities"].(peer.Object); !ok {
					t.Fail("capabilities, an object", "%s", peer.Encode(c.Server["capabilities"]))
				}
				if peer.Text(c.Server, "serverInfo", "name") == "" || peer.Text(c.Server, "serverInfo", "version") == "" {
					t.Fail("serverInfo with the texts name and version", "%s", peer.Encode(c.Server["serverInfo"]))
				}
			},
		},
	}
}

// firstChecks covers requests before initialize.
func firstChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "lifecycle.ping", Title: "Answers a ping with an empty result", Level: suite.Must, Faces: faces,
			Page:      "basic/utilities/ping §Behavior Requirements",
			Statement: "The receiver of a ping answers promptly with an empty result.",
			Why:       "Clients that look whether the server is alive give it up.",
			Fix:       "Answer ping with \"result\":{}. It needs no capability.",
			Run:       func(t *suite.Trial) { pings(t, t.Open(nil)) },
		},
		{
			ID: "lifecycle.ping-early", Title: "Answers a ping before notifications/initialized", Level: suite.Must, Faces: faces,
			Page:      "basic/utilities/ping §Behavior Requirements; basic/lifecycle §Initialization",
			Statement: "Pings are answered from the result of initialize on: they are what either side may ask before the handshake is over.",
			Why:       "A client that pings while it waits takes the connection for dead.",
			Fix:       "Let ping pass where other requests wait for notifications/initialized.",
			Run:       func(t *suite.Trial) { pings(t, openInitialized(t, nil)) },
		},
		{
			ID: "lifecycle.quiet-until-initialized", Title: "Asks nothing but pings before notifications/initialized", Level: suite.Should, Faces: faces,
			Page:      "basic/lifecycle §Initialization",
			Statement: "Before notifications/initialized a server sends no requests other than pings.",
			Why:       "The client is not ready: it refuses the question, or loses it.",
			Fix:       "Keep questions (roots/list is the usual one) until notifications/initialized has come.",
			Run: func(t *suite.Trial) {
				var u responder
				c := openInitialized(t, u.with(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`))
				waitSettled(t, c)
				for _, m := range checkutil.OfKind(all(c), peer.IsRequest) {
					if m.Method != "ping" {
						t.Fail("no request other than ping before notifications/initialized", "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "lifecycle.unknown-capabilities", Title: "Serves clients with unknown capabilities", Level: suite.Should, Faces: faces,
			Page:      "basic/lifecycle §Capability Negotiation; schema ClientCapabilities",
			Statement: "The list of capabilities is open: those that a server does not know mean nothing to it.",
			Why:       "Newer clients cannot connect at all.",
			Fix:       "Ignore members of capabilities and of clientInfo that you do not know; do not validate them with a closed schema.",
			Run: func(t *suite.Trial) {
				c := t.Open(func(s *peer.Settings) { s.NoHandshake = true })
				mustResult(t, c, "initialize", checkutil.InitializeParams(t.Revision, `{"experimental":{"dragoman/x":{}},"notYetInvented":{"deep":{"er":true}}}`), "a result")
			},
		},
	}
}

// agreedChecks covers what the negotiated revision and capabilities imply.
func agreedChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "lifecycle.declared-answered", Title: "Serves the methods of the capabilities that it declares", Level: suite.Must, Faces: faces,
			Page:      "basic/lifecycle §Operation; server/* §Capabilities",
			Statement: "A capability that is declared is negotiated: its methods exist.",
			Why:       "Clients call what was declared, and show their users an error.",
			Fix:       "Declare a capability only if its methods are served; answer an empty list rather than -32601.",
			Run:       declaredAnswered,
		},
		{
			ID: "lifecycle.undeclared-refused", Title: "Declares the capabilities whose methods it serves", Level: suite.Should, Faces: faces,
			Page:      "basic/lifecycle §Capability Negotiation; server/* §Capabilities",
			Statement: "Servers that support tools, prompts, resources or logging declare the capability.",
			Why:       "Clients that go by the capabilities never find what is there.",
			Fix:       "Put the capability into the result of initialize, or answer its methods with -32601.",
			Run:       undeclaredRefused,
		},
		{
			ID: "lifecycle.unknown-method", Title: "Answers unknown methods with -32601", Level: suite.Must, Faces: faces,
			Page:      "basic §Messages (JSON-RPC 2.0 §5.1)",
			Statement: "A request whose method does not exist gets an error response with its id and the code -32601.",
			Why:       "Clients that try what a server can do get no answer that they can read, and wait or give up.",
			Fix:       "Answer with a JSON-RPC error of code -32601 and the request's id; over HTTP too, where a bare status is no answer to a request.",
			Run: func(t *suite.Trial) {
				const expected = "an error response with the code -32601"
				m, err := t.Open(nil).Request("dragoman/no-such-method", "{}")
				if err != nil {
					t.Fatal(expected, "%v", err)
				}
				checkutil.FailedWith(t, m, expected, -32601)
			},
		},
	}
}

func versionEchoed(t *suite.Trial) {
	for range 2 {
		if c := t.Open(nil); c.Agreed != t.Revision {
			t.Fail(t.Revision, "%s", c.Agreed)
		}
	}
}

func versionUnknown(t *suite.Trial) {
	const asked, expected = "1999-01-01", "a result with another protocolVersion, or the error -32602"
	c := t.Open(func(s *peer.Settings) { s.NoHandshake = true })
	m, err := c.Request("initialize", checkutil.InitializeParams(asked, "{}"))
	if err != nil {
		t.Fatal(expected, "no answer: %v", err)
	}
	if m.Failed() {
		checkutil.FailedWith(t, m, expected, -32602)
		return
	}
	if got := peer.Text(m.Result(), "protocolVersion"); got == "" || got == asked {
		t.Fail(expected, "protocolVersion %q", got)
	}
}

func pings(t *suite.Trial, c *peer.Conn) {
	const expected = "an empty result"
	result := mustResult(t, c, "ping", "", expected)
	for name := range result {
		if name != "_meta" {
			t.Fail(expected, "a result with %s", name)
		}
	}
}

// methodsOf are methods of capabilities, with params that are as valid as possible.
var methodsOf = []struct{ capability, method, params string }{
	{"tools", "tools/list", ""},
	{"prompts", "prompts/list", ""},
	{"resources", "resources/list", ""},
	{"logging", "logging/setLevel", `{"level":"emergency"}`},
	{"completions", "completion/complete", `{"ref":{"type":"ref/prompt","name":"dragoman-no-such-prompt"},"argument":{"name":"x","value":""}}`},
}

func declaredAnswered(t *suite.Trial) {
	c := t.Open(nil)
	for _, x := range methodsOf {
		if !declares(c, x.capability) {
			continue
		}
		m, err := c.Request(x.method, x.params)
		if err != nil {
			t.Fail(x.method+" is served", "%v", err)
			continue
		}
		if code, _, _ := m.Error(); code == -32601 {
			t.Fail(x.method+" is served", "%s", checkutil.Failure(m))
		}
	}
}

func undeclaredRefused(t *suite.Trial) {
	c := t.Open(nil)
	for _, x := range methodsOf {
		// 2024-11-05 has completion without a capability.
		if declares(c, x.capability) || x.capability == "completions" && t.Revision == peer.R2411 {
			continue
		}
		if m, err := c.Request(x.method, x.params); err == nil && !m.Failed() {
			t.Fail("the capability "+x.capability+", or "+x.method+" refused", "neither: %s", m.Raw)
		}
	}
}
