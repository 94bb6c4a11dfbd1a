package modern

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Header names that mirror the body (2026-07-28 streamable HTTP, Standard Request Headers).
const (
	headerMethod = "Mcp-Method"
	headerName   = "Mcp-Name"
)

// Downstream serves modern HTTP clients.
type Downstream struct {
	Handle    proxy.Handler
	Responses mcphttp.ResponseOptions
	// Compat answers a request with status 200 where the revision wants 400 or 404 with a JSON-RPC error: some clients
	// end their whole connection, with all later calls, at a 4xx. Other statuses stay.
	Compat bool
}

// NewDownstream returns a handler for modern clients that passes their requests to handle. Its statuses are those of the
// revision (Compat is off).
func NewDownstream(handle proxy.Handler, responses mcphttp.ResponseOptions) *Downstream {
	responses.Leaves, responses.Status = true, Status
	return &Downstream{Handle: handle, Responses: responses}
}

// Status returns the HTTP status of an error response (2026-07-28 streamable HTTP, Protocol Version Header; basic,
// _meta). Errors of the call itself get 200: official clients read a JSON-RPC error at 200 and 400 only.
func Status(code int) int {
	switch code {
	case proxy.CodeMethodNotFound:
		return fasthttp.StatusNotFound
	case proxy.CodeHeaderMismatch, proxy.CodeMissingCapability, proxy.CodeUnsupportedVersion,
		proxy.CodeParse, proxy.CodeInvalidRequest:
		return fasthttp.StatusBadRequest
	}
	return fasthttp.StatusOK
}

// Post implements mcphttp.EraHandler.
func (d *Downstream) Post(p *mcphttp.Post) (plan mcphttp.Plan) {
	m := &p.Msg
	switch m.Kind {
	case wire.Notification:
		// The revision defines no notification from client to server over HTTP, and no header rules for one. Official
		// clients send some nevertheless, and stop at a refusal.
		mcphttp.Accepted(p.Ctx)
		return plan
	case wire.Request:
	default:
		d.refuse(p, proxy.Errf(proxy.InvalidRequest, "a client may send requests and notifications only, one in a POST"))
		return plan
	}
	headers, err := judge(httpserver.FieldsOf(p.Ctx), m)
	if err != nil {
		d.refuse(p, err)
		return plan
	}
	ex := proxy.Borrow()
	ex.Msg, ex.Caller, ex.Server, ex.Headers, ex.Mirrors, ex.Key, ex.Arrival = *m, p.Caller, p.Server, headers, true, p.Key, p.Arrival
	ex.Client = proxy.Client{Era: proxy.Modern, Version: rules.Named(m), Info: m.Of(m.Info), Caps: m.Of(m.Caps),
		LogLevel: string(m.Text(m.LogLevel))}
	plan.Exchange, plan.Handle, plan.Options = ex, d.Handle, &d.Responses
	if d.Compat {
		plan.Settle = compatStatus
	}
	return plan
}

// compatStatus changes the status of a refused request to 200.
func compatStatus(ctx *fasthttp.RequestCtx) {
	switch ctx.Response.StatusCode() {
	case fasthttp.StatusBadRequest, fasthttp.StatusNotFound:
		ctx.SetStatusCode(fasthttp.StatusOK)
	}
}

// refuse answers with err. With Compat, a body that is not a request keeps its status: its error has no id, which those
// clients do not survive under 200 either.
func (d *Downstream) refuse(p *mcphttp.Post, err *proxy.Error) {
	code := err.Status
	if code == 0 {
		code = Status(err.Code)
	}
	mcphttp.Fail(p.Ctx, code, p.Msg.Of(p.Msg.ID), err)
	if d.Compat && p.Msg.Kind == wire.Request {
		compatStatus(p.Ctx)
	}
}

// judge checks a request's headers and envelope, in the order that is most helpful to clients of other revisions: the
// version first, then the method, then the mirrored headers. It returns the Mcp-Param-* headers.
func judge(h *http1.Fields, m *wire.Message) ([]proxy.Header, *proxy.Error) {
	if err := checkVersion(h, m); err != nil {
		return nil, err
	}
	method := m.Text(m.Method)
	if rules.Removed(method) {
		return nil, proxy.Errf(proxy.MethodNotFound, "method %s does not exist in revision %s", method, m.Text(m.Version))
	}
	if err := checkMirrors(h, m, method); err != nil {
		return nil, err
	}
	if err := rules.EnvelopeRest(m); err != nil {
		return nil, err
	}
	return params(h)
}

