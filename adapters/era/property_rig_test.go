package era

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/mux"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Shared parts of the property tests: links in memory that behave like HTTP (a stream for each call) and like a process (one channel for
// all), and a downstream that serves an Upstream at the far end of one.

// fromEnv reads a number: DRAGOMAN_TEST_SEED selects one seed, DRAGOMAN_TEST_RUNS the number of seeds.
func fromEnv(t *testing.T, name string, std uint64) (n uint64, set bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return std, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}

// seeds calls f with each seed: a fixed number from a fixed first one on, so that results are reproducible. Each seed is a test of its own,
// so that -v shows which one panicked.
func seeds(t *testing.T, runs uint64, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first, one := fromEnv(t, "DRAGOMAN_TEST_SEED", 1)
	runs, many := fromEnv(t, "DRAGOMAN_TEST_RUNS", runs)
	if one && !many {
		runs = 1
	}
	for seed := first; seed < first+runs && !t.Failed(); seed++ {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) { f(t, seed) })
	}
}

// peer answers at the far end of a link.
type peer interface {
	// take receives one message, borrowed until it returns, and does not wait. Messages of a request are sent with say; leave says that the
	// stream was closed.
	take(raw []byte, headers []proxy.Header, say func(raw []byte)) (leave func())
	// end ends the conversation; nothing is sent after it returns.
	end()
}

// flow is a Replies that the test fills.
type flow struct {
	ex      *proxy.Exchange
	restore *transport.Minted

	mu    sync.Mutex
	queue [][]byte
	err   error
	ended bool // the response is queued or delivered
	given bool
	gone  bool // cancelled before the response
	left  func()
	wake  chan struct{}
}

func newFlow(ex *proxy.Exchange, restore *transport.Minted) *flow {
	return &flow{ex: ex, restore: restore, wake: make(chan struct{}, 1)}
}

func (f *flow) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// put queues one message of the server.
func (f *flow) put(raw []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.gone || f.err != nil {
		return
	}
	f.queue = append(f.queue, bytes.Clone(raw))
	if m, err := wire.Scan(raw); err == nil && m.IsResponse() {
		f.ended = true
	}
	f.signal()
}

// fail breaks the stream.
func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && !f.ended {
		f.err = err
	}
	f.signal()
}

// arm sets the function that is called when the call is cancelled.
func (f *flow) arm(left func()) {
	f.mu.Lock()
	gone := f.gone
	f.left = left
	f.mu.Unlock()
	if gone {
		left()
	}
}

func (f *flow) Next(until time.Time) (*wire.Message, error) {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			raw := f.queue[0]
			f.queue = f.queue[1:]
			f.given = f.ended && len(f.queue) == 0
			f.mu.Unlock()
			m, err := proxy.Scanned(raw)
			if err == nil && f.restore != nil {
				f.restore.Restore(m)
			}
			return m, err
		}
		given, err := f.given, f.err
		f.mu.Unlock()
		switch {
		case given:
			return nil, io.EOF
		case err != nil:
			return nil, err
		}
		if !work.Pause(f.wake, until) {
			return nil, proxy.ErrNotYet
		}
	}
}

func (f *flow) Abort() {
	f.mu.Lock()
	first := !f.gone && !f.ended
	f.gone = f.gone || first
	if first && f.err == nil {
		f.err = proxy.ErrCancelled
	}
	left := f.left
	f.mu.Unlock()
	f.signal()
	if first && left != nil {
		left()
	}
}

func (f *flow) Close() error {
	f.ex.Detach(f)
	f.Abort()
	return nil
}

// streams is a link with a stream for each call, like HTTP.
type streams struct {
	far    peer
	server proxy.Era
	sink   transport.Sink

	notifying sync.Mutex // notifies the sink of a loss; Close returns after that

	mu     sync.Mutex
	next   uint64
	flows  map[*flow]struct{}
	dead   error
	closed bool
	lost   bool
	onEnd  func() // called once, when it is closed
}

