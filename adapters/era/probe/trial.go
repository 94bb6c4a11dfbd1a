package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Legacy returns the Dial of the legacy side of a profile; nil: that of a server of which nothing is known. The handshake of its caller
// completes what a probe has left open. A process that has answered a probe and does not take the handshake is replaced by another, once.
func (k *Keeper) Legacy(v *Profile) transport.Dial {
	dial := k.server.Wires.Legacy
	if v != nil && v.SSE {
		dial = k.server.Wires.SSE
	}
	if !k.process() {
		return dial
	}
	return func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		t := &trial{k: k, dial: dial, sink: sink, first: v == nil}
		if err := t.open(ctx); err != nil {
			return nil, err
		}
		if v != nil && !v.presumed && !returned(t.link.Get()) {
			t.settle()
		}
		return t, nil
	}
}

// process reports whether links are processes of our own.
func (k *Keeper) process() bool { return k.server.Wires.Stdio && !k.server.Wires.Remote }

// First reports whether the initialize of a legacy client may be sent before a process has been probed for its legacy side. Its answer tells
// as much as a probe, and does not need a process of its own.
func (k *Keeper) First() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	unknown := k.profile == nil || k.profile.Modern && !k.profile.checked
	return k.process() && unknown && k.probing == nil && !k.careful && !k.refused && k.server.Wires.Legacy != nil
}

// NotLegacy records that a process takes no handshake, and reports whether it is known to be modern: then it serves legacy clients too.
func (k *Keeper) NotLegacy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.profile == nil || !k.profile.Modern {
		return false
	}
	v := *k.profile
	v.checked = true
	k.profile = &v
	return true
}

// ErrNotLegacy reports that a server of which nothing was known refuses initialize.
var ErrNotLegacy = errors.New("era: the server refuses initialize")

func returned(link transport.Link) bool {
	r, ok := transport.As[transport.Reusable](link)
	return ok && r.Returned()
}

// trial is a link whose handshake shows whether the server is legacy.
type trial struct {
	k     *Keeper
	dial  transport.Dial
	sink  transport.Sink
	first bool // nothing is known of the server
	link  transport.Ref

	mu      sync.Mutex
	now     *trialSink // of link
	settled bool       // the handshake has succeeded, or is not awaited
	ended   bool       // Close has been called
}

// trialSink is the sink of one link of a trial.
type trialSink struct {
	t    *trial
	lost error // guarded by t.mu
}

// open opens a link in place of the one before. It fails if Close is called meanwhile.
func (t *trial) open(ctx context.Context) error {
	s := &trialSink{t: t}
	t.mu.Lock()
	t.now = s
	t.mu.Unlock()
	link, err := t.dial(ctx, s)
	if err != nil {
		return err
	}
	t.mu.Lock()
	ended := t.ended
	if !ended {
		t.link.Set(link)
	}
	t.mu.Unlock()
	if ended {
		_ = link.Close()
		return errClosed()
	}
	return nil
}

// settle passes the link to its owner for good.
func (t *trial) settle() {
	t.mu.Lock()
	t.settled = true
	lost := t.now.lost
	t.mu.Unlock()
	if lost != nil {
		t.sink.Lost(lost)
	}
}

func (t *trial) isSettled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}

// Message implements transport.Sink.
func (s *trialSink) Message(m *wire.Message) bool { return s.t.sink.Message(m) }

// Lost implements transport.Sink. The loss of a link that may be replaced is reported by the handshake.
func (s *trialSink) Lost(err error) {
	s.t.mu.Lock()
	tell := s.t.settled && s.t.now == s
	s.lost = err
	s.t.mu.Unlock()
	if tell {
		s.t.sink.Lost(err)
	}
}

// Under returns the link of the trial.
func (t *trial) Under() transport.Link { return t.link.Get() }

// Send implements transport.Link.
func (t *trial) Send(ctx context.Context, msg []byte) error { return t.link.Get().Send(ctx, msg) }

// Close implements transport.Link.
func (t *trial) Close() error {
	t.mu.Lock()
	t.ended = true
	link := t.link.Get()
	t.mu.Unlock()
	return link.Close()
}

// Call implements transport.Link. It waits for the response to initialize.
func (t *trial) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	if !ex.Msg.Is("initialize") || t.isSettled() {
		return t.link.Get().Call(ex)
	}
	ex.Done() // it ends at its deadline although nobody calls Next
	msg := ex.Msg
	msg.Edits = slices.Clone(msg.Edits)
	link := t.link.Get()
	m, err := t.ask(link, ex)
	again := proxy.IsFault(err, proxy.SessionLost) || !t.first && returned(link) && (err != nil || m.Kind != wire.Result)
	if again && ex.Err() == nil {
		t.k.work.Note("debug", "the process that was probed does not take the handshake; another is started", err)
		t.k.end(link)
		if err = t.open(ex); err != nil {
			return nil, err
		}
		ex.Msg = msg
		m, err = t.ask(t.link.Get(), ex)
	}
	switch {
	case err == nil && m.Kind == wire.Result:
		t.k.proved(&m)
		t.settle()
	case ex.Err() != nil:
	case t.first && err == nil:
		return nil, t.refused(&m)
	default:
		t.k.disproved()
	}
	if err != nil {
		return nil, proxy.Ended(err)
	}
	return proxy.Reply(m), nil
}

// refused gives the process of a server that refuses initialize back: it may be modern.
func (t *trial) refused(m *wire.Message) error {
	err := fmt.Errorf("%w: error %d %s", ErrNotLegacy, m.ErrorCode, m.Text(m.ErrorText))
	t.k.mu.Lock()
	t.k.refused = true
	t.k.mu.Unlock()
	if r, ok := transport.As[transport.Reusable](t.link.Get()); ok && r.Return(0) {
		t.link.Set(closed{})
	}
	return err
}

// ask sends the handshake and returns the response. A process that was probed, or of which nothing is known, is given up once it has been
// silent for as long as a step of a probe lasts.
func (t *trial) ask(link transport.Link, ex *proxy.Exchange) (m wire.Message, err error) {
	replies, err := link.Call(ex)
	if err != nil {
		return m, err
	}
	defer func() { _ = replies.Close() }()
	if !t.first && !returned(link) {
		return response(replies, time.Time{})
	}
	m, err = (&prober{keeper: t.k}).await(link, replies, t.k.server.Timeout)
	if errors.Is(err, proxy.ErrNotYet) {
		err = proxy.Errf(proxy.UpstreamTimeout, "no answer to initialize in time%s", transport.LastWords(link))
	}
	return m, err
}

// closed is the link of a process that was given back.
type closed struct{}

func (closed) Call(*proxy.Exchange) (proxy.Replies, error) { return nil, errClosed() }
func (closed) Send(context.Context, []byte) error          { return errClosed() }
func (closed) Close() error                                { return nil }

func errClosed() error { return proxy.Errf(proxy.SessionLost, "the link is closed") }
