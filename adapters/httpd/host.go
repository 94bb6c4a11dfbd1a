package httpd

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	waist "dragoman/proxy"
)

// Header is a field sent with every request. Its value is never logged.
type Header struct{ Name, Value string }

// Forward says which field that a client sent goes on to the server, and under which name. Values are never logged.
type Forward struct{ From, To string } // From is in lower case

// HostOptions are what a Host is made with. A zero value stands for the default named with each.
type HostOptions struct {
	// URL is http://…, https://…, or unix:/path/to/socket, to which :/path/of/the/resource may be added. Its path and query
	// serve requests that have none. Credentials in it are refused; they belong into Headers.
	URL        string
	CAFile     string      // PEM file of the roots to trust instead of the system's
	ServerName string      // whom the certificate must name; the URL's host
	TLS        *tls.Config // further settings, such as a client certificate; it is copied
	// Proxy is the URL of an http or https proxy, "off", or empty for what the environment says (HTTP_PROXY, HTTPS_PROXY,
	// NO_PROXY). https goes through it by CONNECT, http by requests in absolute form; a Unix socket never does.
	Proxy   string
	Headers []Header
	// Forward are the fields that a request takes from what is carried in the context of Send (proxy.Forwarded), and from nowhere
	// else: what is not there is not sent.
	Forward []Forward
	// Credentials, if not nil, gives the Authorization of each request.
	Credentials Credentials

	ConnectTimeout time.Duration // for the whole way to a usable connection, TLS included; 10 s
	WriteTimeout   time.Duration // for each write of up to 256 KiB, and at most twice as long; 30 s
	IdleLimit      time.Duration // how long an unused connection is kept; 4 s, below the 5 s of Node servers
	MaxIdle        int           // unused connections kept; 256
	MaxConns       int           // connections at once, streams among them, else ErrTooManyConns; 1024
	MaxHeader      int           // bytes of a response's head; 16 KiB, and each connection has a buffer of this size
}

// Credentials are what a Host shows that is not known when it is made.
type Credentials interface {
	// Authorization gives the value of the field for one request; it may wait for it as long as ctx allows.
	Authorization(ctx context.Context) (string, error)
	// Refused is told of a value that was answered with 401. It does not wait.
	Refused(value string)
}

// Host is one upstream origin and its pool of connections. Its methods may be called from any goroutine.
type Host struct {
	opts      HostOptions
	dial      dialer
	authority string // for the Host field
	path      string // for requests without one
	absolute  string // scheme and authority before the path, for an http proxy; else empty
	proxyAuth string
	tls       *tls.Config // nil for plain

	mu     sync.Mutex
	idle   []*upConn // the last used last
	open   int       // with those in use and those being made
	timer  *time.Timer
	armed  bool
	due    time.Time // when the timer is, if it is armed
	closed bool
}

// NewHost checks the options and makes a Host; it does not connect.
func NewHost(opts HostOptions) (*Host, error) {
	opts.setDefaults()
	for _, field := range opts.Headers {
		if !ValidName(field.Name) || !ValidValue(field.Value) {
			return nil, fmt.Errorf("httpd: header %q: name or value not allowed", field.Name)
		}
	}
	for _, field := range opts.Forward {
		if !ValidName(field.From) || !ValidName(field.To) {
			return nil, fmt.Errorf("httpd: forwarded header %q as %q: name not allowed", field.From, field.To)
		}
	}
	h := &Host{opts: opts}
	if err := h.parse(opts.URL); err != nil {
		return nil, err
	}
	if h.dial.secure {
		config, err := tlsConfig(opts, h.dial.name)
		if err != nil {
			return nil, err
		}
		h.tls = config
	}
	return h, nil
}

func (o *HostOptions) setDefaults() {
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.IdleLimit, 4*time.Second)
	setDefault(&o.MaxIdle, 256)
	setDefault(&o.MaxConns, 1024)
	setDefault(&o.MaxHeader, 16<<10)
}

