package rest

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// answer is an HTTP response.
type answer struct {
	status  int
	body    []byte   // read only
	data    borrowed // large data that follows body; m is nil if there is none
	tail    []byte   // follows data
	retryIn int      // seconds; 0: unknown
	tag     string   // the ETag, quotes included; empty: none
	next    string   // reference to the answer that continues this one; empty: none
}

// shaper makes the envelope of a successful result. The message's edits are settled, or none of them concerns the envelope: see
// shapedByEdits.
type shaper func(r *request, m *wire.Message) envelope.Envelope

// completed adds the members that all envelopes have.
func (r *request) completed(e envelope.Envelope) envelope.Envelope {
	now := r.d.opt.Now()
	e.RequestID, e.Timestamp = r.ID, envelope.Timestamp(now)
	e.Meta.Timed, e.Meta.Took, e.Meta.Replayed = true, now.Sub(r.began), r.replayed
	e.Meta.Limited, e.Meta.Remaining = r.left > 0, r.left-1
	return e
}

// learn takes the facts about an exchange that the envelope's meta shows.
func (r *request) learn(ex *proxy.Exchange) { r.replayed, r.left = ex.Replayed, ex.Allowance }

// enveloped makes the answer of an envelope. A status other than 0 replaces that of the envelope's code.
func (r *request) enveloped(e envelope.Envelope, status int) answer {
	switch {
	case status != 0:
	case e.Success:
		status = fasthttp.StatusOK
	default:
		status = e.Code.Status()
	}
	e = r.completed(e)
	return answer{status: status, retryIn: e.Meta.RetryIn, body: e.AppendJSON(make([]byte, 0, len(e.Data)+len(e.Meta.Result)+512))}
}

// answerTo makes the answer of a response: shape decides for a result, the error table for an error of the server.
func (r *request) answerTo(m *wire.Message, shape shaper) answer {
	if r.zeroCopy && m.Kind == wire.Result && m.PartSize(m.Result) >= largeData {
		if a, ok := r.borrowing(m, shape); ok {
			return a
		}
	}
	if _, err := m.Settle(nil); err != nil {
		return r.refusal(proxy.Errf(proxy.Internal, "an edited response is no message: %w", err))
	}
	if m.Kind == wire.Failure {
		return r.refusal(mcpcall.Failure(m))
	}
	if !m.Result.IsObject(m.Raw) { // data has to be an object (seed 000, ResponseEnvelope)
		return r.refusal(proxy.Errf(proxy.BadAnswer, "the upstream server's result is no object"))
	}
	if r.bare {
		return answer{status: fasthttp.StatusOK, body: bytes.Clone(m.Of(m.Result))}
	}
	return r.enveloped(shape(r, m), 0)
}

// refusal makes the answer of an error, of Dragoman's own or of a server.
func (r *request) refusal(err error) answer { return r.enveloped(errorEnvelope(err)) }

// errorEnvelope makes the envelope of an error. A status other than 0 replaces that of the envelope's code.
func errorEnvelope(err error) (e envelope.Envelope, status int) {
	var failed *mcpcall.ServerError
	if errors.As(err, &failed) {
		return envelope.Envelope{Error: orUnexplained(failed.Text), Code: proxy.EnvelopeOf(failed.Code), Meta: envelope.Meta{Cause: cause(failed.Code, failed.Data)}}, 0
	}
	own := proxy.AsError(err)
	meta := envelope.Meta{Cause: cause(own.Code, causeData(own)), Retryable: own.Retryable, RetryIn: own.RetryAfter}
	var bad *catalog.ResultError
	if errors.As(err, &bad) {
		meta.Result = bad.Result
	}
	return envelope.Envelope{Error: orUnexplained(own.Message), Code: own.Envelope, Meta: meta}, own.RESTStatus()
}

// cause is the JSON-RPC error behind an envelope, without its message.
func cause(code int, data []byte) json.RawMessage {
	out := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	if len(data) > 0 {
		out = append(append(out, `,"data":`...), data...)
	}
	return append(out, '}')
}

// causeData is the data of one of Dragoman's errors: at least its name in the error table, and whether a retry may help.
func causeData(e *proxy.Error) []byte {
	if e.Data != nil {
		return e.Data
	}
	data := wire.AppendText([]byte(`{"code":`), e.Name)
	return append(strconv.AppendBool(append(data, `,"retryable":`...), e.Retryable), '}')
}

