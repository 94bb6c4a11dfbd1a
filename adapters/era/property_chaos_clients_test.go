package era

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// actor is a client of a chaos world.
type actor struct {
	w    *world
	g    *gen
	name string
	who  string // principal
	asks bool   // whether it has declared a capability to be asked
	sess *proxy.Session
	gid  sync.Mutex // of g
}

func (a *actor) chance(percent int) bool {
	a.gid.Lock()
	defer a.gid.Unlock()
	return a.g.chance(percent)
}

func (a *actor) int(n int) int {
	a.gid.Lock()
	defer a.gid.Unlock()
	return a.g.IntN(n)
}

func (a *actor) caps() string {
	if a.asks {
		return `{"elicitation":{},"sampling":{},"roots":{}}`
	}
	return `{}`
}

var chaosMethods = []string{"tools/call", "tools/call", "tools/call", "prompts/get", "resources/read", "tools/list", "resources/list"}

// params makes the params of a call, with its tag.
func (a *actor) params(method, tag string) string {
	switch method {
	case "tools/call", "prompts/get":
		return fmt.Sprintf(`"name":"n","arguments":{"tag":%q}`, tag)
	case "resources/read":
		return fmt.Sprintf(`"uri":"x:%s"`, tag)
	case "subscriptions/listen":
		return fmt.Sprintf(`"notifications":{"toolsListChanged":true},"cursor":%q`, tag)
	}
	return fmt.Sprintf(`"cursor":%q`, tag)
}

// tag identifies a call and its client; + means that its client can be asked.
func (a *actor) tag(n int) string {
	tag := fmt.Sprintf("%s-%d", a.name, n)
	if a.asks {
		tag += "+"
	}
	return tag
}

func (a *actor) bad(format string, args ...any) {
	a.w.bad("client %s: %s", a.name, fmt.Sprintf(format, args...))
}

// ending is how a call ended for its client.
type ending struct {
	m   *wire.Message // the response
	err error
}

// drive runs one exchange to its end: exactly one response or error, or, if the client has left, anything.
func (a *actor) drive(tag string, ex *proxy.Exchange, handle proxy.Handler, notify func(m *wire.Message)) ending {
	id := slices.Clone(ex.Msg.Of(ex.Msg.ID)) // the message is the handler's from now on
	patience := time.AfterFunc(time.Duration(20+a.int(400))*time.Millisecond, func() {
		a.w.note("client %s: %s is cancelled", a.name, tag)
		a.cancel(ex, id)
	})
	defer patience.Stop()
	defer a.w.under(tag)()
	defer func() {
		if p := recover(); p != nil {
			a.bad("%s: %v\n%s", tag, p, debug.Stack())
		}
	}()
	replies, err := handle(ex)
	if err != nil {
		return a.failed(tag, ex, err)
	}
	if replies == nil {
		a.bad("%s has no replies", tag)
		return ending{}
	}
	defer func() { _ = replies.Close() }()
	for {
		until := time.Time{}
		if a.chance(30) {
			until = time.Now().Add(time.Duration(a.int(10)) * time.Millisecond)
		}
		m, err := replies.Next(until)
		switch {
		case errors.Is(err, proxy.ErrNotYet):
			if until.IsZero() {
				a.bad("%s: not yet, but no time was given", tag)
				return ending{} // it would go on like that
			}
			continue
		case err != nil:
			return a.failed(tag, ex, err)
		case !m.IsResponse():
			notify(m)
			continue
		}
		kept, err := m.Clone()
		if err != nil {
			a.bad("%s: %v", tag, err)
		}
		a.response(tag, id, &kept)
		if a.chance(50) {
			if m, err := replies.Next(time.Time{}); err != io.EOF {
				a.bad("%s: after the response comes %s, %v", tag, m.Raw, err)
			}
		}
		return ending{m: &kept}
	}
}

// cancel leaves a call as clients of its era do.
func (a *actor) cancel(ex *proxy.Exchange, id []byte) {
	if a.sess == nil {
		ex.Leave()
		return
	}
	m, _ := wire.Scan(cancellation(id))
	session.Deliver(a.sess, &proxy.Exchange{Msg: m}, a.w.u.Do)
}

// failed checks an error: a client that has not left gets one of the table, and never an internal one.
func (a *actor) failed(tag string, ex *proxy.Exchange, err error) ending {
	var e *proxy.Error
	switch {
	case ex.Err() != nil:
	case err == io.EOF:
		a.bad("%s ends without a response", tag)
	case !errors.As(err, &e) || e.Name == proxy.Internal.Name:
		a.bad("%s fails with %v", tag, err)
	}
	a.w.note("client %s: %s fails: %v", a.name, tag, err)
	return ending{err: err}
}

// response checks that a response belongs to its call.
func (a *actor) response(tag string, id []byte, m *wire.Message) {
	a.w.note("client %s: %s gets %s", a.name, tag, m.Raw)
	if string(m.Of(m.ID)) != string(id) {
		a.bad("%s has the id %s and gets %s", tag, id, m.Raw)
	}
	got := wire.Get(m.Raw, m.Result, "tag")
	if got.Present() && string(got.Text(m.Raw)) != tag || m.ErrorCode == -32000 && string(m.Text(m.ErrorText)) != tag {
		a.bad("%s gets %s", tag, m.Raw)
	}
}

