package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// prober probes one server once. It does not send initialize to a modern server whose revisions are all unknown: that answer would
// replace the one that names them.
type prober struct {
	keeper *Keeper
	sink   transport.Sink // for the modern link, if it is kept

	guarded     *transport.StatusError // a step was refused because of missing credentials
	refusal     *transport.StatusError // likewise, by a status of HTTP
	page        bool                   // a step was answered with an HTML page
	reached     bool                   // a step got an answer, or timed out
	last        error                  // of the last step that failed
	late        *lateDiscover          // a process that has not answered server/discover yet
	prove       bool                   // only a handshake shows a legacy server
	unsupported *proxy.Error           // the server is modern and supports no revision that Dragoman does
}

// probe runs the steps. It returns the profile and, if the server is modern, the link on which it was found.
func (p *prober) probe(ctx context.Context) (*Profile, transport.Link, error) {
	v := &Profile{At: time.Now()}
	if p.keeper.server.Wires.Modern != nil {
		link, err := p.discover(ctx, v)
		if link != nil || err != nil || v.presumed {
			return v, link, err
		}
	}
	err := p.legacy(ctx, v)
	if link := p.settle(v); link != nil {
		v.checked = true
		return v, link, nil
	}
	if err == nil {
		return v, nil, nil
	} else if p.unsupported != nil { // from the late answer of a process
		return nil, nil, p.unsupported
	} else if errors.Is(err, errModern) && p.keeper.server.Wires.Modern != nil {
		return v, nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, proxy.Errf(proxy.ShuttingDown, "probing ended: %w", err)
	}
	if p.keeper.opt.Forwards && p.guarded != nil {
		return nil, nil, proxy.Errf(proxy.Refused, "the upstream server says which revision it speaks only to callers with credentials, in a header "+
			"that upstreams.NAME.forward_headers passes on (%s): %w", strings.Join(v.Steps, "; "), p.guarded)
	}
	if (!p.reached || p.keeper.server.Wires.Certain) && p.last != nil {
		return nil, nil, p.last // the server is unreachable: no other error says more
	}
	return nil, nil, p.unknown(v)
}

// unknown returns the error of a server that has answered, but in no revision: what it answered, and what helps.
func (p *prober) unknown(v *Profile) *proxy.Error {
	name := p.keeper.server.Name
	key, steps := "upstreams."+name, strings.Join(v.Steps, "; ")
	switch {
	case p.refusal != nil:
		return proxy.Errf(proxy.Refused, "the upstream server does not say which revision it speaks: %s; %s", steps, p.refusal.Advice(name))
	case p.page:
		return proxy.Errf(proxy.BadAnswer, "the upstream server answers with an HTML page: %s; is the path of %s.url right (mostly /mcp)? "+
			"If the page asks to sign in, set the credentials in %s.headers", steps, key, key)
	}
	fix := "is it an MCP server? Then set " + key + ".era and " + key + ".transport"
	var status *transport.StatusError
	switch {
	case errors.As(p.last, &status) && status.Status >= 500:
		fix = "its own log may say why it fails"
	case status != nil && status.Status >= 300:
		fix = cmp.Or(status.Advice(name), "is the path of "+key+".url right (mostly /mcp)?")
	case proxy.IsFault(p.last, proxy.UpstreamTimeout):
		fix = "if it is slow, raise " + key + ".probe_timeout"
	}
	return proxy.Errf(proxy.EraUnknown, "cannot tell which revision the upstream server speaks: %s; %s", steps, fix)
}

// errModern reports that the answer to initialize is that of a modern server.
var errModern = errors.New("era: the server is modern")

// note records the failure of a step. A process may end before a request is written or after it: both are its end.
func (p *prober) note(v *Profile, step string, err error) {
	err = proxy.Ended(err)
	text := err.Error()
	var e *proxy.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	ended := e != nil && e.Name == proxy.Lost.Name && p.keeper.process() // before it answered
	if e == nil || e.Name != proxy.Unreachable.Name && !ended {
		p.reached = true
	}
	p.last = err
	p.page = p.page || errors.Is(err, transport.ErrPage)
	if status := transport.Refusal(err); status != nil {
		p.refusal = status
	}
	if status := transport.Unauthorized(err); status != nil {
		p.guarded = status
	}
	v.Steps = append(v.Steps, step+": "+text)
}

