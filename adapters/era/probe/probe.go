package probe

import (
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
	wires            transport.Wires
	self             []byte         // clientInfo of Dragoman
	timeout          time.Duration  // for a step
	handshakeTimeout time.Duration  // for the first step that any server answers
	sink             transport.Sink // for the modern link, if it is kept
	forwards         bool           // the outcome may depend on the credentials of the caller
	spawn            func(func())   // runs a function in the background, or at once

	guarded     *transport.StatusError // a step was refused because of missing credentials
	reached     bool                   // a step got an answer, or timed out
	last        error                  // of the last step that failed
	late        *lateDiscover          // a process that has not answered server/discover yet
	unsupported *proxy.Error           // the server is modern and supports no revision that Dragoman does
}

// probe runs the steps. It returns the profile and, if the server is modern, the link on which it was found.
func (p *prober) probe(ctx context.Context) (*Profile, transport.Link, error) {
	v := &Profile{At: time.Now()}
	if p.wires.Modern != nil {
		link, err := p.discover(ctx, v)
		if link != nil || err != nil {
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
	} else if errors.Is(err, errModern) && p.wires.Modern != nil {
		return v, nil, nil
	}
	var nf *proxy.Error
	if errors.As(p.lastErr(ctx), &nf) {
		return nil, nil, nf
	}
	if p.forwards && p.guarded != nil {
		return nil, nil, proxy.Errf(proxy.Refused, "the upstream server says which revision it speaks only to callers with credentials, in a header "+
			"that upstreams.NAME.forward_headers passes on (%s): %w", strings.Join(v.Steps, "; "), p.guarded)
	}
	if (!p.reached || p.wires.Certain) && p.last != nil {
		return nil, nil, p.last // the server is unreachable: no other error says more
	}
	return nil, nil, proxy.Errf(proxy.EraUnknown, "cannot tell which revision the upstream server speaks: %s", strings.Join(v.Steps, "; "))
}

func (p *prober) lastErr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return proxy.Errf(proxy.ShuttingDown, "probing ended: %w", err)
	}
	return nil
}

// errModern reports that the answer to initialize is that of a modern server.
var errModern = errors.New("era: the server is modern")

func (p *prober) note(v *Profile, step string, err error) {
	text := err.Error()
	var e *proxy.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	if e == nil || e.Name != proxy.Unreachable.Name {
		p.reached = true
	}
	p.last = err
	if status := transport.Unauthorized(err); status != nil {
		p.guarded = status
	}
	v.Steps = append(v.Steps, step+": "+text)
}

// discover sends server/discover. It returns a link if the server is modern.
func (p *prober) discover(ctx context.Context, v *Profile) (transport.Link, error) {
	dialling, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	link, err := p.wires.Modern(dialling, p.sink)
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
	if p.late = later; later != nil && p.wires.Stdio {
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
	if p.wires.Legacy != nil {
		if err = p.initialize(ctx, v, p.wires.Legacy, "initialize"); err == nil || errors.Is(err, errModern) || errors.Is(err, transport.ErrFatal) {
			return err
		}
	}
	if p.wires.SSE != nil && ctx.Err() == nil {
		if err = p.initialize(ctx, v, p.wires.SSE, "GET as HTTP+SSE"); err == nil {
			v.SSE = true
		}
	}
	return err
}

// initialize opens a session of Dragoman's own and pings in it: a server that accepts initialize and then refuses every
// request of the session is no legacy server.
func (p *prober) initialize(ctx context.Context, v *Profile, dial transport.Dial, step string) error {
	ctx, cancel := context.WithTimeout(ctx, p.handshakeTimeout)
	defer cancel()
	link, err := dial(ctx, transport.Discard{})
	if err != nil {
		p.note(v, step, err)
		return err
	}
	defer p.closeLink(link)
	m, err := p.ask(ctx, link, proxy.Legacy, rules.InitializeRequest(p.self, []byte("{}")))
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
		m, err = p.ask(ctx, link, proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`))
	}
	if err != nil {
		p.note(v, step+", then ping", err)
		return err
	}
	v.Legacy, v.Init = true, init
	if !v.Modern {
		v.Version = string(wire.Get(init, wire.Whole(init), "protocolVersion").Text(init))
	}
	return nil
}

// ask sends a request of Dragoman's own and waits for its response.
func (p *prober) ask(ctx context.Context, link transport.Link, era proxy.Era, raw []byte) (wire.Message, error) {
	ex, err := transport.NewExchange(era, raw)
	if err != nil {
		return wire.Message{}, err
	}
	return transport.Ask(ctx, link, ex)
}
