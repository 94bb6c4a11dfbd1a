package mutants

import (
	"net/http"
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

var (
	modern      = []peer.Face{peer.ModernHTTP, peer.ModernStdio}
	modernStdio = []peer.Face{peer.ModernStdio}
	modernOnly  = []peer.Face{peer.ModernHTTP}
)

// modernMutants violate 2026-07-28.
func modernMutants() []mutant {
	return slices.Concat(modernHeadMutants(), modernEnvelopeMutants(), modernTransportMutants(), modernResponseMutants(), modernListMutants(),
		modernFeatureMutants(), modernParamMutants(), modernFlowMutants(), modernMRTRMutants(), modernListenMutants(), modernStdioMutants())
}

// edit changes the body of a request.
func edit(x *exchange, change func(o, params, meta peer.Object)) {
	v, err := peer.Decode(x.body)
	o, ok := v.(peer.Object)
	if err != nil || !ok {
		return
	}
	params, _ := o["params"].(peer.Object)
	if params == nil {
		params = peer.Object{}
	}
	meta, _ := params["_meta"].(peer.Object)
	if meta == nil {
		meta = peer.Object{}
	}
	change(o, params, meta)
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	if len(params) > 0 {
		o["params"] = params
	}
	x.body = peer.Encode(o)
}

// sets corrects a field of the head.
func sets(name string, value func(x *exchange) string) func(*exchange) {
	return func(x *exchange) {
		if x.Request != nil && x.asked.Object != nil {
			if v := value(x); v != "" {
				x.Header.Set(name, v)
			}
		}
	}
}

// nameOf returns the correct Mcp-Name of a request.
func nameOf(x *exchange) string {
	if x.method == "resources/read" {
		return peer.HeaderValue(peer.Text(x.asked.Object, "params", "uri"))
	}
	return peer.HeaderValue(peer.Text(x.asked.Object, "params", "name"))
}

// seen reports whether a name was counted.
func (s *state) seen(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[name] > 0
}

// argument returns an argument of a call.
func argument(x *exchange, name string) any {
	return peer.Get(x.asked.Object, "params", "arguments", name)
}

func asksFor(x *exchange, tool string) bool {
	return x.method == "tools/call" && peer.Text(x.asked.Object, "params", "name") == tool
}

// results changes results of a method; "" is any.
func results(method string, change func(x *exchange, result peer.Object)) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		r := m.Result()
		if r == nil || method != "" && x.method != method {
			return []string{m.Raw}
		}
		change(x, r)
		return []string{peer.Encode(m.Object)}
	}
}

// messages changes all messages.
func messages(change func(m peer.Object)) func(*exchange, peer.Message) []string {
	return func(_ *exchange, m peer.Message) []string {
		if m.Object == nil {
			return []string{m.Raw}
		}
		change(m.Object)
		return []string{peer.Encode(m.Object)}
	}
}

// failures changes errors of a method; "" is any.
func failures(method string, change func(m, e peer.Object)) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		e, _ := m.Object["error"].(peer.Object)
		if e == nil || method != "" && x.method != method {
			return []string{m.Raw}
		}
		change(m.Object, e)
		return []string{peer.Encode(m.Object)}
	}
}

// notices changes the notifications and requests of a method; nil removes one.
func notices(method string, change func(m peer.Message) []string) func(*exchange, peer.Message) []string {
	return func(_ *exchange, m peer.Message) []string {
		if m.Method != method {
			return []string{m.Raw}
		}
		return change(m)
	}
}

// succeeds replaces errors of a method by a result.
func succeeds(method, result string) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		if x.method != method || !m.Failed() {
			return []string{m.Raw}
		}
		return []string{`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`}
	}
}

// fails answers a request with an error in place of the server.
func fails(x *exchange, status int, code string) {
	if x.asked.ID == nil {
		return
	}
	x.reply(status, "application/json", `{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,"error":{"code":`+code+`,"message":"no"}}`)
}

// gives answers a request with a result in place of the server.
func gives(x *exchange, result string) {
	x.reply(200, "application/json", `{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,"result":`+result+`}`)
}

const empty = `{"resultType":"complete"}`