// orUnexplained returns text, or a substitute if it is empty: the error of an envelope must not be.
func orUnexplained(text string) string {
	if text == "" {
		return "the server gave no reason"
	}
	return text
}

// fail answers with an error.
func (r *request) fail(err error) {
	if e := proxy.AsError(err); e.Challenge != "" {
		r.ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, e.Challenge)
	}
	r.write(r.refusal(err))
}

// give answers with data.
func (r *request) give(data json.RawMessage) {
	r.write(r.enveloped(envelope.Envelope{Success: true, Data: data}, 0))
}

// write sends an answer as the whole response.
func (r *request) write(a answer) (written bool) {
	size := len(a.body)
	if a.data.m != nil {
		size += a.data.m.PartSize(a.data.at)
	}
	if limit := httpserver.ReserveAnswer(r.ctx, size); limit != httpserver.AnswersFit {
		r.write(r.refusal(mcphttp.Unwritable(limit)))
		return false
	}
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(a.status)
	r.ctx.SetContentType("application/json")
	h.Set("X-Request-ID", r.ID)
	if r.replayed {
		h.Set(mcphttp.HeaderReplayed, "true")
	}
	if a.retryIn > 0 {
		h.Set("Retry-After", strconv.Itoa(a.retryIn))
	}
	if a.next != "" {
		h.Set("Link", "<"+a.next+`>; rel="next"`) // RFC 8288
	}
	if a.tag != "" {
		h.Set("ETag", a.tag)
		h.Set("Cache-Control", "private, no-cache") // callers may see different tools
		if matches(httpserver.FieldsOf(r.ctx).PeekAll("If-None-Match"), a.tag) {
			r.ctx.SetStatusCode(fasthttp.StatusNotModified)
			h.SetContentType("")
			return true
		}
	}
	r.ctx.Response.SetBodyRaw(a.body)
	return true
}

// matches reports whether If-None-Match names the tag (RFC 9110, 13.1.2).
func matches(fields [][]byte, tag string) bool {
	for _, field := range fields {
		for one := range bytes.SplitSeq(field, []byte{','}) {
			one = bytes.TrimPrefix(bytes.TrimSpace(one), []byte("W/"))
			if string(one) == tag || string(one) == "*" {
				return true
			}
		}
	}
	return false
}

// plainResult is the shaper of results that are data as they are. A question of the server has a shape of its own
// (2026-07-28 multi-round-trip requests).
func plainResult(_ *request, m *wire.Message) envelope.Envelope {
	if m.ResultType.Is(m.Raw, "input_required") {
		return envelope.Envelope{Success: true, Data: questionData(m)}
	}
	return envelope.Envelope{Success: true, Data: m.Of(m.Result)}
}

// questionData is the data of a result that asks for input. The caller answers by sending the same call again, with
// input_responses under the keys of input_requests and with request_state as it came.
func questionData(m *wire.Message) json.RawMessage {
	p := mcpcall.Members{}
	p.AddText("result_type", "input_required")
	if m.InputRequests.Present() {
		p.Add("input_requests", m.Of(m.InputRequests))
	}
	if s := wire.Get(m.Raw, m.Result, "requestState"); s.Present() {
		p.Add("request_state", s.Of(m.Raw))
	}
	return p.Object()
}

// toolResult is the shaper of tools/call: a tool's own failure is EXECUTION_ERROR, or data if Options says so.
func toolResult(r *request, m *wire.Message) envelope.Envelope {
	if r.d.opt.ToolErrorAsData || !m.ToolFailed() || m.ResultType.Is(m.Raw, "input_required") {
		return plainResult(r, m)
	}
	return envelope.Envelope{Error: failureText(m), Code: proxy.Failed, Meta: envelope.Meta{Result: m.Of(m.Result)}}
}

// failureText joins the text blocks of a tool's failure.
func failureText(m *wire.Message) string {
	var text []byte
	for _, block := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "content")) {
		if words := wire.Get(m.Raw, block, "text"); words.IsString(m.Raw) && wire.Get(m.Raw, block, "type").Is(m.Raw, "text") {
			if len(text) > 0 {
				text = append(text, '\n')
			}
			text = append(text, words.Text(m.Raw)...)
		}
	}
	if len(text) == 0 {
		return "the tool failed and said nothing; meta.result has what it gave"
	}
	return string(text)
}