func checkVersion(h *http1.Fields, m *wire.Message) *proxy.Error {
	header, err := one(h, mcphttp.HeaderVersion)
	if err != nil {
		return err
	}
	if header == nil {
		return proxy.Errf(proxy.HeaderMismatch, "header %s is missing", mcphttp.HeaderVersion)
	}
	if !m.Version.IsString(m.Raw) {
		return proxy.Errf(proxy.InvalidEnvelope, "params._meta[%q] is missing", wire.MetaPrefix+"protocolVersion")
	}
	version := m.Text(m.Version)
	if !bytes.Equal(version, header) {
		return proxy.Errf(proxy.HeaderMismatch, "header %s does not match params._meta[%q]", mcphttp.HeaderVersion, wire.MetaPrefix+"protocolVersion")
	}
	return rules.EnvelopeVersion(m)
}

// checkMirrors compares Mcp-Method and Mcp-Name with the body.
func checkMirrors(h *http1.Fields, m *wire.Message, method []byte) *proxy.Error {
	if err := match(h, headerMethod, method, false); err != nil {
		return err
	}
	key, about := subject(m, method)
	if key == "" {
		return nil
	}
	if !about.IsString(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.%s must be a string", key)
	}
	return match(h, headerName, m.Text(about), true)
}

// subject returns the parameter that Mcp-Name mirrors for a method, and its place in m; an empty key if there is none.
func subject(m *wire.Message, method []byte) (key string, at wire.Span) {
	switch string(method) {
	case "tools/call", "prompts/get":
		return "name", m.Name
	case "resources/read":
		return "uri", m.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId", m.TaskID // SEP-2663, Routing Headers
	}
	return "", wire.Span{}
}

func match(h *http1.Fields, name string, want []byte, encoded bool) *proxy.Error {
	got, err := one(h, name)
	if err != nil {
		return err
	}
	if got == nil {
		return proxy.Errf(proxy.HeaderMismatch, "header %s is missing", name)
	}
	if encoded && !(bytes.Equal(got, want) && !needsEncoding(want)) {
		plain, derr := decodeHeaderValue(got)
		if derr != nil {
			return proxy.Errf(proxy.HeaderMismatch, "header %s: %w", name, derr)
		}
		got = plain
	}
	if !bytes.Equal(got, want) {
		return proxy.Errf(proxy.HeaderMismatch, "header %s does not match the body", name)
	}
	return nil
}

// one returns the value of a header, nil if it is absent. A header that occurs twice is refused, because two readers
// could choose different values.
func one(h *http1.Fields, name string) ([]byte, *proxy.Error) {
	value, more := h.Only(name)
	if more {
		return nil, proxy.Errf(proxy.HeaderMismatch, "header %s occurs more than once", name)
	}
	return value, nil
}

// params collects the Mcp-Param-* headers, decoded.
func params(h *http1.Fields) (out []proxy.Header, err *proxy.Error) {
	seen := map[string]bool(nil)
	if !h.HasPrefix(translate.ParamHeader) { // most requests have none
		return nil, nil
	}
	for k, v := range h.All() {
		if len(k) <= len(translate.ParamHeader) || !bytes.EqualFold(k[:len(translate.ParamHeader)], []byte(translate.ParamHeader)) {
			continue
		}
		name := strings.ToLower(string(k))
		if seen[name] {
			return nil, proxy.Errf(proxy.HeaderMismatch, "header %s occurs more than once", k)
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		seen[name] = true
		plain, derr := decodeHeaderValue(v)
		if derr != nil || !validHeaderBytes(v) {
			return nil, proxy.Errf(proxy.HeaderMismatch, "the value of header %s is neither plain ASCII nor correctly encoded", k)
		}
		out = append(out, proxy.Header{Name: string(k), Value: string(plain)})
	}
	return out, nil
}

// Only replaces the legacy handlers on a listener that serves no legacy revision. It answers as a modern-only server
// does: initialize with an error that lists the supported revisions (2026-07-28 versioning, Backward Compatibility),
// everything else by the rules of modern requests.
type Only struct{ Modern *Downstream }

// Post implements mcphttp.EraHandler.
func (o Only) Post(p *mcphttp.Post) mcphttp.Plan {
	if m := &p.Msg; m.Kind == wire.Request && m.Is("initialize") {
		o.Modern.refuse(p, rules.NoHandshake(string(m.Text(m.ParamsVersion))))
		return mcphttp.Plan{}
	}
	return o.Modern.Post(p)
}

// Get implements mcphttp.Streams. It answers 405: without sessions there is no GET stream.
func (o Only) Get(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

// Delete implements mcphttp.Streams. It answers 405.
func (o Only) Delete(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

func postOnly(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Allow", "POST")
	mcphttp.Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.InvalidRequest, "this listener has no sessions; POST is the only method"))
}

// NoSSE replaces HTTP+SSE on such a listener.
type NoSSE struct{}

// Get implements mcphttp.SSE.
func (NoSSE) Get(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

// Post implements mcphttp.SSE.
func (NoSSE) Post(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

func noSSE(ctx *fasthttp.RequestCtx) {
	mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.InvalidRequest, "HTTP+SSE is not served here: eras has no legacy revision"))
}
