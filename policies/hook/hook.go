package hook

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configures a [Hook].
type Options struct {
	// Ask sends a question and returns the body of the answer. It returns soon after ctx has ended. An error with an HTTPStatus method is
	// an answer with that status. It is required.
	Ask func(ctx context.Context, question []byte) ([]byte, error)
	// Methods are those of requests that are asked about.
	Methods []string
	// Arguments says how much of arguments and results a question has. Its bounds are set here.
	Arguments policies.Arguments
	Results   bool          // results are asked about, too
	Timeout   time.Duration // of one question
	FailOpen  bool          // what cannot be asked about is permitted
	Cache     int           // most answers that are kept; 0: none
	Metrics   *Metrics
	// Span begins the span of a question below that of its request, and returns it as the question carries it. end is called with the
	// outcome. Nil: there is no tracing.
	Span func(of *proxy.Trace, phase string) (own *proxy.Trace, end func(outcome string))
	// Failing is called with the error when questions begin to fail, and with nil when the first is answered again. It must not block.
	Failing func(err error)
	Now     func() time.Time // nil: time.Now
}

// Phases of a request in which it is asked about.
const (
	phaseRequest = "request"
	phaseResult  = "result"
)

// Hook asks about requests. The methods of a nil Hook do nothing.
type Hook struct {
	opt     Options
	known   *answers // nil: none are kept
	failing atomic.Bool
}

// New returns a Hook.
func New(opt Options) *Hook {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Arguments.Value, opt.Arguments.Bytes = maxText, maxShown
	return &Hook{opt: opt, known: newAnswers(opt.Cache)}
}

// Policy returns the policy that asks about the requests for one server, or nil for a nil Hook. It stands where names are the server's own.
// annotations returns what a tool says of itself, a JSON object; nil: unknown.
func (h *Hook) Policy(server string, annotations func(tool []byte) []byte) proxy.Policy {
	if h == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			listed := h.asks(ex.Msg.Text(ex.Msg.Method))
			if !listed && !h.endsCall(&ex.Msg) {
				return next(ex)
			}
			q := h.question(ex, server, annotations)
			if listed {
				if err := h.request(ex, q); err != nil {
					return nil, err
				}
			}
			target := ex.Target
			replies, err := next(ex)
			if err != nil || !h.opt.Results {
				return replies, err
			}
			return &judged{Replies: replies, h: h, ex: ex, q: q, target: target, listed: listed}, nil
		}
	}
}

// asks reports whether requests of a method are asked about.
func (h *Hook) asks(method []byte) bool { return slices.Contains(h.opt.Methods, string(method)) }

// endsCall reports whether a request is for the result of a call that runs as a task, if results of calls are asked about.
func (h *Hook) endsCall(m *wire.Message) bool {
	return h.opt.Results && (m.Is("tasks/result") || m.Is("tasks/get")) && h.asks([]byte("tools/call"))
}

// request asks whether a request may go to its server. The error refuses it.
func (h *Hook) request(ex *proxy.Exchange, q *question) error {
	if q.unasked != "" {
		h.opt.Metrics.count(phaseRequest, denied, unasked)
		return proxy.Errf(proxy.PolicyDenied, "the policy hook is not asked about this request, which is therefore denied: %s", q.unasked)
	}
	a := begin(ex, h.opt.Timeout)
	got, err := h.decide(a.ctx, ex.Trace, q.body(phaseRequest))
	a.end(ex)
	ex.Clock.Waited()
	switch {
	case err != nil && ex.Err() != nil:
		return ex.Err()
	case err != nil && !h.opt.FailOpen:
		e := proxy.Errf(proxy.PolicyUnavailable, "the policy hook (policy_hook) cannot be asked about this request, which was not sent to the server: %s", h.gist(err))
		e.Cause = err
		return e
	case err != nil || got.allow:
		return nil
	case got.reason == "":
		return proxy.Errf(proxy.PolicyDenied, "the policy hook has denied this request")
	}
	return proxy.Errf(proxy.PolicyDenied, "the policy hook has denied this request: %s", got.reason)
}

// asking is a question about an exchange, which ends with that.
type asking struct {
	ctx  context.Context
	stop context.CancelFunc
}

func begin(ex *proxy.Exchange, limit time.Duration) *asking {
	a := new(asking)
	a.ctx, a.stop = context.WithTimeout(context.Background(), limit)
	ex.Attach(a)
	return a
}

// Abort implements proxy.Aborter.
func (a *asking) Abort() { a.stop() }

func (a *asking) end(ex *proxy.Exchange) {
	ex.Detach(a)
	a.stop()
}

// decide returns the answer to a question: one that is kept, or a new one. ctx ends with the time for the question.
func (h *Hook) decide(ctx context.Context, of *proxy.Trace, b body) (got answer, err error) {
	from := cached
	ask := func(ctx context.Context) (answer, error) {
		from = asked
		return h.ask(ctx, of, b)
	}
	if h.known == nil {
		got, err = ask(ctx)
	} else {
		got, err = h.known.get(ctx, b.sum(), h.opt.Now, ask)
	}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // its client has left
	case err != nil:
		h.opt.Metrics.count(b.phase, failed, from)
	case got.allow:
		h.opt.Metrics.count(b.phase, allowed, from)
	default:
		h.opt.Metrics.count(b.phase, denied, from)
	}
	return got, err
}

// ask sends a question.
func (h *Hook) ask(ctx context.Context, of *proxy.Trace, b body) (got answer, err error) {
	end := func(string) {}
	sent := ctx
	if h.opt.Span != nil && of != nil {
		var own *proxy.Trace
		own, end = h.opt.Span(of, b.phase)
		sent = proxy.WithTrace(ctx, own)
	}
	began := h.opt.Now()
	text, err := h.opt.Ask(sent, b.text)
	if err == nil {
		got, err = parse(text)
	}
	switch {
	case err == nil:
		h.opt.Metrics.took(h.opt.Now().Sub(began))
		if h.failing.CompareAndSwap(true, false) && h.opt.Failing != nil {
			h.opt.Failing(nil)
		}
		end(got.outcome())
	case errors.Is(ctx.Err(), context.Canceled):
		end(proxy.Cancelled.Name)
	default:
		if h.failing.CompareAndSwap(false, true) && h.opt.Failing != nil {
			h.opt.Failing(err)
		}
		end(failed)
	}
	return got, err
}

// gist says why a question has no answer, without anything that another party has written.
func (h *Hook) gist(err error) string {
	switch status := policies.HTTPStatus(err); {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + h.opt.Timeout.String()
	case status != 0:
		return "HTTP status " + strconv.Itoa(status)
	case errors.Is(err, errAnswer):
		return errAnswer.Error()
	}
	return "no connection to it"
}
