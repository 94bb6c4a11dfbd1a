package rest

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// judge makes an envelope of a good result. The message's edits are settled.
type judge func(r *request, m *wire.Message) Envelope

// answer is what a caller gets.
type answer struct {
	status  int
	body    []byte
	retryIn int // seconds; 0: unknown
}

// envelope completes an envelope: the same in every answer.
func (r *request) envelope(e Envelope) Envelope {
	now := r.d.opt.Now()
	e.RequestID, e.Timestamp = r.id, Timestamp(now)
	e.Meta.Timed, e.Meta.Took, e.Meta.Replayed = true, now.Sub(r.began), r.again
	return e
}

// seal makes the answer of an envelope. status is what to say instead of the status of the envelope's code; 0: nothing.
func (r *request) seal(e Envelope, status int) answer {
	switch {
	case status != 0:
	case e.Success:
		status = fasthttp.StatusOK
	default:
		status = e.Code.Status()
	}
	e = r.envelope(e)
	return answer{status, e.AppendJSON(make([]byte, 0, len(e.Data)+len(e.Meta.Result)+512)), e.Meta.RetryIn}
}

// render makes the answer of a response: of a result what judge says, of a server's error what the table says.
func (r *request) render(m *wire.Message, judge judge) answer {
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
		return answer{fasthttp.StatusOK, append([]byte(nil), m.Of(m.Result)...), 0}
	}
	e := judge(r, m)
	return r.seal(e, 0)
}

// refusal makes the answer of an error: one of Dragoman's, or a server's own.
func (r *request) refusal(err error) answer {
	var failed *serverError
	if errors.As(err, &failed) {
		return r.seal(Envelope{Error: said(failed.text), Code: proxy.EnvelopeOf(failed.code), Meta: Meta{Cause: cause(failed.code, failed.data)}}, 0)
	}
	e := proxy.AsError(err)
	meta := Meta{Cause: cause(e.Code, causeData(e)), Retryable: e.Retryable, RetryIn: e.RetryAfter}
	return r.seal(Envelope{Error: said(e.Message), Code: e.Envelope, Meta: meta}, e.Status)
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
func (r *request) fail(err error) { r.write(r.refusal(err)) }

// give answers with data.
func (r *request) give(data json.RawMessage) { r.write(r.seal(Envelope{Success: true, Data: data}, 0)) }

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
	r.ctx.Response.SetBodyRaw(a.body)
}

// whole gives a result as data; a question of the server's is data of its own shape (2026-07-28 multi-round-trip requests).
func whole(_ *request, m *wire.Message) Envelope {
	if m.ResultType.Is(m.Raw, "input_required") {
		return Envelope{Success: true, Data: asked(m)}
	}
	return Envelope{Success: true, Data: m.Of(m.Result)}
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
func toolResult(tool *Tool) judge {
	return func(r *request, m *wire.Message) Envelope {
		result := m.Of(m.Result)
		switch {
		case m.ResultType.Is(m.Raw, "input_required"):
			return whole(r, m)
		case string(wire.Get(m.Raw, m.Result, "isError").Of(m.Raw)) == "true":
			if r.d.opt.ToolErrorAsData {
				return Envelope{Success: true, Data: result}
			}
			return Envelope{Error: spoken(m), Code: proxy.Failed, Meta: Meta{Result: result}}
		}
		if why := r.misfit(tool, m); why != "" {
			return Envelope{Error: why, Code: proxy.Failed, Meta: Meta{Result: result}}
		}
		return Envelope{Success: true, Data: result}
	}
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

// misfit says why a tool's structured result does not fit its outputSchema; empty if it does, or nobody wants to know.
func (r *request) misfit(tool *Tool, m *wire.Message) string {
	if !r.d.opt.CheckResults || r.d.opt.Check == nil || tool.Output == nil {
		return ""
	}
	got := wire.Get(m.Raw, m.Result, "structuredContent")
	if !got.Present() {
		return "the tool has an outputSchema, but its result has no structuredContent"
	}
	v, err := r.d.opt.Check.Check(tool.Output, got.Of(m.Raw))
	switch {
	case err != nil:
		r.complain(tool, "outputSchema", err)
		return ""
	case v == nil:
		return ""
	}
	return fmt.Sprintf("the tool's structuredContent does not fit its outputSchema at %q: %s (%s)", v.Path, v.Message, v.Rule)
}

// complain tells once of a schema that cannot be used.
func (r *request) complain(tool *Tool, which string, err error) {
	if had, _ := r.d.told.ContainsOrAdd(r.server+"\x00"+tool.Name+"\x00"+which, struct{}{}); !had {
		r.d.opt.Note("warn", "the "+which+" of tool "+strconv.Quote(tool.Name)+" cannot be used; nothing is checked against it", err)
	}
}
