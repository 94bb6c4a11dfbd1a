package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"dragoman/adapters/eventstream"
)

const (
	// maxBody is the maximum size of a body that is read whole, and of an event, in bytes.
	maxBody = 64 << 20
	// connectTime is the timeout for connecting.
	connectTime = 10 * time.Second
)

// Field is one line of a request's head. Lines of the same name are sent separately, in order.
type Field struct{ Name, Value string }

// Fields are the lines of a head.
type Fields []Field

// With returns the fields with some set. Each replaces all fields of its name; Drop removes them.
func (f Fields) With(more ...Field) Fields {
	out := make(Fields, 0, len(f)+len(more))
	for _, x := range f {
		if !has(more, x.Name) {
			out = append(out, x)
		}
	}
	for _, x := range more {
		if x.Value != dropped {
			out = append(out, x)
		}
	}
	return out
}

const dropped = "\x00"

// Drop returns a field for With that removes all fields of its name.
func Drop(name string) Field { return Field{name, dropped} }

func has(fields []Field, name string) bool {
	for _, x := range fields {
		if strings.EqualFold(x.Name, name) {
			return true
		}
	}
	return false
}

// Watcher sees all sent (>) and received (<) data, with the name of the stream.
type Watcher func(direction byte, where, text string)

// HTTP is an endpoint. Its methods may be called from any goroutine.
type HTTP struct {
	URL    string
	always Fields
	client *http.Client
}

// NewHTTP returns an endpoint. always are fields of every request, such as credentials. It caches nothing, follows no redirects and keeps
// no cookies. Like the clients of users it uses the proxies of the environment.
func NewHTTP(url string, always Fields, tlsConfig *tls.Config) *HTTP {
	return &HTTP{URL: url, always: always, client: &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, DisableCompression: true, MaxIdleConnsPerHost: 8,
			IdleConnTimeout: 5 * time.Second, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: 1 << 20},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Always returns the first value of a field of every request; false if there is none.
func (h *HTTP) Always(name string) (value string, ok bool) {
	for _, f := range h.always {
		if strings.EqualFold(f.Name, name) {
			return f.Value, true
		}
	}
	return "", false
}

// Bare returns the same endpoint without one of the fields of every request, for "" without all of them.
func (h *HTTP) Bare(name string) *HTTP {
	out := &HTTP{URL: h.URL, client: h.client}
	if name != "" {
		out.always = h.always.With(Drop(name))
	}
	return out
}

// Close closes idle connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Request is an HTTP request, which is sent exactly as given.
type Request struct {
	Method string // empty: POST
	URL    string // empty: the endpoint's
	Host   string // empty: the URL's
	Header Fields
	Body   string
}

// String returns the request as evidence, without the fields of every request, which may be secret.
func (r Request) String() string {
	var b strings.Builder
	b.WriteString(r.method())
	if r.URL != "" {
		b.WriteString(" " + r.URL)
	}
	if r.Host != "" {
		b.WriteString("\nHost: " + r.Host)
	}
	for _, f := range r.Header {
		b.WriteString("\n" + f.Name + ": " + f.Value)
	}
	if r.Body != "" {
		b.WriteString("\n\n" + r.Body)
	}
	return b.String()
}

func (r Request) method() string {
	if r.Method == "" {
		return http.MethodPost
	}
	return r.Method
}

// Response is an HTTP response for one goroutine at a time. It must be closed.
type Response struct {
	Status int
	Header http.Header
	Type   string // media type without its parameters, in lower case
	body   io.ReadCloser
	split  eventstream.Splitter
	text   string
	whole  bool
	cut    error
	cancel context.CancelFunc
	watch  Watcher
	// OnText is called with the body once it is read, unless it is empty or cut short, and with the data of each event that carries a message. It may be nil.
	OnText func(text string)
	// Patience is the timeout for the next event, after which the response is closed; 0 is none.
	Patience time.Duration
}

// Send sends a request and waits for the head of its response. The end of ctx ends the whole response, its stream included.
func (h *HTTP) Send(ctx context.Context, r Request, watch Watcher) (*Response, error) {
	url := r.URL
	if url == "" {
		url = h.URL
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, r.method(), url, strings.NewReader(r.Body))
	if err != nil {
		cancel()
		return nil, err
	}
	if r.Host != "" {
		req.Host = r.Host
	}
	req.Header["User-Agent"] = []string{"dragoman-conformance"}
	for _, fields := range []Fields{h.always, r.Header} {
		for _, f := range fields {
			name := http.CanonicalHeaderKey(f.Name)
			req.Header[name] = append(req.Header[name], f.Value)
		}
	}
	show(watch, '>', "HTTP", r.String())
	res, err := h.client.Do(req)
	if err != nil {
		cancel()
		show(watch, '<', "HTTP", "no response: "+err.Error())
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	out := &Response{Status: res.StatusCode, Header: res.Header, Type: kind, body: res.Body, cancel: cancel, watch: watch}
	out.split.Reset(maxBody)
	show(watch, '<', "HTTP", head(res))
	return out, nil
}

// head returns the lines of a head that are evidence.
func head(res *http.Response) string {
	var b strings.Builder
	b.WriteString(res.Status)
	for _, name := range []string{"Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Allow", "Www-Authenticate", "Retry-After", "X-Accel-Buffering"} {
		for _, v := range res.Header[name] {
			b.WriteString("\n" + name + ": " + v)
		}
	}
	return b.String()
}

func show(watch Watcher, direction byte, where, text string) {
	if watch != nil {
		watch(direction, where, text)
	}
}

// Streams reports whether the response is an event stream.
func (r *Response) Streams() bool { return r.Type == "text/event-stream" }

// Text reads and returns the whole body. It returns an error if the body is cut short or too long.
func (r *Response) Text() (string, error) {
	if r.whole {
		return r.text, r.cut
	}
	r.whole = true
	raw, err := io.ReadAll(io.LimitReader(r.body, maxBody+1))
	if err == nil && len(raw) > maxBody {
		err = fmt.Errorf("peer: a body over %d bytes", maxBody)
	}
	r.text, r.cut = string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))), err
	if r.text != "" {
		show(r.watch, '<', "HTTP", r.text)
		if r.OnText != nil && err == nil {
			r.OnText(r.text)
		}
	}
	return r.text, err
}

