package merge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/conformance/everything"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an Upstream of demonstration servers.
type rig struct {
	*Upstream
	lists     *lists.Refresher
	catalogue *catalogue.Catalogue
	modern    func(ctx context.Context, server string) (bool, error)
	apart     map[string]func(proxy.Caller) bool  // lists.Server.Contextual, by server
	dual      func(context.Context) (bool, error) // lists.Server.Dual of all
	started   bool
	t         *testing.T
	servers   map[string]*everything.Server
	notes     chan string
}

// newRig merges servers "name era", such as "a modern".
func newRig(t *testing.T, opt Options, servers ...string) *rig {
	t.Helper()
	return newRigOf(t, lists.Options{}, opt, servers...)
}

// newRigOf is newRig with options of what keeps the lists.
func newRigOf(t *testing.T, kept lists.Options, opt Options, servers ...string) *rig {
	t.Helper()
	r := &rig{t: t, servers: map[string]*everything.Server{}, notes: make(chan string, 100)}
	eras := map[string]string{}
	r.modern = func(_ context.Context, server string) (bool, error) { return eras[server] == "modern", nil }
	r.keep(kept)
	all := map[string]catalogue.Kept{}
	for _, text := range servers {
		name, era, _ := strings.Cut(text, " ")
		server := everything.New(everything.Options{Name: name, PageSize: 3, Instructions: "This is " + name + "."})
		t.Cleanup(func() { _ = server.Close() })
		r.servers[name], all[name] = server, catalogue.Kept{Transport: "HTTP"}
		opt.Members = append(opt.Members, Member{Member: view.Member{Name: name}, Do: everything.Only(era, server.Do)})
		eras[name] = era
	}
	r.Upstream = New(r.defaults(opt, all))
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (r *rig) defaults(opt Options, kept map[string]catalogue.Kept) Options {
	r.catalogue.Keep(kept)
	opt.Lists = r.lists
	opt.Info = []byte(`{"name":"dragoman","version":"1"}`)
	opt.Sealer, _ = seal.New(nil)
	opt.StateTTL = time.Minute
	opt.Note = r.note
	return opt
}

// keep makes what keeps the lists.
func (r *rig) keep(opt lists.Options) {
	c, err := catalogue.Open(r.t.Context(), catalogue.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	opt.Catalogue, opt.Info, opt.NewID, opt.Note = c, []byte(`{"name":"dragoman","version":"1"}`), rand.Text, r.note
	r.catalogue, r.lists = c, lists.New(opt)
	r.t.Cleanup(r.lists.Close)
}

func (r *rig) note(level, server, msg string, err error) {
	select {
	case r.notes <- fmt.Sprint(level, " ", server, ": ", msg, ": ", err):
	default:
	}
}

// Start begins to ask the members for their lists.
func (r *rig) Start() {
	r.started = true
	r.ask()
}

// ask asks those that are members now.
func (r *rig) ask() {
	var servers []lists.Server
	for name, m := range r.now.Load().members {
		servers = append(servers, lists.Server{Name: name, Transport: "HTTP", Do: m.now.Load().Do, Modern: func(ctx context.Context) (bool, error) { return r.modern(ctx, name) }, Contextual: r.apart[name], Dual: r.dual})
	}
	r.lists.SetServers(servers)
}

// SetMembers replaces the members.
func (r *rig) SetMembers(members []Member) {
	r.Upstream.SetMembers(members)
	if r.started {
		r.ask()
	}
}

// settled waits until all members are there.
func (r *rig) settled() {
	for {
		now := r.catalogue.Snapshot()
		if !slices.ContainsFunc(now.Servers, func(s *catalogue.Server) bool { return s.Presence != catalogue.There }) {
			return
		}
		<-r.catalogue.Changed(now.Version)
	}
}

// exchange returns a request of a modern client; params without braces and _meta.
func exchange(t *testing.T, method, params string) *proxy.Exchange {
	t.Helper()
	meta := `"_meta":` + string(wire.Object(rules.ModernMeta([]byte(`{"name":"test","version":"1"}`), []byte(`{"elicitation":{},"sampling":{},"roots":{}}`))))
	if params != "" {
		params += ","
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + meta + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Caps: m.Of(m.Caps), LogLevel: "debug"}}
}

// reply is what came back for a request.
type reply struct {
	notices []string
	raw     string // the response
	err     error
}

// drain reads all replies.
func drain(replies proxy.Replies, err error) (r reply) {
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Time{})
		switch {
		case errors.Is(err, io.EOF):
			return r
		case err != nil:
			r.err = err
			return r
		case m.IsResponse():
			r.raw = string(m.Append(nil))
		default:
			r.notices = append(r.notices, string(m.Append(nil)))
		}
	}
}

