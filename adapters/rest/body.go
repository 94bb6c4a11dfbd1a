package rest

import (
	"bytes"
	"mime"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// body is the body of a request: one JSON object. It belongs to the connection and is valid until the answer is written.
type body struct {
	raw []byte
	all wire.Span // the object
}

// readBody reads the body of ctx. With mayBeEmpty, an empty body stands for the empty object.
func readBody(ctx *fasthttp.RequestCtx, mayBeEmpty bool) (body, *proxy.Error) {
	if err := jsonBody(ctx); err != nil {
		return body{}, err
	}
	return parseBody(ctx.PostBody(), mayBeEmpty)
}

func parseBody(text []byte, mayBeEmpty bool) (body, *proxy.Error) {
	if len(bytes.Trim(bytes.TrimPrefix(text, bom), " \t\r\n")) == 0 {
		if !mayBeEmpty {
			return body{}, proxy.Errf(proxy.Parse, "the body is empty; send a JSON object")
		}
		text = []byte("{}")
	}
	all, err := wire.ScanValue(text)
	if err != nil {
		return body{}, unreadable(err)
	}
	if !all.IsObject(text) {
		return body{}, proxy.Errf(proxy.InvalidRequest, "the body is JSON, but no object")
	}
	return body{raw: text, all: all}, nil
}

var bom = []byte("\xef\xbb\xbf")

// jsonBody checks the media type of a body. A missing one stands for JSON.
func jsonBody(ctx *fasthttp.RequestCtx) *proxy.Error {
	kind := string(httpserver.FieldsOf(ctx).ContentType())
	if kind == "" || kind == "application/json" {
		return nil
	}
	t, _, err := mime.ParseMediaType(kind)
	if err == nil && (t == "application/json" || strings.HasPrefix(t, "application/") && strings.HasSuffix(t, "+json")) {
		return nil
	}
	return proxy.Errf(proxy.BadMediaType, "Content-Type is %q; send application/json", kind)
}

// unreadable is the error of a body that is not JSON.
func unreadable(err error) *proxy.Error {
	return proxy.Errf(proxy.Parse, "the body is no JSON: %s", strings.TrimPrefix(err.Error(), "wire: "))
}

// pick finds members of the object. It refuses one that occurs twice, because two readers could choose different ones.
func (b *body) pick(keys ...string) ([]wire.Span, *proxy.Error) {
	out := make([]wire.Span, len(keys))
	for k, v := range wire.Members(b.raw, b.all) {
		for i, key := range keys {
			if !k.Is(b.raw, key) {
				continue
			}
			if out[i].Present() {
				return nil, proxy.Errf(proxy.InvalidParams, "member %q occurs twice", key)
			}
			out[i] = v
		}
	}
	return out, nil
}

func (b *body) of(s wire.Span) []byte   { return s.Of(b.raw) }
func (b *body) text(s wire.Span) string { return string(s.Text(b.raw)) }

// null reports whether a member is absent or null, which libraries write for what callers leave out.
func (b *body) null(s wire.Span) bool { return !s.Present() || string(s.Of(b.raw)) == "null" }

// wrong is the error of a member of the wrong type.
func wrong(key, want string) *proxy.Error {
	return proxy.Errf(proxy.InvalidParams, "member %q must be %s", key, want)
}

// missing is the error of a required member that is absent.
func missing(key, fix string) *proxy.Error {
	return proxy.Errf(proxy.InvalidParams, "member %q is missing; %s", key, fix)
}

// acceptsStream reports whether an Accept header prefers an event stream to JSON.
func acceptsStream(accept string) bool {
	stream, json := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/event-stream":
			stream = quality(params)
		case "application/json":
			json = quality(params)
		}
	}
	return stream > json
}

// quality returns the weight in the parameters of a media range (RFC 9110, 12.4.2); 1 if there is none.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		if k, v, ok := strings.Cut(p, "="); ok && strings.EqualFold(strings.TrimSpace(k), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
		}
	}
	return 1
}