// Event is an event of a stream.
type Event struct {
	Name, Data, ID string
	HasID, HasData bool
	Retry          int // milliseconds; -1: none
}

// Next returns the next event of a stream; io.EOF at its end, io.ErrUnexpectedEOF if it was cut.
func (r *Response) Next() (Event, error) {
	var late *time.Timer
	if r.Patience > 0 {
		late = time.AfterFunc(r.Patience, r.cancel)
	}
	e, err := r.split.Next(r.body)
	if late != nil && !late.Stop() && err != nil {
		err = fmt.Errorf("no event came within %s", r.Patience)
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			show(r.watch, '<', "event stream", "(its end)")
		}
		return Event{}, err
	}
	out := Event{Name: string(e.Name), Data: string(e.Data), ID: string(e.ID), HasID: e.HasID, HasData: e.Data != nil, Retry: e.Retry}
	show(r.watch, '<', "event stream", out.String())
	if r.OnText != nil && out.IsMessage() {
		r.OnText(out.Data)
	}
	return out, nil
}

// IsMessage reports whether an event carries a message. One without data, such as a priming event, does not.
func (e Event) IsMessage() bool { return e.Data != "" && (e.Name == "" || e.Name == "message") }

// String returns the event as evidence.
func (e Event) String() string {
	var b strings.Builder
	if e.Name != "" {
		b.WriteString("event: " + e.Name + "\n")
	}
	if e.HasID {
		b.WriteString("id: " + e.ID + "\n")
	}
	if e.Retry >= 0 {
		fmt.Fprintf(&b, "retry: %d\n", e.Retry)
	}
	if e.HasData {
		b.WriteString("data: " + e.Data + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Whole reports whether the body was read.
func (r *Response) Whole() bool { return r.whole }

// Close ends the response, read or not.
func (r *Response) Close() {
	r.cancel()
	_ = r.body.Close()
}
