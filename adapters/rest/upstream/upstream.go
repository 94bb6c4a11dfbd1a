// Package upstream makes an MCP server of a service that speaks the REST envelope (seed 000).
package upstream

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Upstream presents a service as a modern MCP server. It is one link for all callers: it answers server/discover itself and turns
// every other request into one of the service. It requests the service's other endpoints to find its features besides tools.
type Upstream struct {
	host    *httpclient.Host
	path    string // of the base, without a slash at its end
	query   string // of the base, "?" included; empty if it has none
	limits  httpcall.Limits
	profile atomic.Pointer[profile] // of the service's last answers

	checking sync.Mutex // held while GET /health is in progress
	health   atomic.Pointer[health]
}

// New makes the upstream of a service at host, whose endpoints are below base, a path with an optional query. limits bound its
// answers.
func New(host *httpclient.Host, base string, limits httpcall.Limits) *Upstream {
	path, query, asked := strings.Cut(base, "?")
	if asked {
		query = "?" + query
	}
	return &Upstream{host: host, path: strings.TrimRight(path, "/"), query: query, limits: limits}
}

// Dial implements transport.Dial, for modern exchanges.
func (u *Upstream) Dial(context.Context, transport.Sink) (transport.Link, error) { return u, nil }

// Call implements transport.Link. Cancellation closes the connection: the envelope has no message for it.
func (u *Upstream) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	id := ex.Msg.Of(ex.Msg.ID)
	c := &call{u: u, ex: ex, m: ex.Msg, id: id, opening: resultHead(id), logLevel: ex.Client.LogLevel}
	if len(c.m.Edits) > 0 {
		m, err := wire.Scan(c.m.Append(nil))
		if err != nil {
			return nil, proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
		}
		c.m = m
	}
	c.token = c.m.Of(c.m.Token)
	first, err := c.plan()
	if err != nil {
		return nil, err
	}
	ex.Attach(c)
	if err := c.begin(first); err != nil {
		ex.Detach(c)
		return nil, c.fault(err)
	}
	return c, nil
}

// Send implements transport.Link. It drops the message: the modern era defines none to a server but requests.
func (u *Upstream) Send(context.Context, []byte) error { return nil }

// Close implements transport.Link. The host stays open.
func (u *Upstream) Close() error { return nil }

// LastWords returns the addition to errors about a silent server: the requests that were sent in place of MCP's.
func (u *Upstream) LastWords() string {
	return ": of a service that speaks the envelope GET " + u.target("/health") + " and GET " + u.target("/tools") + " are asked for"
}

// target returns the request target of an endpoint.
func (u *Upstream) target(endpoint string) string { return u.path + endpoint + u.query }

// targetWith returns the target of an endpoint with a query parameter, unless its value is empty. Services ignore an unknown parameter
// more often in the query than in the body.
func (u *Upstream) targetWith(endpoint, parameter, value string) string {
	target := u.target(endpoint)
	if value == "" {
		return target
	}
	sep := "?"
	if u.query != "" {
		sep = "&"
	}
	return target + sep + parameter + "=" + url.QueryEscape(value)
}

// plan returns the first request to the service for the method of the call.
func (c *call) plan() (*step, error) {
	switch method := string(c.m.Text(c.m.Method)); method {
	case "server/discover":
		return c.discover(), nil
	case "tools/list":
		return c.list("/tools", (*call).tools), nil
	case "resources/list":
		return c.list("/resources", (*call).resources), nil
	case "resources/templates/list":
		return c.list("/resources", (*call).templates), nil
	case "prompts/list":
		return c.list("/prompts", (*call).prompts), nil
	case "tools/call":
		return c.post("/call-tool", "tool", (*call).called), nil
	case "resources/read":
		return c.post("/read-resource", "uri", (*call).read), nil
	case "prompts/get":
		return c.post("/get-prompt", "name", (*call).prompted), nil
	case "completion/complete":
		return c.post("/complete", "ref", (*call).completion), nil
	default:
		return nil, proxy.Errf(proxy.MethodNotFound, "method %s is not offered: the server is a REST service, which has nothing like it", method)
	}
}

// list makes the GET of one page of a list.
func (c *call) list(endpoint string, handle answerHandler) *step {
	return &step{verb: "GET", endpoint: endpoint, target: c.u.targetWith(endpoint, "cursor", string(c.m.Text(c.m.Cursor))), handle: handle}
}

// post makes a POST. Its body has the subject of the request as the member about, and the other params under the envelope's names.
func (c *call) post(endpoint, about string, handle answerHandler) *step {
	m, params := &c.m, c.m.Params
	subject := m.Name
	if about == "uri" {
		subject = m.URI
	} else if about == "ref" {
		subject = wire.Get(m.Raw, params, "ref")
	}
	b := wire.Builder{Raw: []byte{'{'}}
	b.Add(about, m.Of(subject))
	switch about {
	case "ref":
		b.Add("argument", wire.Get(m.Raw, params, "argument").Of(m.Raw))
		b.Add("context", wire.Get(m.Raw, params, "context").Of(m.Raw))
	case "tool", "name":
		arguments := m.Of(m.Arguments)
		if isNull(arguments) {
			arguments = []byte("{}")
		}
		b.Add("arguments", arguments)
	}
	b.Add("input_responses", m.Of(m.InputResponses))
	b.Add("request_state", m.Of(m.ReqState))
	b.Add("request_id", wire.AppendText(nil, envelope.NewRequestID()))
	return &step{verb: "POST", endpoint: endpoint, target: c.u.targetWith(endpoint, "log_level", c.logLevel), body: b.Done(),
		events: c.token != nil || c.logLevel != "", handle: handle}
}
