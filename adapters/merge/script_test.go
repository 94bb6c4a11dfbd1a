package merge

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// script is a server of one era that answers each method with given messages: $ID stands for the id of the request, $URI and $TASK for
// those of its params; "wait" waits for an answer of the client. It is reached through a real era.Upstream.
type script struct {
	modern bool
	caps   string
	heard  chan string // what it received but for handshakes and lists, edited messages
	answer chan struct{}

	mu    sync.Mutex
	on    map[string][]string
	last  map[string]string // the last request of each method
	sinks []transport.Sink
}

// set changes what a method is answered with.
func (s *script) set(method string, messages ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = messages
}

// newScript returns a server with the given capabilities, an object.
func newScript(modern bool, caps string) *script {
	s := &script{modern: modern, caps: caps, heard: make(chan string, 100), answer: make(chan struct{}, 10), on: map[string][]string{}, last: map[string]string{}}
	s.set("server/discover", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+`,"ttlMs":0,"cacheScope":"private"}}`)
	s.set("initialize", `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":`+caps+`,"serverInfo":{"name":"s","version":"1"}}}`)
	if modern {
		s.set("initialize", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`)
		s.set("subscriptions/listen", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`, "wait")
	} else {
		s.set("server/discover", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`)
	}
	s.lists("", "", "")
	return s
}

// lists sets the lists of tools, resources and templates, without brackets.
func (s *script) lists(tools, resources, templates string) {
	for method, list := range map[string]string{"tools/list": `"tools":[` + tools, "resources/list": `"resources":[` + resources, "resources/templates/list": `"resourceTemplates":[` + templates} {
		s.set(method, `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete",`+list+`],"ttlMs":0,"cacheScope":"private"}}`)
	}
	s.set("prompts/list", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","prompts":[],"ttlMs":0,"cacheScope":"private"}}`)
}

// dial implements transport.Dial.
func (s *script) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, sink)
	return s, nil
}

// say sends a message outside of calls, in all sessions.
func (s *script) say(t *testing.T, raw string) {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sink := range s.sinks {
		sink.Message(&m)
	}
}

// Call implements transport.Link.
func (s *script) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m, err := ex.Msg.Clone()
	if err != nil {
		return nil, err
	}
	method := string(m.Text(m.Method))
	s.mu.Lock()
	messages, known := s.on[method]
	s.last[method] = string(m.Raw)
	s.mu.Unlock()
	if !slices.Contains(unheard, method) {
		s.heard <- string(m.Raw)
	}
	if !known {
		messages = []string{`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"unknown"}}`}
	}
	fill := strings.NewReplacer("$ID", string(m.Of(m.ID)), "$TASK", string(m.Of(m.TaskID)), "$URI", string(m.Of(m.URI)))
	r := &scriptReplies{s: s, done: ex.Done()}
	for _, raw := range messages {
		r.left = append(r.left, fill.Replace(raw))
	}
	return r, nil
}

// Send implements transport.Link.
func (s *script) Send(_ context.Context, msg []byte) error {
	m, err := wire.Scan(msg)
	if err == nil && !m.Is("notifications/initialized") {
		s.heard <- string(msg)
	}
	if m.IsResponse() {
		s.answer <- struct{}{}
	}
	return nil
}

// Close implements transport.Link.
func (s *script) Close() error { return nil }

// scriptReplies are the answers to one request.
type scriptReplies struct {
	s    *script
	left []string
	done <-chan struct{}
}

// Next implements proxy.Replies.
func (r *scriptReplies) Next(until time.Time) (*wire.Message, error) {
	if len(r.left) > 0 && r.left[0] == "wait" {
		var limit <-chan time.Time
		if !until.IsZero() {
			limit = time.After(time.Until(until))
		}
		select {
		case <-r.s.answer:
			r.left = r.left[1:]
		case <-r.done:
			return nil, proxy.ErrCancelled
		case <-limit:
			return nil, proxy.ErrNotYet
		}
	}
	if len(r.left) == 0 {
		return nil, io.EOF
	}
	raw := r.left[0]
	r.left = r.left[1:]
	return proxy.Scanned([]byte(raw))
}

// Close implements proxy.Replies.
func (r *scriptReplies) Close() error { return nil }

// scriptRig merges scripts a, b, … behind an era.Upstream each, which drives tasks, and waits until their lists are known.
func scriptRig(t *testing.T, opt Options, servers ...*script) *rig {
	t.Helper()
	kept, eras := map[string]catalogue.Kept{}, map[string]bool{}
	for i, s := range servers {
		name := string(rune('a' + i))
		wires := transport.Wires{Legacy: s.dial}
		if s.modern {
			wires = transport.Wires{Modern: s.dial}
		}
		u := era.NewUpstream(era.Options{Server: transport.Server{Name: name, Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: wires, Timeout: 5 * time.Second},
			Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: 10}, DriveTasks: true})
		t.Cleanup(func() { _ = u.Close() })
		opt.Members = append(opt.Members, Member{Member: view.Member{Name: name, Drives: true}, Do: u.Do})
		kept[name], eras[name] = catalogue.Kept{Transport: "HTTP"}, s.modern
	}
	r := newRig(t, opt)
	r.modern = func(_ context.Context, server string) (bool, error) { return eras[server], nil }
	r.catalogue.Keep(kept)
	r.Start()
	r.settled()
	return r
}

// hears returns the next thing that a server receives of a method; "" stands for an answer.
func (s *script) hears(t *testing.T, method string) string {
	t.Helper()
	select {
	case got := <-s.heard:
		m, err := wire.Scan([]byte(got))
		if err != nil || string(m.Text(m.Method)) != method {
			t.Fatalf("the server received %s, want %q", got, method)
		}
		return got
	case <-time.After(10 * time.Second):
		t.Fatalf("the server received no %q", method)
		return ""
	}
}

// quiet fails if the servers have received anything that the test has not looked at.
func quiet(t *testing.T, servers ...*script) {
	t.Helper()
	for i, s := range servers {
		select {
		case got := <-s.heard:
			t.Errorf("server %d received %s", i, got)
		default:
		}
	}
}

// as sends a request of a modern client with the given principal and capabilities.
func (r *rig) as(who, caps, method, params string) reply {
	r.t.Helper()
	return drain(r.Do(r.exchangeAs(who, caps, method, params)))
}

func (r *rig) exchangeAs(who, caps, method, params string) *proxy.Exchange {
	r.t.Helper()
	meta := `"_meta":` + string(wire.Object(rules.ModernMeta([]byte(`{"name":"test","version":"1"}`), []byte(caps))))
	if strings.Contains(params, `"_meta":{`) {
		params, meta = strings.Replace(params, `"_meta":{`, strings.TrimSuffix(meta, "}")+",", 1), ""
	} else if params != "" {
		params += ","
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + meta + `}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: who}, Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: m.Of(m.Info), Caps: m.Of(m.Caps)}}
}

// has fails unless text has all parts.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	if i := slices.IndexFunc(parts, func(part string) bool { return !strings.Contains(text, part) }); i >= 0 {
		t.Errorf("%s\nhas no %s", text, parts[i])
	}
}

// unheard are the methods of handshakes and of the catalogue.
var unheard = []string{"initialize", "server/discover", "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list"}