// parse takes the URL apart and settles the way there.
func (h *Host) parse(raw string) error {
	if rest, ok := strings.CutPrefix(raw, "unix:"); ok {
		socket, path, _ := strings.Cut(rest, ":")
		if strings.HasPrefix(socket, "///") {
			socket = socket[2:]
		}
		if socket == "" || path != "" && !validTarget(path) {
			return fmt.Errorf("httpd: upstream %q: want unix:/path/to/socket or unix:/path/to/socket:/path", raw)
		}
		h.dial = dialer{network: "unix", addr: socket}
		h.authority, h.path = "localhost", or(path, "/")
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("httpd: upstream URL: want http://host, https://host or unix:/path") // it may hold a secret
	}
	if u.User != nil {
		return fmt.Errorf("httpd: upstream %s: credentials in the URL; set a header instead", u.Redacted())
	}
	h.authority, h.path = u.Host, u.RequestURI()
	h.dial = dialer{network: "tcp", addr: withPort(u), secure: u.Scheme == "https", name: or(h.opts.ServerName, u.Hostname())}
	proxy, err := proxyFor(u, h.opts.Proxy)
	if err != nil {
		return err
	}
	if proxy == nil {
		return nil
	}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		h.proxyAuth = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
	}
	h.dial.proxy, h.dial.proxySecure, h.dial.proxyName = withPort(proxy), proxy.Scheme == "https", proxy.Hostname()
	if !h.dial.secure {
		h.absolute = "http://" + u.Host
	}
	return nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Authority is what goes into the Host field: host, and port if the URL has one.
func (h *Host) Authority() string { return h.authority }

// Path is the URL's path and query, "/" at least.
func (h *Host) Path() string { return h.path }

// Send writes req and returns without waiting for the response. It sets Host, Content-Length and the Host's static headers on
// it, and removes Accept-Encoding: answers are to come unpacked. ctx ends the wait for a connection, and a large
// write; once Send has returned, Abort is the way to cancel.
//
// A pooled connection that fails before the kernel has taken a byte is replaced by another. Errors: ErrTooManyConns,
// ErrClosed, *DialError, *WriteError, *MalformedError for a request that must not be sent; Unsent tells them apart.
func (h *Host) Send(ctx context.Context, req *Request) (Answer, error) {
	shown, err := h.prepare(ctx, req)
	if err != nil {
		return Answer{}, err
	}
	for {
		c, err := h.take(ctx)
		if err != nil {
			return Answer{}, err
		}
		c.begin()
		c.headOnly = req.is("HEAD")
		c.lastUse, c.shown = req.close, shown
		if err = c.write(ctx, req); err == nil {
			return Answer{c: c, gen: c.gen.Load()}, nil
		}
		stale := c.served > 0
		h.drop(c)
		if !stale || !Unsent(err) || ctx.Err() != nil {
			return Answer{}, err
		}
	}
}

// prepare sets what every request has and refuses what would break out of its place in the message. It answers the credentials
// that are shown, if any.
func (h *Host) prepare(ctx context.Context, req *Request) (shown string, err error) {
	if !ValidName(or(req.Method, "GET")) {
		return "", &MalformedError{What: "request method"}
	}
	if req.Target == "/" {
		req.Target = ""
	}
	if req.Target != "" && (req.Target[0] != '/' || !validTarget(req.Target)) {
		return "", &MalformedError{What: "request target"}
	}
	for _, name := range [...]string{"Host", "Accept-Encoding", "Proxy-Authorization"} {
		req.Del(name)
	}
	for i := range h.opts.Headers {
		req.SetKnown(h.opts.Headers[i].Name, h.opts.Headers[i].Value) // both were looked at by NewHost
	}
	if h.absolute != "" && h.proxyAuth != "" {
		req.SetKnown("Proxy-Authorization", h.proxyAuth) // base64
	}
	for _, name := range [...]string{"Transfer-Encoding", "Content-Length"} { // whatever they said, the body decides
		req.Del(name)
	}
	h.carry(ctx, req)
	if t := waist.TraceIn(ctx); t != nil {
		trace(req, t)
	}
	if h.opts.Credentials != nil {
		if shown, err = h.opts.Credentials.Authorization(ctx); err != nil {
			return "", err
		}
		_ = req.Set("Authorization", shown) // as with the others, req.err has it
	}
	req.close = req.close || hasItem(req.fields.get("Connection"), "close")
	return shown, req.err
}

// carry sends on what the request on whose behalf this one is made has brought along.
func (h *Host) carry(ctx context.Context, req *Request) {
	if len(h.opts.Forward) == 0 {
		return
	}
	carried := waist.ForwardedFrom(ctx)
	for i := range h.opts.Forward {
		to := h.opts.Forward[i].To
		req.Del(to)
		if value, ok := carried.Get(h.opts.Forward[i].From); ok {
			_ = req.Set(to, value) // req.err has it
		}
	}
}

// trace says in which trace a request is made (W3C Trace Context, W3C Baggage), in place of whatever said so before.
func trace(req *Request, t *waist.Trace) {
	for _, x := range [...]waist.Header{{Name: "Traceparent", Value: t.Parent}, {Name: "Tracestate", Value: t.State}, {Name: "Baggage", Value: t.Baggage}} {
		req.Del(x.Name)
		if x.Value != "" {
			_ = req.Set(x.Name, x.Value) // req.err has it
		}
	}
}

// Close closes the unused connections and refuses further requests. Answers under way are not touched.
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