// received checks the messages before the response.
func (a *actor) received(tag string, m *wire.Message) {
	said := string(wire.Get(m.Raw, m.Params, "message").Text(m.Raw))
	if m.Is("notifications/progress") && said != "" && said != tag {
		a.bad("%s received the progress of %s", tag, said)
	}
	if m.Kind == wire.Request && a.sess == nil {
		a.bad("a modern client is sent %s", m.Raw)
	}
}

// modern runs a modern client: calls one after the other, some concurrently.
func (a *actor) modern() {
	var group sync.WaitGroup
	for n := range 1 + a.int(4) {
		method, tag := chaosMethods[a.int(len(chaosMethods))], a.tag(n)
		if a.chance(8) {
			method = "subscriptions/listen"
		}
		group.Go(func() { a.call(method, tag) })
		if a.chance(60) {
			group.Wait()
		}
	}
	group.Wait()
}

func (a *actor) exchange(method, tag, id, extra string, who string) *proxy.Exchange {
	token := ""
	if a.chance(50) {
		token = `,"progressToken":` + id
	}
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/logLevel":"info"%s}}}`,
		id, method, a.params(method, tag), extra, a.caps(), token))
	if err != nil {
		a.bad("%v", err)
	}
	return &proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: who},
		Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: m.Of(m.Info), Caps: m.Of(m.Caps), LogLevel: "info"}}
}

// call makes one call, and answers its questions in one of many ways.
func (a *actor) call(method, tag string) {
	extra := ""
	for n := 0; ; n++ {
		end := a.once(method, tag, n, extra, a.who)
		if end.m == nil || !end.m.ResultType.Is(end.m.Raw, "input_required") {
			return
		}
		if !a.asks {
			a.bad("%s is asked %s, and cannot be", tag, end.m.Raw)
			return
		}
		state := string(end.m.Of(wire.Get(end.m.Raw, end.m.Result, "requestState")))
		again := func(answers string) string { return `,"inputResponses":{` + answers + `},"requestState":` + state }
		right := a.answers(tag, end.m, 0)
		if !a.w.srv.modern {
			if gone := a.misbehave(method, tag, n, right, again, state); gone {
				return
			}
		} else if a.chance(10) {
			a.w.note("client %s: %s is abandoned", a.name, tag)
			return
		}
		switch k := a.int(100); {
		case k < 12:
			right = a.answers(tag, end.m, 1) // one too few
		case k < 22:
			right = `"nobody":{"asked":1}`
		}
		extra = again(right)
	}
}

// once sends the call, or a retry.
func (a *actor) once(method, tag string, n int, extra, who string) ending {
	ex := a.exchange(method, tag, fmt.Sprintf("%q", fmt.Sprintf("%s/%d", tag, n)), extra, who)
	return a.drive(tag, ex, a.w.u.Do, func(m *wire.Message) { a.received(tag, m) })
}

// misbehave does something else with a legacy server's question than answering it. It returns true if the call is over for the client.
func (a *actor) misbehave(method, tag string, n int, right string, again func(string) string, state string) (gone bool) {
	refused := func(what string, end ending) {
		if end.err == nil {
			a.bad("%s: %s is not refused: %v", tag, what, end.err)
		}
	}
	switch k := a.int(100); {
	case k < 8:
		a.w.note("client %s: %s is abandoned", a.name, tag)
		return true
	case k < 14:
		a.w.note("client %s: %s answers late", a.name, tag)
		time.Sleep(a.w.ttl + time.Second) // virtual time
	case k < 20:
		broken := strings.Replace(state, `"v1.`, `"v1.A`, 1)
		refused("a changed state", a.once(method, tag, 100+n, strings.Replace(again(right), state, broken, 1), a.who))
	case k < 26:
		refused("another's state", a.once(method, tag, 200+n, again(right), "mallory"))
	case k < 32: // it is refused, unless the question was withdrawn
		key, _, _ := strings.Cut(right, ":")
		end := a.once(method, tag, 300+n, again(key+":7"), a.who)
		if end.m != nil && bytes.Contains(end.m.Of(end.m.InputRequests), []byte(key+":")) {
			a.bad("%s: an answer that is none is taken: %s", tag, end.m.Raw)
		}
		return end.m != nil
	case k < 38:
		var group sync.WaitGroup
		ends := make([]ending, 2)
		for i := range ends {
			group.Go(func() { ends[i] = a.once(method, tag, 400+2*n+i, again(right), a.who) })
		}
		group.Wait()
		if ends[0].m != nil && ends[1].m != nil && ends[0].m.Kind == wire.Result && ends[1].m.Kind == wire.Result {
			a.bad("%s: one state, and two answers: %s, %s", tag, ends[0].m.Raw, ends[1].m.Raw)
		}
		return true
	}
	return false
}

