package telemetry

import (
	"errors"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Values of the parameter what of [AccessLog]: which requests get a line.
const (
	LogNone   = "off"    // none but those that fail because of Dragoman, since the error that clients get points at the log
	LogErrors = "errors" // those that fail; at level debug all
	LogAll    = "all"    // all
)

// AccessLog returns the policy that writes a line for each request: what was asked of which server, the outcome and the
// duration. The client's own mistakes, and requests that end because the proxy drains, are logged at info; other
// failures at warn; successes at debug, or with LogAll at info. Arguments and results are never logged. direct, if not
// nil, is the fast path for lines about successes.
func AccessLog(log zerolog.Logger, what string, direct *FastLine) proxy.Policy {
	success := zerolog.DebugLevel
	if what == LogAll {
		success = zerolog.InfoLevel
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			a := proxy.Lend[logged](ex, loggedSlot)
			*a = logged{log: &log, direct: direct, ex: ex, began: ex.Clock.Now(), success: success, quiet: what == LogNone}
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

// answeredWell is the message of a successful request.
const answeredWell = "request answered"

var loggedSlot = proxy.NewSlot()

type logged struct {
	proxy.Replies
	log     *zerolog.Logger
	direct  *FastLine
	ex      *proxy.Exchange
	began   time.Time
	success zerolog.Level
	quiet   bool
	done    bool
}

// Clear implements proxy.Clearer.
func (a *logged) Clear() { *a = logged{} }

// line begins a line of the log; nil if the level is disabled.
func (a *logged) line(level zerolog.Level) *zerolog.Event {
	a.done = true
	e := a.log.WithLevel(level)
	if e == nil {
		return nil
	}
	e = e.Str("request", a.ex.ID()).Str("method", wire.Shown(a.ex.Msg.Text(a.ex.Msg.Method))).Str("era", a.ex.Client.Era.String()).
		Dur("ms", time.Since(a.began))
	if about := policies.AboutBytes(&a.ex.Msg); len(about) > 0 {
		e = e.Bytes("about", about)
	}
	if who := a.ex.Caller.Principal; who != "" {
		e = e.Str("principal", wire.Shown(who))
	}
	if a.ex.Target != "" {
		e = e.Str("server", a.ex.Target)
	}
	if a.ex.Session != nil {
		e = e.Str("session", a.ex.Session.ID[:6])
	}
	return e
}

func (a *logged) failed(err error) {
	if a.done {
		return
	}
	a.done = true
	e := proxy.AsError(err)
	level := zerolog.WarnLevel
	if e.Blame == "client" || errors.Is(err, proxy.ErrDraining) {
		level = zerolog.InfoLevel
	}
	if a.quiet && e.Name != proxy.Internal.Name {
		return
	}
	line := a.line(level)
	if e.Cause != nil {
		line = line.Str("cause", wire.ShownText(e.Cause.Error()))
	}
	line.Str("outcome", e.Name).Str("blame", e.Blame).Msg(wire.ShownText(e.Message))
}

func (a *logged) Next(until time.Time) (m *wire.Message, err error) {
	m, err = a.Replies.Next(until)
	switch {
	case a.done || policies.Pending(err):
	case err != nil:
		a.failed(err)
	case m.IsResponse() && a.quiet:
		a.done = true
	case m.Kind == wire.Failure:
		if e := a.line(zerolog.InfoLevel); e != nil {
			e.Str("outcome", "server_error").Int("code", m.ErrorCode).Msg(wire.Shown(m.Text(m.ErrorText)))
		}
	case m.Kind == wire.Result && a.direct != nil:
		a.direct.answered(a)
	case m.Kind == wire.Result:
		if e := a.line(a.success); e != nil {
			e.Str("outcome", "ok").Msg(answeredWell)
		}
	}
	return m, err
}

func (a *logged) Close() error {
	if !a.done {
		a.failed(policies.Unanswered(a.ex))
	}
	return a.Replies.Close()
}

// FastLine is the fast path for the access log's line of a successful request. It writes into the gathered lines, in
// the form that the logger would give the line.
type FastLine struct {
	Out   *BatchWriter // of the logger, which writes JSON
	Level *Level       // of the logger

	recent [8]requestFields // parts written last; the lock of BatchWriter guards them
}

// requestFields is the part of a line that many requests share: what was requested of which server, and by whom.
type requestFields struct {
	who, server string
	about       []byte
	text        []byte // empty: not written yet
}

// answered writes the line of a successful request.
func (d *FastLine) answered(a *logged) {
	a.done = true
	if !d.Level.Sample(a.success) {
		return
	}
	const usual = 1 << 10 // bytes
	ex, lasted := a.ex, a.ex.Clock.Since(a.began)
	b := d.Out.begin(usual)
	if a.success == zerolog.InfoLevel {
		b = append(b, `{"level":"info","request":`...)
	} else {
		b = append(append(append(b, `{"level":"`...), a.success.String()...), `","request":`...)
	}
	if ex.PendingID() {
		b = append(ex.Arrival.AppendID(append(b, '"')), '"')
	} else {
		b = wire.AppendText(b, ex.ID())
	}
	if method := ex.Msg.Text(ex.Msg.Method); ex.Client.Era == proxy.Modern && string(method) == toolsCall {
		b = append(b, `,"method":"`+toolsCall+`","era":"modern","ms":`...)
	} else {
		b = wire.AppendShown(append(b, `,"method":`...), method)
		b = append(append(append(b, `,"era":"`...), ex.Client.Era.String()...), `","ms":`...)
	}
	b = append(appendMillis(b, lasted), d.sharedFields(ex)...)
	if ex.Session != nil {
		b = wire.AppendText(append(b, `,"session":`...), ex.Session.ID[:6])
	}
	b = append(b, `,"outcome":"ok","time":"`...)
	b = d.Out.stamp.append(b, a.began.UnixNano()+int64(lasted))
	d.Out.end(append(b, `","message":"`+answeredWell+`"}`+"\n"...), true)
}

// sharedFields returns the part of a line that tells what was requested. It is valid for as long as the lock of
// BatchWriter is held.
func (d *FastLine) sharedFields(ex *proxy.Exchange) []byte {
	about, who := policies.AboutBytes(&ex.Msg), ex.Caller.Principal
	last := &d.recent[(len(about)+len(who))%len(d.recent)]
	if last.who == who && last.server == ex.Target && string(last.about) == string(about) {
		return last.text
	}
	b := last.text[:0]
	if len(about) > 0 {
		b = wire.AppendText(append(b, `,"about":`...), about)
	}
	if who != "" {
		b = wire.AppendShown(append(b, `,"principal":`...), who)
	}
	if ex.Target != "" {
		b = wire.AppendText(append(b, `,"server":`...), ex.Target)
	}
	*last = requestFields{who: who, server: ex.Target, about: append(last.about[:0], about...), text: b}
	return b
}

// appendMillis appends a duration in milliseconds, as zerolog does.
func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d)/float64(time.Millisecond), 'f', -1, 64)
}