// discover sends server/discover. It returns a link if the server is modern.
func (p *prober) discover(ctx context.Context, v *Profile) (transport.Link, error) {
	p.keeper.step("server/discover")
	dialling, cancel := context.WithTimeout(ctx, p.keeper.server.Timeout)
	defer cancel()
	link, err := p.keeper.server.Wires.Modern(dialling, p.sink)
	if err != nil {
		p.note(v, "server/discover", err)
		if errors.Is(err, transport.ErrFatal) {
			return nil, err
		}
		return nil, nil
	}
	m, later, err := p.sendDiscover(ctx, link)
	if err == nil && p.isModern(v, &m) {
		return link, nil
	}
	if err != nil {
		p.note(v, "server/discover", err)
	}
	if p.presume(ctx, v, link, &m, later) {
		return nil, nil
	}
	if p.late = later; later != nil && p.keeper.server.Wires.Stdio {
		return nil, nil
	}
	p.late = nil
	if later != nil {
		later.stop()
		_ = later.replies.Close()
	}
	p.closeLink(link)
	if p.unsupported != nil {
		return nil, p.unsupported
	}
	return nil, nil
}

// presume takes a process for a legacy one that has refused server/discover, or has passed over it and answers a ping, and gives it back
// for the handshake of the first client. A process that has taken server/discover for a modern request takes no handshake any more.
func (p *prober) presume(ctx context.Context, v *Profile, link transport.Link, m *wire.Message, later *lateDiscover) bool {
	r, reusable := transport.As[transport.Reusable](link)
	answered := m.Kind == wire.Result || m.Kind == wire.Failure
	if !reusable || p.keeper.proves() || p.unsupported != nil || p.keeper.server.Wires.Legacy == nil || !answered && (later == nil || !p.pings(ctx, link)) {
		return false
	}
	if took := m.Kind == wire.Result || m.ErrorCode == proxy.CodeUnsupportedVersion; answered && took || !r.Return(p.keeper.opt.Idle) {
		p.closeLink(link)
	}
	if later != nil {
		later.stop()
		_ = later.replies.Close()
	}
	v.Legacy, v.presumed, v.Version = true, true, ""
	return true
}

// pings reports whether the server of a link answers a ping. Any server does before the handshake (2025-11-25 lifecycle, Initialization).
func (p *prober) pings(ctx context.Context, link transport.Link) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	m, err := transport.AskLegacy(ctx, link, []byte(ping))
	return err == nil && m.Kind == wire.Result
}

const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

// isModern reports whether the answer to server/discover shows a modern server. A DiscoverResult or a version error that lists
// legacy revisions only comes from a legacy server of a newer SDK, which must be initialized.
func (p *prober) isModern(v *Profile, m *wire.Message) bool {
	if m.Kind == wire.Result {
		list := wire.Get(m.Raw, m.Result, "supportedVersions")
		if !list.Present() {
			p.note(v, "server/discover", errors.New("a result that is no DiscoverResult"))
			return false
		}
		v.Discover = slices.Clone(m.Of(m.Result))
		v.Version = rules.PickModern(m.Raw, list)
		if v.Modern = v.Version != ""; !v.Modern {
			p.note(v, "server/discover", fmt.Errorf("only the revisions %s", list.Of(m.Raw)))
		}
		return v.Modern
	}
	p.note(v, "server/discover", fmt.Errorf("error %d %s", m.ErrorCode, m.Text(m.ErrorText)))
	switch m.ErrorCode {
	case proxy.CodeUnsupportedVersion:
		list := wire.Get(m.Raw, m.ErrorData, "supported")
		v.Version = rules.PickModern(m.Raw, list)
		if v.Modern = v.Version != ""; !v.Modern {
			p.unsupported = unsupportedError(m.Raw, list)
		}
	case proxy.CodeHeaderMismatch, proxy.CodeMissingCapability:
		v.Modern, v.Version = true, rules.ModernVersion
	}
	return v.Modern
}

// unsupportedError returns the error for a server that lists only modern revisions that Dragoman does not support; nil for any other list, and
// for an empty one.
func unsupportedError(raw []byte, list wire.Span) *proxy.Error {
	var names []string
	for _, s := range wire.Items(raw, list) {
		if !s.IsString(raw) {
			continue
		}
		name := string(s.Text(raw))
		if !rules.IsModern(name) || rules.Supported(name) {
			return nil
		}
		if len(names) < maxNamed {
			names = append(names, fmt.Sprintf("%.40q", name))
		}
	}
	if names == nil {
		return nil
	}
	return proxy.Errf(proxy.EraUnknown, "the upstream server speaks only the revisions %s, of which Dragoman speaks none (it speaks %s); "+
		"set upstreams.NAME.era to legacy if the server has a handshake all the same",
		strings.Join(names, ", "), strings.Join(rules.Versions(), ", "))
}

// maxNamed bounds the revisions that an error lists.
const maxNamed = 8

