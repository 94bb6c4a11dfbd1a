package httpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/proxy"
	"dragoman/proxy/redact"
)

// Header is a field that is sent with every request. Its value is never logged.
type Header struct{ Name, Value string }

// Forward names a field that is forwarded from the client to the server, and its name there. Values are never logged.
type Forward struct{ From, To string } // From is in lower case

// HostOptions configure a Host. A zero value stands for the default at the end of each comment.
type HostOptions struct {
	// URL is http://…, https://…, or unix:/path/to/socket, to which :/path/of/the/resource may be added. Requests without a
	// target take its path and query. Credentials in it are refused; they belong into Headers.
	URL    string
	CAFile string // PEM file of the roots to trust instead of the system's
	// Proxy is the URL of an http or https proxy, "off", or empty for the environment's (HTTP_PROXY, HTTPS_PROXY, NO_PROXY). https goes
	// through it by CONNECT, http by requests in absolute form; a Unix socket never does.
	Proxy   string
	Headers []Header
	// Forward are the fields that a request takes from the forwarded headers in the context of Send (proxy.Forwarded), and from nowhere
	// else.
	Forward []Forward
	// Credentials, if not nil, provides the Authorization of each request.
	Credentials Credentials
	// Secrets are values besides these that Hide hides, those of Headers included.
	Secrets *redact.Secrets

	// Via is this intermediary in the Via field of requests, behind those that a client's request has passed (RFC 9110 §7.6.3); empty: there
	// is no such field.
	Via string

	// Refuse, if not nil, judges the address of each connection before it is made, after names are resolved: with a proxy the proxy's. Its
	// error is that of the connection. A Unix socket is not judged.
	Refuse func(to netip.AddrPort) error

	ConnectTimeout time.Duration // for a usable connection, proxy and TLS included; 10 s
	WriteTimeout   time.Duration // for each write of up to 256 KiB; at most twice as long; 30 s
	IdleLimit      time.Duration // of an unused connection; 4 s, below the 5 s of Node servers
	MaxIdle        int           // unused connections kept; 256
	MaxConns       int           // connections at once, streams included, else ErrTooManyConns; 1024, or an eighth of the open files allowed, but 64 at least
	MaxHeader      int           // bytes of the head of a response; 16 KiB, and the size of each connection's buffer

	Arrivals *Arrivals // counts the answers that arrive, with those of other Hosts; no bound
	// Overrun, if not nil, is called with the *ArrivalError of a response that Arrivals had no room for: the first, then one a minute. It
	// must not block.
	Overrun func(err error)
}

// Credentials are credentials that change over time, such as access tokens.
type Credentials interface {
	// Authorization returns the value of the field for one request. It may wait as long as ctx allows.
	Authorization(ctx context.Context) (string, error)
	// Refused reports a value that was answered with 401. It does not wait.
	Refused(value string)
	// Hide hides the values in a text.
	Hide(text string) string
}

// Host is one upstream origin and its pool of connections. Its methods may be called from any goroutine.
type Host struct {
	opts      HostOptions
	dial      dialer
	origin    http1.Origin
	proxyAuth string
	tls       *tls.Config // nil: none
	stalls    atomic.Bool // the server has paused within a response

	mu     sync.Mutex
	idle   []*conn // the last used last
	open   int     // unused, in use, or being made
	timer  *time.Timer
	armed  bool
	due    time.Time // when the timer fires, if it is armed
	closed bool

	held    int       // bytes of all its connections; Arrivals.mu guards it
	overran time.Time // when Overrun was called last; likewise
}

