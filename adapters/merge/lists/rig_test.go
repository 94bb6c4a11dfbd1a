package lists

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// member is a server that a test scripts. It stands for the servers' upstreams, and lists one tool for each word.
type member struct {
	Server
	modern bool
	began  time.Time

	mu       sync.Mutex
	caps     string // an object
	tools    string
	bare     string                   // of clients without capabilities; empty: as tools
	on       map[string]proxy.Handler // serves a method in place of the member
	received []string                 // methods, each with the seconds since the start of the test, and bare of a client without capabilities; of an answer its id and code
	session  *proxy.Session           // the last one that was opened
	speech   chan string              // what is said in the last listen
}

// newMember returns a server of an era, "legacy" or "modern", which announces changes of its tools.
func newMember(name, era string) *member {
	m := &member{modern: era == "modern", began: time.Now(), caps: `{"tools":{"listChanged":true}}`, tools: "t", on: map[string]proxy.Handler{}}
	m.Server = Server{Name: name, Transport: "HTTP", Do: m.do, Modern: func(context.Context) (bool, error) { return m.modern, nil }}
	return m
}

// set changes the member while requests may come.
func (m *member) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// serve has a method served by a handler; nil: by the member again.
func (m *member) serve(method string, by proxy.Handler) { m.set(func() { m.on[method] = by }) }

func (m *member) do(ex *proxy.Exchange) (proxy.Replies, error) {
	msg := &ex.Msg
	method := string(msg.Text(msg.Method))
	if string(ex.Client.Caps) == "{}" {
		method = "bare " + method
	}
	m.mu.Lock()
	text := fmt.Sprint(time.Since(m.began).Round(time.Millisecond).Seconds(), " ", method)
	if msg.IsResponse() {
		text += string(msg.Of(msg.ID)) + " " + string(wire.Path(msg.Raw, wire.Whole(msg.Raw), "error", "code").Of(msg.Raw))
	}
	m.received = append(m.received, text)
	by, result := m.on[method], "{}"
	switch strings.TrimPrefix(method, "bare ") {
	case "initialize":
		m.session = ex.Session
		result = `{"protocolVersion":"2025-06-18","serverInfo":{"name":"m","version":"2"},"instructions":"Ask.","capabilities":` + m.caps + `}`
	case "server/discover":
		result = `{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"2"}},"instructions":"Ask.","capabilities":` + m.caps + `}`
	case "tools/list":
		result = toolsResult(m.tools)
		if m.bare != "" && method != "tools/list" {
			result = toolsResult(m.bare)
		}
	case "subscriptions/listen":
		m.speech = make(chan string, 10)
		result = ""
	}
	speech := m.speech
	m.mu.Unlock()
	switch {
	case by != nil:
		return by(ex)
	case msg.Kind != wire.Request:
		return nil, nil
	case result == "":
		return &spoken{ex, speech}, nil
	}
	return proxy.Reply(proxy.ResultMessage(msg.Of(msg.ID), []byte(result))), nil
}

// toolsResult returns a result of tools/list with a tool for each word.
func toolsResult(names string) string {
	var tools []string
	for name := range strings.FieldsSeq(names) {
		tools = append(tools, `{"name":"`+name+`"}`)
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

// spoken are the messages of a listen, or of another request that does not end by itself.
type spoken struct {
	ex   *proxy.Exchange
	said chan string // closed: it is lost
}

// Next implements proxy.Replies.
func (s *spoken) Next(until time.Time) (*wire.Message, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case raw, open := <-s.said:
		if !open {
			return nil, proxy.Errf(proxy.Lost, "gone")
		}
		return proxy.Scanned([]byte(strings.ReplaceAll(raw, "$ID", string(s.ex.Msg.Of(s.ex.Msg.ID)))))
	case <-s.ex.Done():
		return nil, s.ex.Err()
	case <-late:
		return nil, proxy.ErrNotYet
	}
}

// Close implements proxy.Replies.
func (s *spoken) Close() error { return nil }

// says returns a handler that answers with messages, in which $ID stands for the id of the request, and then with silence.
func says(messages ...string) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		said := make(chan string, len(messages))
		for _, raw := range messages {
			said <- raw
		}
		return &spoken{ex, said}, nil
	}
}