// legacy sends initialize, over streamable HTTP or stdio and then over HTTP+SSE.
func (p *prober) legacy(ctx context.Context, v *Profile) error {
	err := errors.New("era: no legacy transport is configured")
	if p.keeper.server.Wires.Legacy != nil {
		if err = p.initialize(ctx, v, p.keeper.server.Wires.Legacy, "initialize"); err == nil || errors.Is(err, errModern) || errors.Is(err, transport.ErrFatal) {
			return err
		}
	}
	if p.keeper.server.Wires.SSE != nil && ctx.Err() == nil {
		if err = p.initialize(ctx, v, p.keeper.server.Wires.SSE, "GET as HTTP+SSE"); err == nil {
			v.SSE = true
		}
	}
	return err
}

// initialize opens a session of Dragoman's own and pings in it: a server that accepts initialize and then refuses every
// request of the session is no legacy server.
func (p *prober) initialize(ctx context.Context, v *Profile, dial transport.Dial, step string) error {
	p.keeper.step(step)
	ctx, cancel := context.WithTimeout(ctx, p.keeper.server.HandshakeTimeout())
	defer cancel()
	if v.presumed && !v.SSE {
		dial = p.keeper.Legacy(v)
	}
	link, err := dial(ctx, transport.Discard{})
	if err != nil {
		p.note(v, step, err)
		return err
	}
	if !p.prove && p.keeper.server.Wires.Modern == nil && p.greets(ctx, v, link) {
		return nil
	}
	defer p.closeLink(link)
	m, err := transport.AskLegacy(ctx, link, rules.InitializeRequest(p.keeper.server.Self, []byte("{}")))
	if err != nil {
		p.note(v, step, err)
		return err
	}
	if m.Kind == wire.Failure {
		err = fmt.Errorf("error %d %s", m.ErrorCode, m.Text(m.ErrorText))
		p.note(v, step, err)
		if version := rules.PickModern(m.Raw, wire.Get(m.Raw, m.ErrorData, "supported")); version != "" && m.ErrorCode == proxy.CodeUnsupportedVersion {
			v.Modern, v.Version = true, version
			return errModern
		}
		if m.ErrorCode != proxy.CodeUnsupportedVersion && m.ErrorCode != proxy.CodeMethodNotFound && p.guarded == nil {
			p.guarded = &transport.StatusError{Status: 401, Text: err.Error()} // the same refusal in JSON-RPC
		}
		return err
	}
	init := slices.Clone(m.Of(m.Result))
	version := wire.Get(m.Raw, m.Result, "protocolVersion")
	if !version.IsString(m.Raw) {
		err = errors.New("a result that is no InitializeResult")
		p.note(v, step, err)
		return err
	}
	if settled := string(version.Text(m.Raw)); rules.IsModern(settled) { // a modern revision has no handshake
		err = fmt.Errorf("a handshake that settles on %s, which has none", settled)
		p.note(v, step, err)
		return err
	}
	if err = link.Send(ctx, []byte(rules.Initialized)); err == nil {
		p.keeper.step(step + ", then ping")
		err = p.pinged(ctx, link)
	}
	if err != nil {
		p.note(v, step+", then ping", err)
		return err
	}
	v.Legacy, v.Init = true, init
	if l, ok := transport.As[transport.Stateful](link); ok && v.Modern && !l.HasSession() {
		v.Bare = true
		v.Steps = append(v.Steps, step+": no session (no Mcp-Session-Id in the answer), so legacy clients are served by the modern side, "+
			"which has questions, subscriptions and cancellation for them")
	}
	if !v.Modern {
		v.Version = string(wire.Get(init, wire.Whole(init), "protocolVersion").Text(init))
	}
	return nil
}

// greets reports whether a process whose era is configured answers at all, and gives it back for the handshake of the first client.
func (p *prober) greets(ctx context.Context, v *Profile, link transport.Link) bool {
	r, reusable := transport.As[transport.Reusable](link)
	if !reusable || p.keeper.proves() {
		return false
	}
	m, later, err := p.send(ctx, link, proxy.Legacy, []byte(ping))
	if later != nil {
		later.stop()
		_ = later.replies.Close()
	}
	if err != nil || !m.IsResponse() || !r.Return(p.keeper.opt.Idle) {
		return false
	}
	v.Legacy, v.presumed = true, true
	return true
}

