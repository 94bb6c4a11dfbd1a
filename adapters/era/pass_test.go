package era

import (
	"context"
	"io"
	"testing"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const mismatch = `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"the headers differ"}}`

// mismatchLink is a link to a modern server that answers the first call with a header mismatch and cannot be reached afterwards.
type mismatchLink struct{ called bool }

func (l *mismatchLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	switch {
	case m.Is("server/discover"):
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`))), nil
	case m.Is("tools/list"):
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"resultType":"complete","tools":[]}`))), nil
	case l.called:
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	l.called = true
	return &oneReply{raw: []byte(mismatch)}, nil
}

func (*mismatchLink) Send(context.Context, []byte) error { return nil }
func (*mismatchLink) Close() error                       { return nil }

// oneReply returns one message, whose memory Close overwrites.
type oneReply struct {
	raw  []byte
	read bool
}

func (r *oneReply) Next(time.Time) (*wire.Message, error) {
	if r.read {
		return nil, io.EOF
	}
	r.read = true
	return proxy.Scanned(r.raw)
}

func (r *oneReply) Close() error {
	clear(r.raw)
	return nil
}

// A call that cannot be sent again after a header mismatch ends with the server's error, whose memory is still held.
func TestHeaderMismatchThatCannotBeRepeated(t *testing.T) {
	link := &mismatchLink{}
	dial := func(context.Context, transport.Sink) (transport.Link, error) { return link, nil }
	u := NewUpstream(Options{Server: transport.Server{Name: "up", Wires: transport.Wires{Modern: dial, Mirrors: true}, Timeout: time.Second},
		Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: 1}})
	replies, err := u.Do(modernExchange(t, "p", `{"name":"n"}`, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := replies.Next(time.Time{})
	if err != nil || string(m.Raw) != mismatch {
		t.Errorf("received %s, %v", m.Raw, err)
	}
	if err := replies.Close(); err != nil {
		t.Error(err)
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
}