// fails returns a handler that fails.
func fails(err error) proxy.Handler {
	return func(*proxy.Exchange) (proxy.Replies, error) { return nil, err }
}

// refused is the answer of a server that refuses a request.
const refused = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"no"}}`

// changedTools is the notification of a server whose tools have changed.
const changedTools = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// say sends a message outside of calls: in the last session, or in the last listen.
func (m *member) say(raw string) {
	if m.modern {
		m.set(func() { m.speech <- raw })
		return
	}
	if err := m.session.Push([]byte(raw)); err != nil {
		panic(err)
	}
}

// lose ends what Dragoman has open there.
func (m *member) lose() {
	if m.modern {
		m.set(func() { close(m.speech) })
		return
	}
	m.session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "gone"))
}

// at returns the seconds at which the member has received a method; "": everything that it has received.
func (m *member) at(method string) string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, text := range m.received {
		if at, of, _ := strings.Cut(text, " "); method == "" {
			all = append(all, text)
		} else if of == method {
			all = append(all, at)
		}
	}
	return strings.Join(all, " ")
}

// forget empties what the member has received.
func (m *member) forget() { synctest.Wait(); m.set(func() { m.received = nil }) }

// bubble is a Refresher in a bubble of package synctest, in which time passes only while everybody waits.
type bubble struct {
	*Refresher
	*testing.T
	began time.Time
	mu    sync.Mutex
	notes []string // each with the seconds since the start of the test
}

// inBubble runs a test with a Refresher of the given options.
func inBubble(t *testing.T, opt Options, run func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, began: time.Now()}
		c, err := catalogue.Open(t.Context(), catalogue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		opt.Note = func(level, server, msg string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notes = append(b.notes, fmt.Sprint(time.Since(b.began).Seconds(), " ", level, " ", server, ": ", msg, ": ", err))
		}
		opt.Catalogue, opt.Info, opt.NewID = c, []byte(`{"name":"dragoman","version":"1"}`), proxy.NewRequestID
		b.Refresher = New(opt)
		defer b.Close()
		run(b)
	})
}

// ask replaces the servers by members.
func (b *bubble) ask(members ...*member) {
	var servers []Server
	for _, m := range members {
		servers = append(servers, m.Server)
	}
	b.SetServers(servers)
}

// shown returns what the catalogue has of a server: its presence and its tools.
func (b *bubble) shown(server string) string {
	synctest.Wait()
	return shown(b.Catalogue().Snapshot().Server(server))
}

// owns returns what is known of a server as a caller sees it: its presence and its tools.
func (b *bubble) owns(server string) string {
	synctest.Wait()
	return shown(b.Own([]string{server}, &Client{})[0])
}

// awaitsOwn waits for the lists that a server shows a caller.
func (b *bubble) awaitsOwn(server string) {
	b.Helper()
	if err := b.AwaitOwn(b.Context(), []string{server}, Client{}); err != nil {
		b.Fatal(err)
	}
}

// noted returns the notes since the last look.
func (b *bubble) noted() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.notes, "\n")
	b.notes = nil
	return text
}

// is compares a value with the wanted one.
func (b *bubble) is(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("after %v: %s: %s\nwant %s", time.Since(b.began), what, got, want)
	}
}

// has fails the test unless text has each of the parts.
func (b *bubble) has(text string, parts ...string) {
	b.Helper()
	if i := slices.IndexFunc(parts, func(part string) bool { return !strings.Contains(text, part) }); i >= 0 {
		b.Errorf("after %v: %q\nhas no %q", time.Since(b.began), text, parts[i])
	}
}