func newStreams(server proxy.Era, far peer, sink transport.Sink) *streams {
	return &streams{server: server, far: far, sink: sink, flows: make(map[*flow]struct{})}
}

func (l *streams) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := ex.Err(); err != nil {
		return nil, err
	}
	m := &ex.Msg
	l.mu.Lock()
	if l.dead != nil {
		l.mu.Unlock()
		return nil, l.dead
	}
	var minted *transport.Minted
	if l.next++; l.server == proxy.Legacy || ex.Session != nil {
		minted = new(transport.Minted)
		minted.Put(m, l.next)
	}
	f := newFlow(ex, minted)
	l.flows[f] = struct{}{}
	l.mu.Unlock()
	raw := m.Append(nil)
	sent, err := wire.Scan(raw)
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "not a message: %w", err)
	}
	leave := l.far.take(raw, ex.Headers, f.put)
	f.arm(func() {
		l.forget(f)
		leave()
		if l.server == proxy.Legacy && !sent.Is("initialize") {
			go l.far.take(cancellation(sent.Of(sent.ID)), nil, nil) // a POST of its own; take does not wait
		}
	})
	ex.Attach(f)
	return f, nil
}

func cancellation(id []byte) []byte {
	msg := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	return append(msg, "}}"...)
}

func (l *streams) forget(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flows, f)
}

func (l *streams) Send(_ context.Context, msg []byte) error {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead != nil {
		return dead
	}
	l.far.take(bytes.Clone(msg), nil, nil)
	return nil
}

// kill ends the server: calls in flight break, and later calls get the given error.
func (l *streams) kill(later error) {
	l.mu.Lock()
	if l.dead != nil {
		l.mu.Unlock()
		return
	}
	l.dead = later
	l.mu.Unlock()
	l.far.end()
	l.breakOff(proxy.Errf(proxy.Lost, "the connection broke"))
}

// breakOff ends all streams of calls.
func (l *streams) breakOff(why error) {
	l.mu.Lock()
	flows := l.flows
	l.flows = map[*flow]struct{}{}
	l.mu.Unlock()
	for f := range flows {
		f.fail(why)
	}
}

// send sends on the stream outside of calls.
func (l *streams) send(raw []byte) {
	l.notifying.Lock()
	defer l.notifying.Unlock()
	l.mu.Lock()
	closed := l.closed || l.dead != nil
	l.mu.Unlock()
	if m, err := wire.Scan(bytes.Clone(raw)); err == nil && !closed {
		l.sink.Message(&m)
	}
}

// lose notifies the sink, unless the link has been closed.
func (l *streams) lose(err error) {
	l.notifying.Lock()
	defer l.notifying.Unlock()
	l.mu.Lock()
	closed := l.closed || l.lost
	l.lost = true
	l.mu.Unlock()
	if !closed {
		l.sink.Lost(err)
	}
}

func (l *streams) Close() error {
	l.kill(proxy.Errf(proxy.Lost, "closed"))
	l.notifying.Lock()
	defer l.notifying.Unlock()
	l.mu.Lock()
	was, onEnd := l.closed, l.onEnd
	l.closed = true
	l.mu.Unlock()
	if !was && onEnd != nil {
		onEnd()
	}
	return nil
}

// pipe is a link of one channel, like a process.
type pipe struct {
	*mux.Mux
	far  peer
	sink transport.Sink

	reading   sync.Mutex // one reader, as of a real process
	notifying sync.Mutex // notifies the sink of a loss; Close returns after that
	mu        sync.Mutex
	dead      bool
	closed    bool
	onEnd     func()
}

func newPipe(server proxy.Era, far peer, sink transport.Sink) *pipe {
	p := &pipe{far: far, sink: sink}
	p.Mux = mux.New(server, p.write, sink)
	return p
}

func (p *pipe) write(ctx context.Context, _ uint64, msg []byte) error {
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return proxy.Errf(proxy.Lost, "the upstream server does not take requests")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.far.take(bytes.Clone(msg), nil, p.send)
	return nil
}

