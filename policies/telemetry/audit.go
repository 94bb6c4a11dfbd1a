package telemetry

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// AuditOptions configures [Audit].
type AuditOptions struct {
	Log       *AuditLog
	Methods   []string           // methods that are recorded; "*" stands for all
	Arguments policies.Arguments // how much of their arguments is recorded
}

// Audit returns the policy that writes a line of JSON to the trail for each request of certain methods when it is over,
// however it ends: who asked for what, whether that was allowed, and the outcome. The members are those of a
// McpToolInvocation (seed 003), except that only the size of the result is recorded, and arguments as far as
// opt.Arguments allows. It runs outside all policies that refuse requests, and is nil without a trail. HTTP requests
// that are refused before they become exchanges have [Refusals].
func Audit(opt AuditOptions) proxy.Policy {
	if opt.Log == nil {
		return nil
	}
	all := slices.Contains(opt.Methods, "*")
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request || ex.Own || !all && !slices.Contains(opt.Methods, string(ex.Msg.Text(ex.Msg.Method))) {
				return next(ex)
			}
			// The message as it came: a later policy may rename the tool in it.
			a := &audited{opt: &opt, ex: ex, msg: ex.Msg, began: time.Now()}
			replies, err := next(ex)
			if err != nil {
				a.failed(err)
				return nil, err
			}
			a.Replies = replies
			return a, nil
		}
	}
}

type audited struct {
	proxy.Replies
	opt   *AuditOptions
	ex    *proxy.Exchange
	msg   wire.Message
	began time.Time
	done  bool
}

// Next implements proxy.Replies.
func (a *audited) Next(until time.Time) (*wire.Message, error) {
	m, err := a.Replies.Next(until)
	switch {
	case a.done || policies.Pending(err):
	case err != nil:
		a.failed(err)
	case m.IsResponse():
		a.answered(m)
	}
	return m, err
}

// Close implements proxy.Replies.
func (a *audited) Close() error {
	if !a.done {
		a.failed(policies.Unanswered(a.ex))
	}
	return a.Replies.Close()
}

// answered writes the line of a request that has a response.
func (a *audited) answered(m *wire.Message) { a.write(answered(&a.msg, m)) }

func (a *audited) failed(err error) {
	if !a.done {
		a.write(failed(a.ex, err))
	}
}

// ending is the outcome of a request.
type ending struct {
	ok      bool
	outcome string
	code    int
	why     []byte
	size    int    // of the response
	policy  string // policy that has denied it; empty: none has
}

// Outcomes of a request that is answered.
const (
	outcomeOK    = "ok"
	needsAnswers = "input_required" // the client answers questions first
)

// answered returns the outcome of a request that has a response.
func answered(request, m *wire.Message) ending {
	if m.Kind == wire.Failure {
		return ending{outcome: "server_error", code: m.ErrorCode, why: m.Text(m.ErrorText), size: m.Size()}
	}
	end := ending{ok: true, outcome: outcomeOK, size: m.Size()}
	if request.Is(toolsCall) && m.ToolFailed() {
		end.outcome = "tool_error"
	} else if m.ResultType.Is(m.Raw, needsAnswers) {
		end.outcome = needsAnswers
	}
	return end
}

// failed returns the outcome of a request that has no response.
func failed(ex *proxy.Exchange, err error) ending {
	e := proxy.AsError(err)
	policy := cmp.Or(ex.RefusedBy, refusals[e.Name])
	if ex.Refusal != nil {
		policy = cmp.Or(policy, "protocol")
	}
	return ending{outcome: e.Name, code: e.Code, why: []byte(e.Message), policy: policy}
}

// States of an invocation of a tool (seed 002, ToolInvocation). One that is over was in VALIDATING, ROUTING or EXECUTING before.
const (
	stateValidating = "VALIDATING"
	stateRouting    = "ROUTING"
	stateExecuting  = "EXECUTING"
	stateCompleted  = "COMPLETED"
	stateFailed     = "FAILED"
)

// state returns the state of an invocation: COMPLETED with a result, also with one that reports an error of the tool; EXECUTING while questions are
// to be answered first; else FAILED, and in which state it failed.
func (e *ending) state(ex *proxy.Exchange) (state, failedIn string) {
	switch {
	case e.outcome == needsAnswers:
		return stateExecuting, ""
	case e.ok:
		return stateCompleted, ""
	case ex.UpstreamEra != 0:
		return stateFailed, stateExecuting
	case e.policy == "router" || e.policy == "health" || e.policy == "" && (ex.Target == "" || e.outcome == proxy.ToolUnknown.Name):
		return stateFailed, stateRouting
	case e.policy == "":
		return stateFailed, stateExecuting
	}
	return stateFailed, stateValidating
}

// refusals maps the rows of the error table by which policies refuse requests to the names of these policies.
var refusals = map[string]string{
	proxy.InsufficientScope.Name: "scopes", proxy.Unauthenticated.Name: "auth", proxy.BadCredentials.Name: "auth", proxy.ForbiddenOrigin.Name: "origin",
	proxy.TooFast.Name: "rate", proxy.Busy.Name: "limits", proxy.TooManySessions.Name: "limits", proxy.TooManyParked.Name: "limits",
	proxy.DuplicateID.Name: "idempotency", proxy.BadVersion.Name: "eras", proxy.ArgumentsInvalid.Name: "schema", proxy.UpstreamDown.Name: "health",
	proxy.NoKeys.Name: "auth", proxy.ServerUnknown.Name: "router", proxy.SessionUnknown.Name: "session", proxy.SessionMissing.Name: "session",
	proxy.RequestTooLarge.Name: "limits", proxy.HeadTooLarge.Name: "limits", proxy.RequestSlow.Name: "limits",
	proxy.BadMediaType.Name: "http", proxy.NotAcceptable.Name: "http", proxy.PathUnknown.Name: "http", proxy.VerbUnknown.Name: "http",
	proxy.Parse.Name: "protocol", proxy.InvalidRequest.Name: "protocol", proxy.InvalidEnvelope.Name: "protocol", proxy.HeaderMismatch.Name: "protocol",
	proxy.BadState.Name: "protocol", proxy.PolicyDenied.Name: "policy_hook", proxy.PolicyUnavailable.Name: "policy_hook",
	proxy.LoopDetected.Name: "loop",
}

