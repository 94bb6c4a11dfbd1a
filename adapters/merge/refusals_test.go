package merge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/conformance/everything"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Requests that a member's policy refuses are recorded once, as the client has made them.
func TestRefusalsOfMembersAreAudited(t *testing.T) {
	server := everything.New(everything.Options{Name: "a"})
	t.Cleanup(func() { _ = server.Close() })
	metric, err := access.NewFilterMetric(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	opt := access.FilterOptions{Server: "a"}
	opt.Disabled.Tools = []string{"echo"}
	filter := access.NewFilter(opt, metric)
	file := filepath.Join(t.TempDir(), "audit.log")
	trail, err := telemetry.OpenAuditLog(telemetry.AuditLogOptions{File: file, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a := Member{Member: view.Member{Name: "a", Shown: filter.Policy()}, Do: proxy.Chain(everything.Only("legacy", server.Do), filter.Policy())}
	r := newRig(t, Options{Members: []Member{a}}, "b modern")
	r.catalogue.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}})
	r.Start()
	r.settled()
	p := r.newPeer(false)
	audited := telemetry.Audit(telemetry.AuditOptions{Log: trail, Methods: []string{"*"}})(r.Do)
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a.echo","arguments":{"message":"hi"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(session.Run(p.session, &proxy.Exchange{Msg: m}, audited)); got.err == nil {
		t.Errorf("%v", got)
	}
	trail.Close()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var line struct{ RequestID, SessionID, Server, Method, ToolName, Decision, Policy, Outcome string }
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatalf("no single line: %s, %v", text, err)
	}
	line.SessionID = strings.Replace(line.SessionID, p.session.ID[:6], "the client's", 1)
	if want := (struct{ RequestID, SessionID, Server, Method, ToolName, Decision, Policy, Outcome string }{"x", "the client's", "a", "tools/call", "a.echo", "denied", "access", "tool_not_found"}); line != want {
		t.Errorf("%+v, want %+v", line, want)
	}
}

// Whatever is found out about a request at a member is known of the client's request before it fails, and with each reply.
func TestFindingsReachTheClientsRequest(t *testing.T) {
	find := func(ex *proxy.Exchange) {
		if ex.Target != "k" {
			t.Errorf("at the member the target is %q", ex.Target)
		}
		ex.Target, ex.RefusedBy, ex.Replayed, ex.Allowance = "fallback", "strict", true, 7
		ex.UpstreamEra.In(proxy.Legacy)
		ex.Lasting.Store(true)
		ex.Polled.Store(true)
	}
	refused := proxy.Errf(proxy.InvalidParams, "no")
	for what, call := range map[string]func(ex *proxy.Exchange) (proxy.Replies, error){
		"at once": func(ex *proxy.Exchange) (proxy.Replies, error) { find(ex); return nil, refused },
		"later": func(ex *proxy.Exchange) (proxy.Replies, error) {
			return &late{func() error { find(ex); return refused }}, nil
		},
		"not yet": func(ex *proxy.Exchange) (proxy.Replies, error) {
			return &late{func() error { find(ex); return proxy.ErrNotYet }}, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			k := newTalker()
			k.call = call
			r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
			p := r.newPeer(false)
			m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"k.x"}}`))
			if err != nil {
				t.Fatal(err)
			}
			ex := &proxy.Exchange{Msg: m}
			if got := drain(session.Run(p.session, ex, r.Do)); got.err == nil {
				t.Errorf("%v", got)
			}
			if ex.Target != "fallback" || ex.RefusedBy != "strict" || !ex.Replayed || ex.Allowance != 7 || ex.UpstreamEra.String() != "legacy" || !ex.Lasting.Load() || !ex.Polled.Load() || ex.NotProcessed {
				t.Errorf("known are %q, %q, %v, %d, %v, %v, %v, %v", ex.Target, ex.RefusedBy, ex.Replayed, ex.Allowance, ex.UpstreamEra, ex.Lasting.Load(), ex.Polled.Load(), ex.NotProcessed)
			}
			if string(ex.Msg.Text(ex.Msg.Name)) != "k.x" {
				t.Errorf("the client's request names %s", ex.Msg.Text(ex.Msg.Name))
			}
		})
	}
}

// late fails when it is read.
type late struct{ next func() error }

// Next implements proxy.Replies.
func (l *late) Next(time.Time) (*wire.Message, error) { return nil, l.next() }

// Close implements proxy.Replies.
func (l *late) Close() error { return nil }

// A client that has polled is not told to poll again, unless the member does so again.
func TestPollingIsToldOnce(t *testing.T) {
	k, polls := newTalker(), 0
	k.call = func(ex *proxy.Exchange) (proxy.Replies, error) {
		return &late{func() error {
			if polls++; polls == 1 || polls == 3 {
				ex.Polled.Store(true)
			}
			return proxy.ErrNotYet
		}}, nil
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
	p := r.newPeer(false)
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"k.x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m}
	replies, err := session.Run(p.session, ex, r.Do)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Close() }()
	for i, want := range []bool{true, false, true} {
		_, _ = replies.Next(time.Time{})
		if got := ex.Polled.Swap(false); got != want {
			t.Errorf("after read %d: %v", i, got)
		}
	}
}

// The policy that refuses a handshake at a member has refused the request that needs it.
func TestRefusedHandshakes(t *testing.T) {
	var received []string
	do := func(ex *proxy.Exchange) (proxy.Replies, error) {
		received = append(received, string(ex.Msg.Text(ex.Msg.Method)))
		ex.RefusedBy = "strict"
		return nil, proxy.Errf(proxy.InsufficientScope, "no")
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
	p := r.newPeer(false)
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"k.x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m}
	if got := drain(session.Run(p.session, ex, r.Do)); !proxy.IsFault(got.err, proxy.InsufficientScope) || ex.RefusedBy != "strict" || ex.Target != "k" {
		t.Errorf("%v, refused by %q at %q", got, ex.RefusedBy, ex.Target)
	}
	if !slices.Equal(received, []string{"initialize"}) {
		t.Errorf("the member has received %v", received)
	}
}
