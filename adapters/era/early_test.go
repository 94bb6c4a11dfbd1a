package era

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A server may ask before Dial has returned its link. Answering on the missing link once crashed the proxy.
func TestServerAsksBeforeDialReturns(t *testing.T) {
	question := fakeserver.Scan(t, `{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	notice := fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	var found atomic.Bool // that the server is legacy: the first link, over which it is probed, is a good one
	probed := &fakeServer{}
	early := func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		if !found.Swap(true) {
			return probed.Dial(ctx, sink)
		}
		sink.Message(question)
		sink.Message(notice)
		return nil, proxy.Errf(proxy.Unreachable, "the server has gone again")
	}
	u := NewUpstream(Options{Server: transport.Server{Name: "x", Wires: transport.Wires{Legacy: early}, Timeout: time.Second},
		Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: 1}})
	if v, err := u.Profile(t.Context()); err != nil || !v.Legacy {
		t.Fatal(v, err)
	}
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	for _, ex := range []*proxy.Exchange{
		{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), Session: s},
		{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`), Client: proxy.Client{Era: proxy.Modern}},
	} {
		if _, err := u.Do(ex); err == nil || proxy.AsError(err).Name != proxy.Unreachable.Name {
			t.Errorf("%s: %v", wire.Request, err)
		}
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
}
