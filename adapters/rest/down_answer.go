package rest

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// judge makes an envelope of a good result. The message's edits are settled, or such that they do not matter to it: see judgedAsItStands.
type judge func(r *request, m *wire.Message) envelope.Envelope

// answer is what a caller gets.
type answer struct {
	status  int
	body    []byte // is not changed
	data    lent   // large data behind body, and
	tail    []byte // what comes behind that
	retryIn int    // seconds; 0: unknown
	tag     string // an ETag, quotes included; empty: none
}

// envelope completes an envelope: the same in every answer.
func (r *request) envelope(e envelope.Envelope) envelope.Envelope {
	now := r.d.opt.Now()
	e.RequestID, e.Timestamp = r.id, envelope.Timestamp(now)
	e.Meta.Timed, e.Meta.Took, e.Meta.Replayed = true, now.Sub(r.began), r.again
	e.Meta.Limited, e.Meta.Remaining = r.left > 0, r.left-1
	return e
}

// learn takes from an exchange what its answer is to tell.
func (r *request) learn(ex *proxy.Exchange) { r.again, r.left = ex.Replayed, ex.Allowance }

// seal makes the answer of an envelope. status is what to say instead of the status of the envelope's code; 0: nothing.
func (r *request) seal(e envelope.Envelope, status int) answer {
	switch {
	case status != 0:
	case e.Success:
		status = fasthttp.StatusOK
	default:
		status = e.Code.Status()
	}
	e = r.envelope(e)
	return answer{status: status, retryIn: e.Meta.RetryIn, body: e.AppendJSON(make([]byte, 0, len(e.Data)+len(e.Meta.Result)+512))}
}

// render makes the answer of a response: of a result what judge says, of a server's error what the table says.
func (r *request) render(m *wire.Message, judge judge) answer {
	if r.apart && m.Kind == wire.Result && m.PartSize(m.Result) >= largeData {
		if a, ok := r.renderApart(m, judge); ok {
			return a
		}
	}
	if _, err := m.Settle(nil); err != nil {
		return r.refusal(proxy.Errf(proxy.Internal, "an edited response is no message: %w", err))
	}
	if m.Kind == wire.Failure {
		return r.refusal(failure(m))
	}
	if !m.Result.IsObject(m.Raw) { // so that data is one (seed 000, ResponseEnvelope); null above all would be no success
		return r.refusal(proxy.Errf(proxy.BadAnswer, "the upstream server's result is no object"))
	}
	if r.bare {
		return answer{status: fasthttp.StatusOK, body: bytes.Clone(m.Of(m.Result))}
	}
	return r.seal(judge(r, m), 0)
}

// refusal makes the answer of an error: one of Dragoman's, or a server's own.
func (r *request) refusal(err error) answer { return r.seal(explained(err)) }

// explained makes the envelope of an error, and the status to go with it.
func explained(err error) (envelope.Envelope, int) {
	var failed *serverError
	if errors.As(err, &failed) {
		return envelope.Envelope{Error: said(failed.text), Code: proxy.EnvelopeOf(failed.code), Meta: envelope.Meta{Cause: cause(failed.code, failed.data)}}, 0
	}
	e := proxy.AsError(err)
	meta := envelope.Meta{Cause: cause(e.Code, causeData(e)), Retryable: e.Retryable, RetryIn: e.RetryAfter}
	var bad *misfit
	if errors.As(err, &bad) {
		meta.Result = bad.result
	}
	return envelope.Envelope{Error: said(e.Message), Code: e.Envelope, Meta: meta}, e.RESTStatus()
}

// causeData is what a program may want to know of one of Dragoman's errors: its row in the table at least.
func causeData(e *proxy.Error) []byte {
	if e.Data != nil {
		return e.Data
	}
	data := wire.AppendText([]byte(`{"code":`), e.Name)
	return append(strconv.AppendBool(append(data, `,"retryable":`...), e.Retryable), '}')
}

// said is a text that is never empty: error of an envelope must not be.
func said(text string) string {
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
	r.write(r.seal(envelope.Envelope{Success: true, Data: data}, 0))
}

// write sends an answer as the whole response.
func (r *request) write(a answer) {
	h := &r.ctx.Response.Header
	r.ctx.SetStatusCode(a.status)
	r.ctx.SetContentType("application/json")
	h.Set("X-Request-ID", r.id)
	if r.again {
		h.Set(mcphttp.HeaderReplayed, "true")
	}
	if a.retryIn > 0 {
		h.Set("Retry-After", strconv.Itoa(a.retryIn))
	}
	if a.tag != "" {
		h.Set("ETag", a.tag)
		h.Set("Cache-Control", "private, no-cache") // each may see other tools
		if matches(httpd.FieldsOf(r.ctx).PeekAll("If-None-Match"), a.tag) {
			r.ctx.SetStatusCode(fasthttp.StatusNotModified)
			h.SetContentType("")
			return
		}
	}
	r.ctx.Response.SetBodyRaw(a.body)
}

// matches tells whether what the caller has is what the tag stands for (RFC 9110, 13.1.2).
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

// whole gives a result as data; a question of the server's is data of its own shape (2026-07-28 multi-round-trip requests).
func whole(_ *request, m *wire.Message) envelope.Envelope {
	if m.ResultType.Is(m.Raw, "input_required") {
		return envelope.Envelope{Success: true, Data: asked(m)}
	}
	return envelope.Envelope{Success: true, Data: m.Of(m.Result)}
}

// asked is the data of a result that asks: the caller answers by the same call with input_responses, under the keys of
// input_requests, and request_state as it was given.
func asked(m *wire.Message) json.RawMessage {
	p := members{}
	p.addText("result_type", "input_required")
	if m.InputRequests.Present() {
		p.add("input_requests", m.Of(m.InputRequests))
	}
	if s := wire.Get(m.Raw, m.Result, "requestState"); s.Present() {
		p.add("request_state", s.Of(m.Raw))
	}
	return braced(p)
}

// toolResult judges the result of a tool: its own failure is EXECUTION_ERROR, unless that is to be data.
func toolResult(r *request, m *wire.Message) envelope.Envelope {
	if r.d.opt.ToolErrorAsData || !m.ToolFailed() || m.ResultType.Is(m.Raw, "input_required") {
		return whole(r, m)
	}
	return envelope.Envelope{Error: spoken(m), Code: proxy.Failed, Meta: envelope.Meta{Result: m.Of(m.Result)}}
}

// spoken is the text of a tool's failure: that of its content.
func spoken(m *wire.Message) string {
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
