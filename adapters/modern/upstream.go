package modern

import (
	"context"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Upstream connects to a modern HTTP server. One link serves all clients, because the era has no sessions.
type Upstream struct {
	host   *httpclient.Host
	path   string
	limits httpcall.Limits
	next   atomic.Uint64
}

// NewUpstream returns an Upstream for the server at path of host.
func NewUpstream(host *httpclient.Host, path string, limits httpcall.Limits) *Upstream {
	return &Upstream{host: host, path: path, limits: limits}
}

// Dial implements transport.Dial. It returns u itself and never fails.
func (u *Upstream) Dial(context.Context, transport.Sink) (transport.Link, error) { return u, nil }

// Call implements transport.Link. A modern client's body is sent unchanged. In a legacy client's body the id is replaced,
// because clients of different sessions use the same ids.
func (u *Upstream) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	var c *httpcall.Call
	var minted *httpcall.MintedCall
	if ex.Session != nil {
		minted = proxy.Lend[httpcall.MintedCall](ex, proxy.SlotWire)
		minted.Minted.Put(m, u.next.Add(1))
		c = &minted.Call
		c.ID = minted.Minted.ID
	} else {
		c = proxy.Lend[httpcall.Call](ex, proxy.SlotWire)
		c.ID = m.Of(m.ID) // borrowed as long as the call lasts
	}
	c.Limits = u.limits
	req := httpcall.PostTemplate.Acquire(fasthttp.MethodPost, u.path, nil)
	if err := mirrorHeaders(req, ex); err != nil {
		req.Release()
		return nil, err
	}
	if err := c.Do(ex, u.host, req); err != nil {
		return nil, err
	}
	if minted != nil {
		return minted, nil
	}
	return c, nil
}

// mirrorHeaders sets the headers that mirror the body: the revision, the method, the subject of the request, and the
// parameters that the tool's schema marks (SEP-2243). The error is a *proxy.Error for a value that cannot be a header.
func mirrorHeaders(r *http1.Request, ex *proxy.Exchange) error {
	m := &ex.Msg
	version := rules.ModernVersion
	if ex.Client.Era == proxy.Modern && ex.Client.Version != "" {
		version = ex.Client.Version
	}
	r.SetKnown(mcphttp.HeaderVersion, version)
	method := m.Text(m.Method)
	if err := r.SetValue(headerMethod, method); err != nil {
		return proxy.Errf(proxy.InvalidParams, "the method cannot be a header: %w", err)
	}
	if key, about := subject(m, method); key != "" && about.IsString(m.Raw) {
		_ = r.SetValue(headerName, headerValue(m.Text(about))) // always printable ASCII
	}
	for _, p := range ex.Headers {
		if err := r.SetBytes(p.Name, headerValue([]byte(p.Value))); err != nil {
			return proxy.Errf(proxy.HeaderMismatch, "header %s: %w", p.Name, err)
		}
	}
	return nil
}

// Send implements transport.Link. It drops msg: the era defines only requests from a client to a server.
func (u *Upstream) Send(context.Context, []byte) error { return nil }

// Close implements transport.Link. It leaves the host open, which belongs to its creator.
func (u *Upstream) Close() error { return nil }