// modernHeadMutants do not check the head, or too strictly.
func modernHeadMutants() []mutant {
	method := sets("Mcp-Method", func(x *exchange) string { return x.method })
	name := sets("Mcp-Name", nameOf)
	return []mutant{
		{name: "believes the body whatever the header says", caught: "request.version-mismatch", request: func(x *exchange) {
			if x.Request != nil && x.Header.Get("Mcp-Protocol-Version") != "" {
				x.Header.Set("Mcp-Protocol-Version", peer.R2607)
			}
		}},
		{name: "needs no version header", caught: "request.version-missing", request: sets("Mcp-Protocol-Version", func(*exchange) string { return peer.R2607 })},
		{name: "does not compare Mcp-Method", caught: "request.method-mismatch", request: method},
		{name: "compares Mcp-Method without case", caught: "request.method-case", request: method},
		{name: "needs no Mcp-Method", caught: "request.method-missing", request: method},
		{name: "reads the first Mcp-Method alone", caught: "request.method-twice", request: method},
		{name: "does not compare Mcp-Name", caught: "request.name-mismatch", request: name},
		{name: "needs no Mcp-Name", caught: "request.name-missing", request: name},
		{name: "lets any encoded Mcp-Name pass", caught: "request.name-encoded-mismatch", request: name},
		{name: "lets a broken encoding pass", caught: "request.name-bad-base64", request: name},
		{name: "compares Mcp-Name as it is encoded", caught: "request.name-encoded", request: func(x *exchange) {
			if x.Request != nil && strings.HasPrefix(x.Header.Get("Mcp-Name"), "=?base64?") {
				fails(x, 400, "-32020")
			}
		}},
	}
}

// modernEnvelopeMutants do not check _meta, or the message.
func modernEnvelopeMutants() []mutant {
	whole := func(x *exchange) {
		edit(x, func(_, _, meta peer.Object) {
			meta[peer.MetaVersion] = peer.R2607
			if _, ok := meta[peer.MetaCapabilities].(peer.Object); !ok {
				meta[peer.MetaCapabilities] = peer.Object{}
			}
		})
		if x.Request != nil && x.Header.Get("Mcp-Protocol-Version") > peer.R2607 {
			x.Header.Set("Mcp-Protocol-Version", peer.R2607)
		}
	}
	return []mutant{
		{name: "needs no params", caught: "request.params-missing", faces: modern, request: whole},
		{name: "needs no _meta", caught: "request.meta-missing", faces: modern, request: whole},
		{name: "needs no version in _meta", caught: "request.meta-version-missing", faces: modern, request: whole},
		{name: "needs no capabilities", caught: "request.capabilities-missing", faces: modern, request: whole},
		{name: "takes capabilities of any type", caught: "request.capabilities-malformed", faces: modern, request: whole},
		{name: "demands clientInfo", caught: "request.client-info-optional", faces: modern, request: func(x *exchange) {
			if peer.Get(x.asked.Object, "params", "_meta", peer.MetaClient) == nil {
				fails(x, 400, "-32602")
			}
		}},
		{name: "allows no further members", caught: "request.foreign-meta", faces: modern, request: func(x *exchange) {
			if peer.Get(x.asked.Object, "params", "example.com_unknown") != nil {
				fails(x, 400, "-32602")
			}
		}},
		{name: "serves any revision", caught: "request.version-unsupported", faces: modern, request: whole},
		{name: "does not name the requested revision", caught: "request.version-unsupported-data", faces: modern, message: failures("", func(_, e peer.Object) {
			if data, ok := e["data"].(peer.Object); ok {
				delete(data, "requested")
			}
		})},
		{name: "lists a revision that it does not discover", caught: "request.version-unsupported-data", message: failures("", func(_, e peer.Object) {
			if data, ok := e["data"].(peer.Object); ok {
				data["supported"] = append(peer.List(data, "supported"), "2030-01-01")
			}
		})},
		{name: "answers unknown methods with 200", caught: "request.unknown-method", faces: modernOnly, head: func(_ *exchange, status *int, _ http.Header) { *status = 200 }},
		{name: "answers unknown methods with another code", caught: "request.unknown-method", faces: modern,
			message: failures("", func(_, e peer.Object) { e["code"] = -32603 })},
		{name: "still pings", caught: "request.removed-methods", faces: modern, request: func(x *exchange) {
			if x.method == "ping" {
				gives(x, empty)
			}
		}},
		{name: "takes what is no JSON", caught: "request.not-json", request: func(x *exchange) { x.reply(202, "", "") }},
		{name: "serves the first of a batch", caught: "request.batch", request: func(x *exchange) {
			x.body = strings.TrimSuffix(strings.TrimPrefix(x.body, "["), "]")
		}},
		{name: "takes responses", caught: "request.response-as-body", request: func(x *exchange) { x.reply(202, "", "") }},
		{name: "needs no jsonrpc", caught: "request.no-jsonrpc", request: func(x *exchange) {
			edit(x, func(o, _, _ peer.Object) { o["jsonrpc"] = "2.0" })
		}},
		{name: "takes the id null", caught: "request.id-null", request: func(x *exchange) {
			edit(x, func(o, _, _ peer.Object) { o["id"] = 1 })
		}},
		{name: "answers notifications with an object", caught: "request.notification", request: func(x *exchange) { x.reply(200, "application/json", "{}") }},
	}
}
