package era

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// scriptedServer is a fake server of either era, over HTTP or as a process, that the test controls. It answers at once except for scripted
// methods, and records what it receives.
type scriptedServer struct {
	era   proxy.Era
	mu    sync.Mutex
	caps  string
	tools string // of tools/list
	log   []string
	times []time.Time // of each dial
	links []*scriptedLink
	down  bool                               // dialling fails
	brief bool                               // a session ends as soon as it is open
	quiet bool                               // there is no stream for messages outside of calls
	lose  map[string]bool                    // methods that are answered with an unknown session
	no    func(uri string) bool              // which resources cannot be subscribed to
	on    map[string]func(c *scriptedCall)   // scripts
	held  map[string]chan *scriptedCall      // calls that wait for the test
	then  func(l *scriptedLink, said string) // after each message
}

// scriptedLink is one session; its number counts from 1.
type scriptedLink struct {
	*mux.Mux // nil over HTTP
	s        *scriptedServer
	n        int
	sink     transport.Sink
	mu       sync.Mutex
	next     uint64
	closed   bool
	broken   bool // calls cannot be sent
	own      transport.Pending
}

// Settle implements Settler.
func (l *scriptedLink) Settle(ctx context.Context) { l.own.Settle(ctx) }

// Begin counts cancellations being sent.
func (l *scriptedLink) Begin() func() { return l.own.Begin() }

// fails switches the failure of calls before they are sent.
func (l *scriptedLink) fails(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

// quietLink is a link whose server sends nothing outside calls.
type quietLink struct{ *scriptedLink }

func (quietLink) Pushes() bool { return false }

func (quietLink) Answered() <-chan struct{} { return nil }

// scriptedCall is one request at the server.
type scriptedCall struct {
	l         *scriptedLink
	id, token string
	msg       wire.Message
	ex        *proxy.Exchange // over HTTP
	minted    *transport.Minted
	in        chan string
	gone      chan struct{}
	once      sync.Once
}

func newScriptedServer(caps string) *scriptedServer {
	return &scriptedServer{caps: caps, on: map[string]func(*scriptedCall){}, held: map[string]chan *scriptedCall{}, lose: map[string]bool{}}
}

func (s *scriptedServer) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// received returns what happened since the last time: a line per message, with the session's number.
func (s *scriptedServer) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *scriptedServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// hold keeps the calls of a method until the test takes them from the channel and answers them.
func (s *scriptedServer) hold(method string) chan *scriptedCall {
	came := make(chan *scriptedCall, 64)
	s.set(func() {
		s.held[method] = came
		s.on[method] = func(c *scriptedCall) { came <- c }
	})
	return came
}

func (s *scriptedServer) link(n int) *scriptedLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l.n == n {
			return l
		}
	}
	return nil
}

func (s *scriptedServer) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.mu.Lock()
		if !l.closed {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

func (s *scriptedServer) dial(process bool) transport.Dial {
	return func(_ context.Context, sink transport.Sink) (transport.Link, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.times = append(s.times, time.Now())
		if s.down {
			return nil, proxy.Errf(proxy.Unreachable, "down")
		}
		l := &scriptedLink{s: s, n: len(s.links), sink: sink}
		if process {
			l.Mux = mux.New(s.era, func(_ context.Context, _ uint64, msg []byte) error { return l.line(msg) }, sink)
		}
		s.links = append(s.links, l)
		if s.quiet {
			return quietLink{l}, nil
		}
		return l, nil
	}
}

// Call implements Link.
func (l *scriptedLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken {
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	if l.Mux != nil {
		return l.Mux.Call(ex)
	}
	l.mu.Lock()
	l.next++
	minted := new(transport.Minted)
	minted.Put(&ex.Msg, l.next)
	l.mu.Unlock()
	raw := ex.Msg.Append(nil)
	l.s.mu.Lock()
	lose := l.s.lose[string(ex.Msg.Text(ex.Msg.Method))]
	l.s.mu.Unlock()
	if lose {
		l.s.note("%d lost %s", l.n, ex.Msg.Text(ex.Msg.Method))
		return nil, proxy.Errf(proxy.SessionLost, "unknown session")
	}
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	c := newScriptedCall(l, m)
	c.ex, c.minted = ex, minted
	ex.Attach(c)
	l.s.take(c)
	return c, nil
}

func newScriptedCall(l *scriptedLink, m wire.Message) *scriptedCall {
	return &scriptedCall{l: l, msg: m, id: string(m.Of(m.ID)), token: string(m.Of(m.Token)), in: make(chan string, 4096), gone: make(chan struct{})}
}

// Send implements Link.
func (l *scriptedLink) Send(ctx context.Context, msg []byte) error {
	if l.Mux != nil {
		return l.Mux.Send(ctx, msg)
	}
	return l.line(msg)
}

// Close implements Link.
func (l *scriptedLink) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	l.s.note("%d end", l.n)
	if l.Mux != nil {
		l.Fail(proxy.Errf(proxy.Lost, "closed"))
	}
	return nil
}

// die ends the session from the server's side.
func (l *scriptedLink) die() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if l.Mux != nil {
		l.Fail(proxy.Errf(proxy.Lost, "died"))
	}
	l.sink.Lost(proxy.Errf(proxy.SessionLost, "died"))
}