// call sends a request of a modern client and returns what came back.
func (r *rig) call(method, params string) reply {
	r.t.Helper()
	return drain(r.Do(exchange(r.t, method, params)))
}

// at returns the text of a value in a response by its path.
func (r reply) at(path ...string) string {
	s := wire.Path([]byte(r.raw), wire.Whole([]byte(r.raw)), append([]string{"result"}, path...)...)
	if s.IsString([]byte(r.raw)) {
		return string(s.Text([]byte(r.raw)))
	}
	return string(s.Of([]byte(r.raw)))
}

// keysOf returns the keys of the entries of a list.
func (r reply) keysOf(list, key string) (all []string) {
	raw := []byte(r.raw)
	for _, item := range wire.Items(raw, wire.Path(raw, wire.Whole(raw), "result", list)) {
		all = append(all, string(wire.Get(raw, item, key).Text(raw)))
	}
	return all
}

// peer is a legacy client.
type peer struct {
	r       *rig
	session *proxy.Session

	mu     sync.Mutex
	id     int
	pushed chan string
}

// newPeer opens a session. Its stream is open if stream says so.
func (r *rig) newPeer(stream bool) *peer { r.t.Helper(); return r.newPeerOf(proxy.Caller{}, stream) }

// newPeerOf is newPeer for a caller.
func (r *rig) newPeerOf(caller proxy.Caller, stream bool) *peer {
	r.t.Helper()
	p := &peer{r: r, session: proxy.NewSession(rand.Text(), "streamable-http", "", caller, time.Now()), pushed: make(chan string, 100)}
	r.t.Cleanup(func() { p.session.End(proxy.Closed) })
	got := p.call("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"peer","version":"3"}`)
	if got.err != nil || got.at("protocolVersion") != "2025-11-25" {
		r.t.Fatalf("initialize: %v", got)
	}
	if stream {
		p.session.SetOutlet(p)
	}
	p.notify(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// Push implements proxy.Outlet.
func (p *peer) Push(msg []byte) error { p.pushed <- string(msg); return nil }

// End implements proxy.Outlet.
func (p *peer) End() {}

// begin sends a request.
func (p *peer) begin(method, params string) (proxy.Replies, error) {
	p.r.t.Helper()
	p.mu.Lock()
	p.id++
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, p.id, method, params))
	p.mu.Unlock()
	if err != nil {
		p.r.t.Fatal(err)
	}
	return session.Run(p.session, &proxy.Exchange{Msg: m}, p.r.Do)
}

func (p *peer) call(method, params string) reply {
	p.r.t.Helper()
	return drain(p.begin(method, params))
}

// notify sends a notification or an answer.
func (p *peer) notify(raw string) {
	p.r.t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		p.r.t.Fatal(err)
	}
	session.Deliver(p.session, &proxy.Exchange{Msg: m}, p.r.Do)
}

// nextIn returns what waits for the next of some replies.
func nextIn(t *testing.T, replies proxy.Replies) func() string {
	return func() string {
		t.Helper()
		m, err := replies.Next(time.Now().Add(20 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Append(nil))
	}
}