// pinged pings after a handshake. A process need not answer.
func (p *prober) pinged(ctx context.Context, link transport.Link) error {
	within := ctx
	if p.keeper.process() {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	_, err := transport.AskLegacy(within, link, []byte(ping))
	if silent := proxy.IsFault(err, proxy.UpstreamTimeout) || within.Err() != nil; silent && ctx.Err() == nil && p.keeper.process() {
		return nil
	}
	return err
}

const (
	// quietTime is how long a process may be silent that has read server/discover. One that has not read it yet is starting.
	quietTime = time.Second
	// lookTime is the interval at which it is determined whether a process has read what it was sent.
	lookTime = 20 * time.Millisecond
	// pingTime is how long to wait for the answer of a process to a ping.
	pingTime = 250 * time.Millisecond
	// lateTime is how long to wait for an answer to server/discover once a second process has answered.
	lateTime = 100 * time.Millisecond
	// endTime is how long a step waits for the process of the previous step to end, since some servers allow one process at a time.
	// Slower ones end in the background.
	endTime = 500 * time.Millisecond
)

// lateDiscover is a server/discover that a process has not answered within probe_timeout. The server may not know the method, or be slow to
// start. So the process is kept until a second one has answered initialize: by then the first has had more time than the second.
type lateDiscover struct {
	link    transport.Link
	replies proxy.Replies
	stop    func() bool
}

// sendDiscover sends server/discover over a link. It returns a lateDiscover if no answer comes in time.
func (p *prober) sendDiscover(ctx context.Context, link transport.Link) (m wire.Message, l *lateDiscover, err error) {
	m, l, err = p.send(ctx, link, proxy.Modern, rules.DiscoverRequest(p.keeper.server.Self, nil))
	if l != nil {
		err = proxy.Errf(proxy.UpstreamTimeout, "no answer to server/discover in time%s", transport.LastWords(link))
	}
	return m, l, err
}

// send sends a request to a server of which nothing is known.
func (p *prober) send(ctx context.Context, link transport.Link, era proxy.Era, raw []byte) (m wire.Message, l *lateDiscover, err error) {
	ex, err := transport.NewExchange(era, raw)
	if err != nil {
		return m, nil, err
	}
	ex.Caller.Forwarded = proxy.ForwardedFrom(ctx)
	stop := ex.Follow(ctx)
	replies, err := link.Call(ex)
	if err != nil {
		stop()
		return m, nil, err
	}
	quiet := min(quietTime, p.keeper.server.Timeout)
	if p.keeper.proves() {
		quiet = p.keeper.server.Timeout
	}
	m, err = p.await(link, replies, quiet)
	if errors.Is(err, proxy.ErrNotYet) {
		return m, &lateDiscover{link, replies, stop}, err
	}
	stop()
	_ = replies.Close()
	return m, nil, err
}

// await waits for the response of a server that may be starting, or silent. A process that has read the request may be silent for quiet,
// and take as long to start as any; another server may be silent for as long as a step of a probe lasts.
func (p *prober) await(link transport.Link, replies proxy.Replies, quiet time.Duration) (wire.Message, error) {
	server := p.keeper.server
	began := time.Now()
	r, reusable := transport.As[transport.Reusable](link)
	var since time.Time // that it has read the request
	for reusable {
		m, err := response(replies, time.Now().Add(lookTime))
		if !errors.Is(err, proxy.ErrNotYet) {
			return m, err
		}
		waits, known := r.Waits()
		switch now := time.Now(); {
		case !known:
			reusable = false
		case !waits && now.Sub(began) > server.HandshakeTimeout():
			return m, err
		case !waits:
			since = time.Time{}
		case since.IsZero():
			since = now
		case now.Sub(since) >= quiet:
			return m, err
		}
	}
	return response(replies, began.Add(server.Timeout))
}

// response waits for the response and leaves the replies open.
func response(replies proxy.Replies, until time.Time) (wire.Message, error) {
	for {
		m, err := replies.Next(until)
		if err != nil {
			return wire.Message{}, err
		}
		if m.IsResponse() {
			return m.Clone()
		}
	}
}

// settle returns the late link if its server has answered as a modern one meanwhile, and closes it otherwise.
func (p *prober) settle(v *Profile) transport.Link {
	l := p.late
	if l == nil {
		return nil
	}
	p.late = nil
	m, err := response(l.replies, time.Now().Add(lateTime))
	modern := err == nil && p.isModern(v, &m)
	r, ok := transport.As[transport.Reusable](l.link)
	kept := modern || ok && v.Legacy && !p.keeper.proves() && r.Return(p.keeper.opt.Idle)
	l.stop()
	_ = l.replies.Close()
	if modern {
		return l.link
	}
	if !kept {
		p.closeLink(l.link)
	}
	return nil
}

// closeLink closes the link of one step.
func (p *prober) closeLink(link transport.Link) {
	ended := make(chan struct{})
	end := func() {
		defer close(ended)
		_ = link.Close()
	}
	if !p.keeper.work.Spawn(end) { // the group has been closed
		end()
	}
	select {
	case <-ended:
	case <-time.After(endTime):
	}
}