// auditTime is RFC 3339 in UTC with milliseconds.
const auditTime = "2006-01-02T15:04:05.000Z"

var auditLines = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

func (a *audited) write(end ending) {
	a.done = true
	now := time.Now()
	buf := auditLines.Get().(*[]byte)
	b := append((*buf)[:0], '{')
	b = a.appendWho(b)
	b = a.appendWhat(b)
	b = end.append(b)
	if a.msg.Is(toolsCall) {
		state, in := end.state(a.ex)
		b = appendMember(appendMember(b, "state", state), "failedIn", in)
	}
	b = now.UTC().AppendFormat(append(a.began.UTC().AppendFormat(append(b, `,"startedAt":"`...), auditTime), `","finishedAt":"`...), auditTime)
	b = strconv.AppendInt(append(b, `","durationMs":`...), max(now.Sub(a.began).Milliseconds(), 0), 10)
	b = append(b, "}\n"...)
	if bytes.ContainsFunc(b, func(r rune) bool { return r >= 0x7f }) { // arguments are recorded as they came
		b = wire.AppendVisible(make([]byte, 0, len(b)+64), b)
	}
	a.opt.Log.Write(a.ex, b)
	if *buf = b; cap(b) <= keptTrail {
		auditLines.Put(buf)
	}
}

// appendWho appends the ids and the caller.
func (a *audited) appendWho(b []byte) []byte {
	ex := a.ex
	b = wire.AppendText(append(b, `"invocationId":`...), proxy.NewRequestID())
	b = appendMember(b, "correlationId", ex.ID())
	b = appendMember(b, "traceId", ex.Trace.TraceID())
	b = append(b, `,"sessionId":`...)
	if s := ex.Session; s != nil {
		b = wire.AppendText(b, s.ID[:min(6, len(s.ID))])
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"requestId":`...)
	if id := a.msg.ID; id.IsString(a.msg.Raw) {
		b = wire.AppendShown(b, a.msg.Text(id))
	} else if text := a.msg.Of(id); len(text) <= wire.MaxShown {
		b = append(b, text...)
	} else {
		b = append(b, "null"...)
	}
	b = appendMember(b, "principal", ex.Caller.Principal)
	if r := ex.Caller.Rights; r != nil {
		b = appendMember(b, "credential", r.Kind)
		b = appendMember(b, "user", r.Name)
	}
	if at := ex.Arrival; at != nil && at.Address.IsValid() {
		b = append(at.Address.AppendTo(append(b, `,"address":"`...)), '"')
	}
	b = appendMember(b, "era", ex.Client.Era.String())
	b = appendMember(b, "protocolVersion", ex.Client.Version)
	b = appendMember(b, "clientName", ofClient(ex.Client.Info, "name"))
	b = appendMember(b, "clientVersion", ofClient(ex.Client.Info, "version"))
	return b
}

// ofClient returns a text from the object in which a client describes itself.
func ofClient(obj []byte, name string) []byte {
	if len(obj) == 0 {
		return nil
	}
	return wire.Get(obj, wire.Whole(obj), name).Text(obj)
}

// appendWhat appends what was asked for, and of which server.
func (a *audited) appendWhat(b []byte) []byte {
	ex, m := a.ex, &a.msg
	b = appendMember(b, "method", m.Text(m.Method))
	b = appendMember(b, "server", cmp.Or(ex.Target, ex.Server))
	if ex.UpstreamEra != 0 {
		b = appendMember(b, "upstreamEra", ex.UpstreamEra.String())
	}
	switch {
	case m.Is(toolsCall):
		b = appendMember(b, "toolName", m.Text(m.Name))
		if ex.Through != "" {
			b = appendMember(b, "through", ex.Through)
		}
	case m.Name.Present():
		b = appendMember(b, "name", m.Text(m.Name))
	case m.URI.Present():
		b = appendMember(b, "uri", m.Text(m.URI))
	}
	if m.Arguments.Present() {
		b = strconv.AppendInt(append(b, `,"argumentsBytes":`...), int64(m.Arguments.To-m.Arguments.From), 10)
		b, _ = a.opt.Arguments.Append(b, "arguments", "argumentKeys", m.Raw, m.Arguments)
	}
	return b
}

// append appends the outcome.
func (e *ending) append(b []byte) []byte {
	if e.policy != "" {
		b = appendMember(append(b, `,"decision":"denied"`...), "policy", e.policy)
	} else {
		b = append(b, `,"decision":"allowed"`...)
	}
	if e.ok {
		b = append(b, `,"status":"ok"`...)
	} else {
		b = append(b, `,"status":"error"`...)
	}
	b = appendMember(b, "outcome", e.outcome)
	if e.size > 0 {
		b = strconv.AppendInt(append(b, `,"resultBytes":`...), int64(e.size), 10)
	}
	if !e.ok {
		b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(e.code), 10)
		b = wire.AppendShown(append(b, `,"message":`...), e.why)
		b = append(b, '}')
	}
	return b
}

// appendMember appends a member with a text as wire.Shown has it. It leaves out an empty text.
func appendMember[T string | []byte](b []byte, key string, text T) []byte {
	if len(text) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), key...), `":`...)
	return wire.AppendShown(b, text)
}
