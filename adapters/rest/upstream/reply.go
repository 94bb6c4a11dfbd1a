package upstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// resultHead returns the message that answers a request, up to its result. It is also put before a body that is read, so that part of
// the body can become the result in place.
func resultHead(id []byte) []byte {
	return append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...)
}

// resultRoom is the spare capacity, in bytes, for the members that complete a result. More than that costs a copy.
const resultRoom = 512

// reply is the complete answer to a step. It may be anything.
type reply struct {
	step     *step
	status   int
	kind     string // the media type, lower case, without parameters
	location string
	retryIn  int       // seconds; 0: not said
	raw      []byte    // resultHead, unless the answer belongs to no request, and the body
	begin    int       // of the body in raw
	body     wire.Span // the value in raw; absent if it is not JSON
	reason   error     // why it is not
}

// parse finds the value of the body.
func (r *reply) parse() {
	var at wire.Span
	if at, r.reason = wire.ScanValue(r.raw[r.begin:]); r.reason == nil {
		begin := uint32(r.begin) //nolint:gosec // the length of resultHead
		r.body = wire.Span{From: begin + at.From, To: begin + at.To}
	}
}

// hide hides the secrets in an answer that is no success, before any part of it becomes a text.
func (r *reply) hide(ctx context.Context, host *httpclient.Host) {
	if !host.Hides(ctx) || r.status < fasthttp.StatusMultipleChoices && string(wire.Get(r.raw, r.body, "success").Of(r.raw)) == "true" {
		return
	}
	said := r.raw[r.begin:]
	hide := func(text string) string { return host.Hide(ctx, text) }
	if r.body.Present() {
		said = transport.HideJSON(said, hide)
	} else {
		said = []byte(hide(string(said)))
	}
	r.raw = append(r.raw[:r.begin:r.begin], said...)
	r.parse()
}

// parsed is the envelope of a service (seed 000, ResponseEnvelope). Its spans are places in the answer.
type parsed struct {
	success bool
	data    wire.Span          // only with success
	text    string             // only without
	code    proxy.EnvelopeCode // only without
	meta    wire.Span
}

func isNull(b []byte) bool { return b == nil || string(b) == "null" }

func isNumber(b []byte) bool {
	return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9')
}

// envelope reads an answer as an envelope. The error of another answer says what came instead.
func (r *reply) envelope() (e parsed, err error) {
	get := func(key string) wire.Span { return wire.Get(r.raw, r.body, key) }
	if !r.body.IsObject(r.raw) || !get("success").Present() {
		return e, r.foreign("has no member success")
	}
	bad := func(why string) error {
		return proxy.Errf(proxy.BadAnswer, "the service's envelope for %s breaks the rules: %s (HTTP %d)", r.step.what(), why, r.status)
	}
	text, code, data := get("error"), get("code"), get("data")
	e.meta = get("meta")
	switch string(get("success").Of(r.raw)) {
	case "true":
		e.success, e.data = true, data
		switch {
		case r.status >= fasthttp.StatusMultipleChoices:
			return e, bad("success is true")
		case isNull(data.Of(r.raw)):
			return e, bad("success is true, and data is missing")
		case !isNull(text.Of(r.raw)) || !isNull(code.Of(r.raw)):
			return e, bad("success is true, and error or code is not null")
		}
	case "false":
		switch {
		case !text.IsString(r.raw):
			return e, bad("success is false, and error is no string")
		case !code.IsString(r.raw):
			return e, bad("success is false, and code is no string; error: " + httpcall.Printable(text.Text(r.raw)))
		}
		e.text = string(text.Text(r.raw))
		e.code = r.known(proxy.EnvelopeCode(code.Text(r.raw)))
	default:
		return e, bad("success is no boolean")
	}
	if !isNull(e.meta.Of(r.raw)) && !e.meta.IsObject(r.raw) {
		return e, bad("meta is no object")
	}
	return e, nil
}

// known returns the code of the closed set that is nearest to a service's own code, judged by the status.
func (r *reply) known(code proxy.EnvelopeCode) proxy.EnvelopeCode {
	if slices.Contains(proxy.EnvelopeCodes(), code) {
		return code
	}
	switch r.status {
	case 404:
		return proxy.NoSuchTool
	case 400, 422:
		return proxy.BadArguments
	case 429:
		return proxy.RateLimited
	case 503:
		return proxy.Unavailable
	case 408, 504:
		return proxy.TimedOut
	}
	return proxy.Failed
}

