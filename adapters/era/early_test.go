package era

import (
	"context"
	"testing"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A server that speaks the moment it is started, before Dial has returned its link, once took the whole proxy down: its
// question was to be answered on a link that was not there yet.
func TestServerAsksBeforeDialReturns(t *testing.T) {
	question := scan(t, `{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	notice := scan(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	early := func(_ context.Context, sink transport.Sink) (transport.Link, error) {
		sink.Message(question)
		sink.Message(notice)
		return nil, proxy.Errf(proxy.Unreachable, "the server has gone again")
	}
	u := NewUpstream(Options{Name: "x", Wires: transport.Wires{Legacy: early}, ProbeTimeout: time.Second, MaxSessions: 1})
	u.verdict = &Verdict{Legacy: true, At: time.Now()}
	u.opt.VerdictTTL = time.Hour
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	for _, ex := range []*proxy.Exchange{
		{Msg: *scan(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), Session: s},
		{Msg: *scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`), Client: proxy.Client{Era: proxy.Modern}},
	} {
		if _, err := u.Do(ex); err == nil || proxy.AsError(err).Name != proxy.Unreachable.Name {
			t.Errorf("%s: %v", wire.Request, err)
		}
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
}
