package upstream

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"dragoman/adapters/httpd"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Upstream is a service that serves the REST envelope (seed 000), as a modern MCP server: it is one link for everybody, which
// answers server/discover by itself and makes a request of the service of every other. What the service has beside tools is
// found by asking for it.
type Upstream struct {
	host   *httpd.Host
	path   string // of the base, without a slash at its end
	query  string // of the base, "?" included; empty if it has none
	limits mcphttp.Limits
	about  atomic.Pointer[profile] // what the service said of itself last

	checking sync.Mutex // held by who asks for the health
	health   atomic.Pointer[health]
}

// New makes the upstream for the service whose endpoints lie below base, a path with its query, at host. limits bound
// what is read of its answers.
func New(host *httpd.Host, base string, limits mcphttp.Limits) *Upstream {
	path, query, asked := strings.Cut(base, "?")
	if asked {
		query = "?" + query
	}
	return &Upstream{host: host, path: strings.TrimRight(path, "/"), query: query, limits: limits}
}

// Dial is the transport.Dial of the service, for modern exchanges.
func (u *Upstream) Dial(context.Context, transport.Sink) (transport.Link, error) { return u, nil }

// Call implements transport.Link. Cancelling closes the connection, which is all that the envelope has for it.
func (u *Upstream) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	id := ex.Msg.Of(ex.Msg.ID)
	c := &call{u: u, ex: ex, m: ex.Msg, id: id, opening: resultHead(id), least: ex.Client.LogLevel}
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

// Send implements transport.Link. The modern era defines no message to a server but requests: it is dropped.
func (u *Upstream) Send(context.Context, []byte) error { return nil }

// Close implements transport.Link; the host belongs to who made it.
func (u *Upstream) Close() error { return nil }

// LastWords says in an error about silence what was asked for in truth.
func (u *Upstream) LastWords() string {
	return ": of a service that speaks the envelope GET " + u.target("/health") + " and GET " + u.target("/tools") + " are asked for"
}

// target is the request target of an endpoint.
func (u *Upstream) target(endpoint string) string { return u.path + endpoint + u.query }

// asking is the target of an endpoint with a parameter in its query, unless its value is empty. What a service does not know
// it finds easier to overlook there than in the body.
func (u *Upstream) asking(endpoint, parameter, value string) string {
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

// plan decides what the service is asked for in place of a method.
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

// list is a GET of one page of a list.
func (c *call) list(endpoint string, take take) *step {
	return &step{verb: "GET", endpoint: endpoint, target: c.u.asking(endpoint, "cursor", string(c.m.Text(c.m.Cursor))), take: take}
}

// post is a POST of what the request is about, under the given name; the rest is called as in the request.
func (c *call) post(endpoint, about string, take take) *step {
	m, params := &c.m, c.m.Params
	subject := m.Name
	if about == "uri" {
		subject = m.URI
	} else if about == "ref" {
		subject = wire.Get(m.Raw, params, "ref")
	}
	b := object{}
	b.add(about, m.Of(subject))
	switch about {
	case "ref":
		b.add("argument", wire.Get(m.Raw, params, "argument").Of(m.Raw))
		b.add("context", wire.Get(m.Raw, params, "context").Of(m.Raw))
	case "tool", "name":
		arguments := m.Of(m.Arguments)
		if arguments == nil || bytes.Equal(arguments, []byte("null")) {
			arguments = []byte("{}")
		}
		b.add("arguments", arguments)
	}
	b.add("input_responses", m.Of(m.InputResponses))
	b.add("request_state", m.Of(m.ReqState))
	b.add("request_id", wire.AppendText(nil, envelope.NewRequestID()))
	return &step{verb: "POST", endpoint: endpoint, target: c.u.asking(endpoint, "log_level", c.least), body: b.done(),
		live: c.token != nil || c.least != "", take: take}
}

// object is a JSON object in the making, perhaps behind something else; the zero value is ready.
type object struct {
	raw []byte
	any bool // it has members
}

// key begins a member, whose value is to be appended to raw. The key needs no escaping.
func (o *object) key(key string) {
	o.next()
	o.raw = append(append(append(o.raw, '"'), key...), `":`...)
}

func (o *object) next() {
	sep := byte(',')
	if !o.any {
		sep = '{'
	}
	o.raw, o.any = append(o.raw, sep), true
}

// add appends a member unless its value, raw JSON, is nil. The key needs no escaping.
func (o *object) add(key string, value []byte) {
	if value != nil {
		o.key(key)
		o.raw = append(o.raw, value...)
	}
}

// addRaw appends a member whose key is raw JSON.
func (o *object) addRaw(key, value []byte) {
	o.next()
	o.raw = append(append(append(o.raw, key...), ':'), value...)
}

// done closes the object, which is not to be added to any more.
func (o *object) done() []byte {
	if !o.any {
		o.raw = append(o.raw, '{')
	}
	return append(o.raw, '}')
}