// NewHost checks the options and makes a Host; it does not connect.
func NewHost(opts HostOptions) (*Host, error) {
	opts.setDefaults()
	for _, field := range opts.Headers {
		if !http1.ValidName(field.Name) || !http1.ValidValue(field.Value) {
			return nil, fmt.Errorf("httpd: header %q: name or value not allowed", field.Name)
		}
	}
	for _, field := range opts.Forward {
		if !http1.ValidName(field.From) || !http1.ValidName(field.To) {
			return nil, fmt.Errorf("httpd: forwarded header %q as %q: name not allowed", field.From, field.To)
		}
	}
	h := &Host{opts: opts}
	if opts.Via != "" {
		if !http1.ValidValue(opts.Via) {
			return nil, errors.New("httpd: the value of Via is not allowed")
		}
		h.origin.Via = "Via: " + opts.Via + "\r\n"
	}
	err := h.parse(opts.URL)
	if err == nil && h.tls != nil && opts.CAFile != "" {
		h.tls.RootCAs, err = readRoots(opts.CAFile)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (o *HostOptions) setDefaults() {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.IdleLimit = cmp.Or(o.IdleLimit, 4*time.Second)
	o.MaxIdle = cmp.Or(o.MaxIdle, 256)
	o.MaxConns = cmp.Or(o.MaxConns, maxConns(netpoll.MaxOpenFiles()))
	o.MaxHeader = cmp.Or(o.MaxHeader, 16<<10)
}

// maxConns is one server's share of the open files, so that none can take them from the others and from the clients; 0 files: the
// limit is not known.
func maxConns(files int) int {
	const most, least = 1024, 64
	if files == 0 {
		return most
	}
	return min(most, max(least, files/8))
}

// parse splits the URL and decides how to reach the server.
func (h *Host) parse(raw string) error {
	if rest, ok := strings.CutPrefix(raw, "unix:"); ok {
		socket, path, _ := strings.Cut(rest, ":")
		if strings.HasPrefix(socket, "///") {
			socket = socket[2:]
		}
		if socket == "" || path != "" && !http1.ValidTarget(path) {
			return fmt.Errorf("httpd: upstream %q: want unix:/path/to/socket or unix:/path/to/socket:/path", raw)
		}
		h.dial = dialer{network: "unix", addr: socket}
		h.origin.Authority, h.origin.Path = "localhost", cmp.Or(path, "/")
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("httpd: upstream URL: want http://host, https://host or unix:/path") // it may hold a secret
	}
	if u.User != nil {
		return fmt.Errorf("httpd: upstream %s: credentials in the URL; set a header instead", u.Redacted())
	}
	h.origin.Authority, h.origin.Path = u.Host, u.RequestURI()
	h.dial = dialer{network: "tcp", addr: withPort(u)}
	h.tls = tlsFor(u)
	via, err := proxyFor(u, h.opts.Proxy)
	if err != nil {
		return err
	}
	if via == nil {
		return nil
	}
	if user := via.User; user != nil {
		password, _ := user.Password()
		h.proxyAuth = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
	}
	h.dial.proxy, h.dial.proxyTLS = withPort(via), tlsFor(via)
	if h.tls == nil {
		h.origin.Absolute = "http://" + u.Host
	}
	return nil
}

func withPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// Authority returns the value of the Host field: the host, and the port if the URL has one.
func (h *Host) Authority() string { return h.origin.Authority }

// Quotes reports whether errors may quote what the server answers besides the protocol. Those of a server whose address came from outside the
// configuration may not: it could be a service that only Dragoman reaches.
func (h *Host) Quotes() bool { return h.opts.Refuse == nil }

// Hides reports whether Hide can hide anything in texts for ctx.
func (h *Host) Hides(ctx context.Context) bool {
	return h.opts.Secrets != nil || h.opts.Credentials != nil || len(h.opts.Forward) > 0 && proxy.ForwardedFrom(ctx) != nil
}

// Hide returns a text of the server without the secrets that it knows from requests: Secrets, Credentials, and the forwarded fields
// of ctx, except those for tracing.
func (h *Host) Hide(ctx context.Context, text string) string {
	text = h.opts.Secrets.Whole(text)
	if h.opts.Credentials != nil {
		text = h.opts.Credentials.Hide(text)
	}
	return HideForwarded(ctx, h.opts.Forward, text)
}

// HideForwarded returns a text without the fields of ctx that are forwarded, except those for tracing.
func HideForwarded(ctx context.Context, forward []Forward, text string) string {
	forwarded := proxy.ForwardedFrom(ctx)
	if forwarded == nil {
		return text
	}
	var values []string
	for i := range forward {
		if from := forward[i].From; proxy.Identifies(from) {
			value, _ := forwarded.Get(from)
			values = append(values, value)
		}
	}
	return redact.New(values...).Whole(text)
}

// Send writes req and returns without waiting for the response. It adds Host, Content-Length and the Host's static headers, and removes
// Accept-Encoding, because responses are not decompressed. ctx ends the wait for a connection and a large write; once Send has returned,
// Response.Abort cancels.
//
// A pooled connection that fails before the kernel has taken a byte is replaced by another. Errors: ErrTooManyConns, ErrClosed,
// *DialError, *WriteError, *http1.MalformedError for a request that must not be sent; Unsent tells them apart.
func (h *Host) Send(ctx context.Context, req *http1.Request) (Response, error) {
	credentials, err := h.prepare(ctx, req)
	if err != nil {
		return Response{}, err
	}
	for {
		c, err := h.take(ctx)
		if err != nil {
			return Response{}, err
		}
		c.begin()
		c.headOnly = req.Is("HEAD")
		c.lastUse, c.credentials = http1.HasItem(req.Field("Connection"), "close"), credentials
		if err = c.write(ctx, req); err == nil {
			return Response{c: c, gen: c.gen.Load()}, nil
		}
		stale := c.served > 0
		h.drop(c)
		if !stale || !Unsent(err) || ctx.Err() != nil {
			return Response{}, err
		}
	}
}

// prepare adds the fields that every request has, and refuses a method, target or field that would inject lines into the head. It
// returns the Authorization of the Host's Credentials, if any.
func (h *Host) prepare(ctx context.Context, req *http1.Request) (credentials string, err error) {
	if !http1.ValidName(cmp.Or(req.Method, "GET")) {
		return "", &http1.MalformedError{What: "request method"}
	}
	if req.Target == "/" {
		req.Target = ""
	}
	if req.Target != "" && (req.Target[0] != '/' || !http1.ValidTarget(req.Target)) {
		return "", &http1.MalformedError{What: "request target"}
	}
	for _, name := range [...]string{"Host", "Accept-Encoding", "Proxy-Authorization"} {
		req.Del(name)
	}
	for i := range h.opts.Headers {
		req.SetKnown(h.opts.Headers[i].Name, h.opts.Headers[i].Value) // NewHost has checked both
	}
	if h.origin.Absolute != "" && h.proxyAuth != "" {
		req.SetKnown("Proxy-Authorization", h.proxyAuth) // base64
	}
	for _, name := range [...]string{"Transfer-Encoding", "Content-Length"} { // the body decides
		req.Del(name)
	}
	h.forward(ctx, req)
	if h.origin.Via != "" {
		if via := proxy.ViaIn(ctx); via != "" {
			_ = req.Set("Via", via) // req.Err returns it
		}
	}
	if t := proxy.TraceIn(ctx); t != nil {
		trace(req, t)
	}
	if h.opts.Credentials != nil {
		if credentials, err = h.opts.Credentials.Authorization(ctx); err != nil {
			return "", err
		}
		_ = req.Set("Authorization", credentials) // req.Err returns it
	}
	return credentials, req.Err()
}

// forward sets the fields that are forwarded from the client's request.
func (h *Host) forward(ctx context.Context, req *http1.Request) {
	if len(h.opts.Forward) == 0 {
		return
	}
	forwarded := proxy.ForwardedFrom(ctx)
	for i := range h.opts.Forward {
		to := h.opts.Forward[i].To
		req.Del(to)
		if value, ok := forwarded.Get(h.opts.Forward[i].From); ok {
			_ = req.Set(to, value) // req.Err returns it
		}
	}
}

// trace sets the trace of a request (W3C Trace Context, W3C Baggage).
func trace(req *http1.Request, t *proxy.Trace) {
	for _, x := range [...]proxy.Header{{Name: "Traceparent", Value: t.Parent}, {Name: "Tracestate", Value: t.State}, {Name: "Baggage", Value: t.Baggage}} {
		req.Del(x.Name)
		if x.Value != "" {
			_ = req.Set(x.Name, x.Value) // req.Err returns it
		}
	}
}

// Close closes the unused connections and refuses further requests. Responses under way are not touched.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	idle := h.idle
	h.idle = nil
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	for _, c := range idle {
		h.drop(c)
	}
	return nil
}