// send writes to the server's standard output.
func (p *pipe) send(raw []byte) {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if !dead {
		_ = p.Deliver(bytes.Clone(raw))
	}
}

// kill ends the process.
func (p *pipe) kill(error) {
	p.notifying.Lock()
	defer p.notifying.Unlock()
	p.mu.Lock()
	was, closed := p.dead, p.closed
	p.dead = true
	p.mu.Unlock()
	if was {
		return
	}
	p.far.end()
	p.reading.Lock() // deliveries in progress complete
	//lint:ignore SA2001 waited for
	p.reading.Unlock() //nolint:staticcheck // waited for
	err := proxy.Errf(proxy.Lost, "the upstream server has ended")
	p.Fail(err)
	if !closed {
		p.sink.Lost(err)
	}
}

func (p *pipe) Close() error {
	p.mu.Lock()
	was, onEnd := p.closed, p.onEnd
	p.closed = true
	p.mu.Unlock()
	p.kill(nil)
	if !was && onEnd != nil {
		onEnd()
	}
	return nil
}

// downstream stands in the place of a server for an Upstream: it is one client's conversation with another Upstream.
type downstream struct {
	handle proxy.Handler
	sess   *proxy.Session // of a legacy client; nil: a modern client
	bad    func(format string, args ...any)
	group  sync.WaitGroup

	mu     sync.Mutex
	flying map[string]*proxy.Exchange // modern requests of a single channel
	over   bool
}

func (f *downstream) take(raw []byte, headers []proxy.Header, say func(raw []byte)) func() {
	m, err := wire.Scan(bytes.Clone(raw))
	if err != nil {
		f.bad("a message that crosses is invalid: %s: %v", raw, err)
		return func() {}
	}
	ex := &proxy.Exchange{Msg: m}
	if m.Kind != wire.Request {
		switch {
		case f.sess != nil:
			session.Deliver(f.sess, ex, f.handle)
		case m.Is("notifications/cancelled"):
			f.mu.Lock()
			inner := f.flying[string(m.Of(m.RequestID))]
			f.mu.Unlock()
			if inner != nil {
				inner.Leave()
			}
		default:
			f.bad("a modern server received %s", raw)
		}
		return func() {}
	}
	run := f.handle
	if f.sess != nil {
		run = func(ex *proxy.Exchange) (proxy.Replies, error) { return session.Run(f.sess, ex, f.handle) }
	} else {
		f.modern(ex, headers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return func() {}
	}
	f.flying[string(m.Of(m.ID))] = ex
	f.group.Go(func() {
		session.Pump(ex, run, time.Hour, func(m *wire.Message) error { say(m.Append(nil)); return nil })
		f.mu.Lock()
		delete(f.flying, string(m.Of(m.ID)))
		f.mu.Unlock()
	})
	return ex.Leave
}

// modern does what the endpoint of modern clients does: it checks the envelope and identifies the client.
func (f *downstream) modern(ex *proxy.Exchange, headers []proxy.Header) {
	m := &ex.Msg
	if err := rules.Envelope(m); err != nil {
		f.bad("a request without a modern envelope: %s: %v", m.Raw, err)
	}
	ex.Headers, ex.Mirrors = headers, headers != nil
	ex.Client = proxy.Client{Era: proxy.Modern, Version: rules.Named(m), Info: m.Of(m.Info), Caps: m.Of(m.Caps), LogLevel: string(m.Text(m.LogLevel))}
}

func (f *downstream) end() {
	f.mu.Lock()
	f.over = true
	flying := f.flying
	f.flying = map[string]*proxy.Exchange{}
	f.mu.Unlock()
	if f.sess != nil {
		f.sess.End(proxy.Closed)
	}
	for _, ex := range flying {
		ex.Leave()
	}
	f.group.Wait()
}

// toSink is the outlet of a downstream's session: the stream outside of calls.
type toSink struct{ sink transport.Sink }

func (o toSink) Push(msg []byte) error {
	m, err := wire.Scan(bytes.Clone(msg))
	if err == nil {
		o.sink.Message(&m)
	}
	return err
}

func (toSink) End() {}