// answers answers the questions of a result except for the first few.
func (a *actor) answers(tag string, m *wire.Message, skip int) string {
	var all []string
	for k, v := range wire.Members(m.Raw, m.InputRequests) {
		q := string(wire.Path(m.Raw, v, "params", "x-q").Text(m.Raw))
		t := string(wire.Path(m.Raw, v, "params", "x-tag").Text(m.Raw))
		if t != tag && t != "" {
			a.bad("%s is asked the question %s of %s", tag, q, t)
		}
		all = append(all, fmt.Sprintf(`%s:{"q":%q,"tag":%q}`, k.Of(m.Raw), q, t))
	}
	return strings.Join(all[min(skip, len(all)):], ",")
}

// legacy runs a legacy client: a handshake, calls, an end.
func (a *actor) legacy() {
	a.sess = proxy.NewSession(a.name, "test", "", proxy.Caller{Principal: a.who}, time.Now())
	a.w.opened(a.sess)
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"l","version":"1"}}}`,
		pick(a.g, "2025-11-25", "2025-11-25", "2025-06-18"), a.caps())
	m, _ := wire.Scan([]byte(raw))
	end := a.drive("", &proxy.Exchange{Msg: m}, a.run, func(*wire.Message) {})
	if end.m == nil || end.m.Kind != wire.Result {
		a.sess.End(proxy.Closed)
		return
	}
	if a.chance(60) {
		a.sess.SetOutlet(actorSink{a})
	}
	m, _ = wire.Scan([]byte(rules.Initialized))
	session.Deliver(a.sess, &proxy.Exchange{Msg: m}, a.w.u.Do)
	if a.chance(15) {
		t := time.AfterFunc(time.Duration(a.int(100))*time.Millisecond, func() {
			a.w.note("client %s: the session ends", a.name)
			a.sess.End(proxy.Expired)
		})
		defer t.Stop()
	}
	var group sync.WaitGroup
	for n := range 1 + a.int(4) {
		method, tag := chaosMethods[a.int(len(chaosMethods))], a.tag(n)
		group.Go(func() { a.legacyCall(method, tag, n) })
		if a.chance(40) {
			group.Wait()
		}
	}
	group.Wait()
	if n := a.sess.OpenQuestions(); n != 0 && a.sess.State() == proxy.Initialized {
		a.bad("%d questions are open, and no call is in flight", n)
	}
	if a.chance(70) {
		a.sess.End(proxy.Closed)
	}
}

func (a *actor) run(ex *proxy.Exchange) (proxy.Replies, error) {
	return session.Run(a.sess, ex, a.w.u.Do)
}

func (a *actor) legacyCall(method, tag string, n int) {
	token := ""
	if a.chance(50) {
		token = fmt.Sprintf(`,"_meta":{"progressToken":%d}`, n)
	}
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, n, method, a.params(method, tag), token))
	if err != nil {
		a.bad("%v", err)
	}
	a.drive(tag, &proxy.Exchange{Msg: m}, a.run, func(m *wire.Message) {
		a.received(tag, m)
		if m.Kind == wire.Request {
			a.asked(tag, m)
		}
	})
}

// actorSink is a legacy client's stream for messages outside of its requests.
type actorSink struct{ a *actor }

func (e actorSink) Push(msg []byte) error {
	m, err := wire.Scan(slices.Clone(msg))
	if err == nil && m.Kind == wire.Request {
		e.a.asked("", &m)
	}
	return err
}

func (actorSink) End() {}

// asked answers a question in one of many ways; tag is that of its call.
func (a *actor) asked(tag string, m *wire.Message) {
	q, t := string(wire.Get(m.Raw, m.Params, "x-q").Text(m.Raw)), string(wire.Get(m.Raw, m.Params, "x-tag").Text(m.Raw))
	switch {
	case !a.asks:
		a.bad("%s is asked %s, and cannot be", tag, m.Raw)
	case t != "" && !strings.HasPrefix(t, a.name+"-"):
		a.bad("%s is asked the question %s of %s", tag, q, t)
	case tag != "" && a.w.srv.modern && t != tag:
		a.bad("%s is asked the question %s of %s", tag, q, t)
	}
	id := string(m.Of(m.ID))
	right := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"q":%q,"tag":%q}}`, id, q, t)
	say := func(raws ...string) {
		d := time.Duration(a.int(20)) * time.Millisecond
		a.w.group.Go(func() {
			time.Sleep(d) // virtual time
			for _, raw := range raws {
				m, _ := wire.Scan([]byte(raw))
				session.Deliver(a.sess, &proxy.Exchange{Msg: m}, a.w.u.Do)
			}
		})
	}
	switch k := a.int(100); {
	case k < 10:
		say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"no"}}`)
	case k < 18:
		a.w.note("client %s: %s is not answered", a.name, q)
	case k < 23:
		say(right, right)
	case k < 28 && a.w.srv.modern:
		say(`{"jsonrpc":"2.0","id":"nobody's","result":{}}`, right)
	default:
		say(right)
	}
}