// line receives what the server sends outside calls over HTTP, and everything a process sends.
func (l *scriptedLink) line(raw []byte) error {
	m, err := wire.Scan(slices.Clone(raw))
	if err != nil {
		return err
	}
	switch m.Kind {
	case wire.Request:
		l.s.take(newScriptedCall(l, m))
	case wire.Notification:
		l.s.note("%d %s", l.n, strings.TrimSpace(string(m.Text(m.Method))+" "+string(m.Of(m.RequestID))))
		l.s.after(l, string(m.Text(m.Method)))
	default:
		l.s.note("%d answer %s", l.n, m.Raw)
	}
	return nil
}

func (s *scriptedServer) after(l *scriptedLink, said string) {
	s.mu.Lock()
	then := s.then
	s.mu.Unlock()
	if then != nil {
		then(l, said)
	}
}

// take answers one request.
func (s *scriptedServer) take(c *scriptedCall) {
	m := &c.msg
	method, about := string(m.Text(m.Method)), ""
	switch {
	case m.Is("tools/call"):
		about = " " + string(m.Of(m.Params))
	case m.Is("initialize"):
		about = " " + string(wire.Get(m.Raw, m.Params, "capabilities").Of(m.Raw))
	case m.Params.Present():
		if m.Is("tasks/update") {
			about = " " + string(m.Of(m.InputResponses))
		} else if text := string(m.Text(m.URI)) + string(m.Text(m.Level)) + string(wire.Get(m.Raw, m.Params, "taskId").Text(m.Raw)); text != "" {
			about = " " + text
		}
	}
	s.note("%d %s%s", c.l.n, method, about)
	s.mu.Lock()
	script, caps, tools, no, brief := s.on[method], s.caps, s.tools, s.no, s.brief
	s.mu.Unlock()
	switch {
	case script != nil:
		script(c)
	case m.Is("server/discover") && s.era == proxy.Legacy:
		c.send(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"unknown method"}}`)
	case m.Is("server/discover"):
		c.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + caps +
			`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}`)
	case s.era == proxy.Modern && m.Is("tools/call"):
		c.result(`{"resultType":"complete","content":[]}`)
	case m.Is("initialize"):
		c.result(`{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"serverInfo":{"name":"f","version":"1"}}`)
		if brief {
			go c.l.die()
		}
	case m.Is("resources/subscribe") && no != nil && no(string(m.Text(m.URI))):
		c.send(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"not this one"}}`)
	case m.Is("tools/list"):
		c.result(`{"tools":[` + tools + `]}`)
	case m.Is("tools/call"):
		c.result(`{"content":[]}`)
	default:
		c.result("{}")
	}
	s.after(c.l, method)
}

// send sends a message of the call: on its stream or on the channel.
func (c *scriptedCall) send(msg string) {
	msg = strings.NewReplacer("$ID", c.id, "$TOKEN", c.token).Replace(msg)
	if c.l.Mux != nil {
		_ = c.l.Deliver([]byte(msg))
		return
	}
	c.in <- msg
}

func (c *scriptedCall) result(result string) {
	c.send(`{"jsonrpc":"2.0","id":$ID,"result":` + result + `}`)
}

// away sends a message outside of calls.
func (l *scriptedLink) away(msg string) {
	if l.Mux != nil {
		_ = l.Deliver([]byte(msg))
		return
	}
	m, err := wire.Scan([]byte(msg))
	if err == nil {
		l.sink.Message(&m)
	}
}

// Next implements proxy.Replies, over HTTP.
func (c *scriptedCall) Next(until time.Time) (*wire.Message, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.gone:
		return nil, proxy.ErrCancelled
	case raw := <-c.in:
		switch raw {
		case "":
			return nil, io.EOF
		case "broken":
			c.once.Do(func() { close(c.gone) })
			return nil, proxy.Errf(proxy.Lost, "broken off")
		}
		m, err := proxy.Scanned([]byte(raw))
		if err == nil {
			c.minted.Restore(m)
			if m.IsResponse() {
				c.once.Do(func() {}) // no more to be cancelled
				c.in <- ""
			}
		}
		return m, err
	case <-late:
		return nil, proxy.ErrNotYet
	}
}

// Abort implements proxy.Aborter.
func (c *scriptedCall) Abort() {
	c.once.Do(func() {
		close(c.gone)
		c.l.s.note("%d notifications/cancelled %s", c.l.n, c.id)
	})
}

// Close implements proxy.Replies.
func (c *scriptedCall) Close() error {
	c.ex.Detach(c)
	select {
	case raw := <-c.in:
		if raw == "" { // the response has been read
			return nil
		}
	default:
	}
	c.Abort()
	return nil
}