// foreign returns the error of an answer that is not an envelope. why completes "a JSON value that …".
func (r *reply) foreign(why string) *proxy.Error {
	what, status := r.step.what(), fasthttp.StatusMessage(r.status)
	f, text := proxy.HTTPStatus, ""
	switch {
	case r.status >= 300 && r.status < 400:
		text = fmt.Sprintf("the service redirects %s (HTTP %d), which is not followed", what, r.status)
		if r.location != "" {
			text += ": set upstreams.NAME.url so that it need not go to " + httpcall.Printable([]byte(r.location))
		}
		return proxy.NewError(proxy.HTTPStatus, wire.ShownText(text))
	case r.status == 401 || r.status == 403:
		f, text = proxy.Refused, "; set the credentials in upstreams.NAME.headers"
	case r.status == 404 || r.status == 405:
		text = "; upstreams.NAME.url must be the base of a service that speaks the REST envelope"
	case r.status == 429 || r.status == 503:
		f = proxy.Overloaded
	case r.status < 300 && !r.body.Present():
		kind := r.kind
		if kind == "" {
			kind = "no media type"
		}
		return proxy.Errf(proxy.BadAnswer, "the service answered %s with HTTP %d (%s), and what is no JSON: %s: %w",
			what, r.status, kind, r.beginning(), r.reason)
	case r.status < 300:
		return proxy.Errf(proxy.BadAnswer, "the service answered %s with HTTP %d and a JSON value that %s: %s", what, r.status, why, r.beginning())
	}
	e := proxy.Errf(f, "the service answered %s with HTTP %d %s and no envelope: %s%s", what, r.status, status, r.beginning(), text)
	e.RetryAfter, e.Cause = r.retryIn, statusError(r.status)
	return e
}

// statusError is the HTTP status behind an error, for the circuit breaker.
type statusError int

// Error implements error.
func (s statusError) Error() string { return "HTTP " + strconv.Itoa(int(s)) }

// HTTPStatus returns the status.
func (s statusError) HTTPStatus() int { return int(s) }

func (r *reply) beginning() string {
	if text := httpcall.Printable(r.raw[min(len(r.raw), r.begin):]); text != "" {
		return text
	}
	return "(an empty body)"
}

// refusal answers the request with an envelope without success, unless it is a tool's own failure. Mistakes of the client become
// JSON-RPC errors, as a server reports them; failures of the service become errors of the error table.
func (c *call) refusal(r *reply, e *parsed) (wire.Message, *step, error) {
	var f proxy.Fault
	what := "the service failed"
	m, known := c.original(r, e)
	switch e.code {
	case proxy.NoSuchTool, proxy.BadArguments:
		if known {
			return m, nil, nil
		}
		return proxy.ErrorMessage(c.id, proxy.NewError(proxy.InvalidParams, e.text)), nil, nil
	case proxy.TimedOut:
		f, what = proxy.UpstreamTimeout, "the service gave up"
	case proxy.RateLimited:
		f, what = proxy.UpstreamLimited, "the service limits how often it is called"
	case proxy.Unavailable:
		f, what = proxy.Overloaded, "the service is not available"
		if string(wire.Path(r.raw, e.meta, "cause", "data", "retryable").Of(r.raw)) == "false" { // the service lost it on the way, and it may have run
			f = proxy.Lost
		}
		c.u.note(what, what+": "+httpcall.Printable([]byte(e.text)))
	default:
		if known {
			return m, nil, nil
		}
		f = proxy.UpstreamFailed
	}
	err := proxy.Errf(f, "%s: %s (%s)", what, e.text, e.code)
	err.RetryAfter, err.Cause = r.retryIn, statusError(r.status)
	if n, nerr := strconv.Atoi(string(wire.Get(r.raw, e.meta, "retry_after").Of(r.raw))); nerr == nil && n > 0 {
		err.RetryAfter = min(n, httpcall.LongestRetry)
	}
	return wire.Message{}, nil, err
}

// original returns the JSON-RPC error behind an envelope if the service gives it in meta.cause, as Dragoman does, so that nothing
// of it is lost. An unsupported revision is not passed on: it concerns the server behind the service.
func (c *call) original(r *reply, e *parsed) (wire.Message, bool) {
	cause := wire.Get(r.raw, e.meta, "cause")
	code, err := strconv.Atoi(string(wire.Get(r.raw, cause, "code").Of(r.raw)))
	if err != nil || code == proxy.CodeUnsupportedVersion {
		return wire.Message{}, false
	}
	failure := wire.Object([]wire.Change{{Key: "code", Value: strconv.AppendInt(nil, int64(code), 10)},
		{Key: "message", Value: wire.AppendText(nil, e.text)}, {Key: "data", Value: wire.Get(r.raw, cause, "data").Of(r.raw)}})
	m, err := wire.Scan(wire.Object([]wire.Change{{Key: "jsonrpc", Value: []byte(`"2.0"`)}, {Key: "id", Value: c.id}, {Key: "error", Value: failure}}))
	return m, err == nil
}
