package everything

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// The legacy revisions.
const (
	rev2024 = "2024-11-05"
	rev0326 = "2025-03-26"
	rev0618 = "2025-06-18"
	rev2511 = "2025-11-25"
)

// legacyClient is a legacy client in its session, with a stream for messages that belong to no request.
type legacyClient struct {
	t    *testing.T
	s    *Server
	sess *proxy.Session

	mu     sync.Mutex
	pushed []string
}

// Push implements proxy.Outlet.
func (c *legacyClient) Push(msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushed = append(c.pushed, string(msg))
	return nil
}

// End implements proxy.Outlet.
func (c *legacyClient) End() {}

// takePushed returns the messages pushed since the last call.
func (c *legacyClient) takePushed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.pushed
	c.pushed = nil
	return all
}

// newLegacyClient opens a session with all capabilities or, if not empty, those in caps.
func newLegacyClient(t *testing.T, s *Server, version, caps string) *legacyClient {
	t.Helper()
	if caps == "" {
		caps = allCaps
	}
	c := &legacyClient{t: t, s: s, sess: proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())}
	t.Cleanup(func() { c.sess.End(proxy.Closed) })
	c.sess.SetOutlet(c)
	resp := c.call("initialize", `"protocolVersion":"`+version+`","capabilities":`+caps+`,"clientInfo":{"name":"old","version":"1"}`)
	if resp.Error != nil {
		t.Fatal(resp.Error)
	}
	c.tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// begin sends a request.
func (c *legacyClient) begin(method, members string) (*proxy.Exchange, proxy.Replies) {
	c.t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"q1","method":"` + method + `","params":{` + members + `}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m}
	r, err := session.Run(c.sess, ex, c.s.Do)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return ex, r
}

// next reads one reply.
func (c *legacyClient) next(r proxy.Replies) (*wire.Message, error) {
	return r.Next(time.Now().Add(10 * time.Second))
}

// must reads one reply.
func (c *legacyClient) must(r proxy.Replies) *wire.Message {
	c.t.Helper()
	m, err := c.next(r)
	if err != nil {
		c.t.Fatal(err)
	}
	kept, _ := m.Clone()
	return &kept
}

// end reads the response, which must come next, and closes the replies.
func (c *legacyClient) end(r proxy.Replies) response {
	c.t.Helper()
	defer func() { _ = r.Close() }()
	m := c.must(r)
	var resp response
	if err := json.Unmarshal(m.Raw, &resp); err != nil || !m.IsResponse() {
		c.t.Fatalf("no response: %s, %v", m.Raw, err)
	}
	if _, err := c.next(r); !errors.Is(err, io.EOF) {
		c.t.Fatalf("after the response: %v", err)
	}
	return resp
}

// call sends a request that is answered with one message.
func (c *legacyClient) call(method, members string) response {
	c.t.Helper()
	_, r := c.begin(method, members)
	return c.end(r)
}

// tell sends a notification or a response.
func (c *legacyClient) tell(raw string) {
	c.t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	session.Deliver(c.sess, &proxy.Exchange{Msg: m}, c.s.Do)
}

// answers sends the result of a question.
func (c *legacyClient) answers(question *wire.Message, result string) {
	c.t.Helper()
	c.tell(`{"jsonrpc":"2.0","id":` + string(question.Of(question.ID)) + `,"result":` + result + `}`)
}

func TestInitialize(t *testing.T) {
	s := newServer(t, Options{Instructions: "hi"})
	f := func(asked, given string) {
		t.Helper()
		c := &legacyClient{t: t, s: s, sess: proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())}
		resp := c.call("initialize", `"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"old","version":"1"}`)
		same(t, asked, resp.Result, `{"protocolVersion":"`+given+`","capabilities":`+offered+
			`,"serverInfo":{"name":"dragoman-demo","version":"dev"},"instructions":"hi"}`)
		if got := c.sess.Client().Version; got != given {
			t.Errorf("the session speaks %s", got)
		}
	}
	for _, v := range []string{rev2024, rev0326, rev0618, rev2511} {
		f(v, v)
	}
	f(revision, rev2511)
	f("1999-01-01", rev2511)
}

// Legacy results have no modern members.
func TestLegacyResults(t *testing.T) {
	s := newServer(t, Options{PageSize: 3})
	c := newLegacyClient(t, s, rev2511, "")
	f := func(method, members string) {
		t.Helper()
		resp := c.call(method, members)
		if resp.Error != nil {
			t.Errorf("%s {%s}: %v", method, members, resp.Error)
		}
		for _, word := range []string{"resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol"} {
			if strings.Contains(string(resp.Result), word) {
				t.Errorf("%s {%s} has %s: %s", method, members, word, resp.Result)
			}
		}
	}
	f("ping", "")
	f("tools/list", "")
	f("resources/list", "")
	f("resources/templates/list", "")
	f("prompts/list", "")
	f("resources/read", `"uri":"demo://counter"`)
	f("resources/read", `"uri":"demo://item/1"`)
	f("prompts/get", `"name":"plain"`)
	f("completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"style","value":"f"}`)
	f("tools/call", `"name":"add","arguments":{"a":1,"b":2}`)
	f("tools/call", `"name":"whoami"`)
	f("logging/setLevel", `"level":"info"`)
	f("resources/unsubscribe", `"uri":"demo://nope"`)

	g := func(method, members string, code int) {
		t.Helper()
		if resp := c.call(method, members); resp.Error == nil || resp.Error.Code != code {
			t.Errorf("%s {%s}: %s, %v; want %d", method, members, resp.Result, resp.Error, code)
		}
	}
	g("server/discover", "", -32601)
	g("subscriptions/listen", `"notifications":{}`, -32601)
	g("tasks/list", "", -32601)
	g("resources/read", `"uri":"demo://nope"`, -32002)
	g("resources/subscribe", `"uri":"demo://nope"`, -32002)
	g("resources/subscribe", ``, -32602)
	g("logging/setLevel", `"level":"loud"`, -32602)
	g("tools/call", `"name":"nope"`, -32602)
}

func TestOlderRevisions(t *testing.T) {
	s := newServer(t, Options{})
	f := func(version, call string, has ...string) {
		t.Helper()
		resp := newLegacyClient(t, s, version, "").call("tools/call", call)
		for _, word := range has {
			no, absent := strings.CutPrefix(word, "!")
			if strings.Contains(string(resp.Result), no) == absent {
				t.Errorf("%s, %s: %s; want %s", version, call, resp.Result, word)
			}
		}
	}
	f(rev0618, `"name":"add","arguments":{"a":1,"b":2}`, `"structuredContent":{"sum":3}`)
	f(rev0326, `"name":"add","arguments":{"a":1,"b":2}`, `!structuredContent`, `{\"sum\":3}`)
	f(rev0618, `"name":"media"`, `"type":"resource_link"`, `"type":"audio"`)
	f(rev0326, `"name":"media"`, `!resource_link`, `"type":"audio"`, "static text (demo://static/text)")
	f(rev2024, `"name":"test_audio_content"`, `!"type":"audio"`, "[audio, audio/wav]")
	f(rev2024, `"name":"media"`, `!resource_link`, `!"type":"audio"`, "[audio, audio/wav]")
	f(rev2511, `"name":"whoami"`, `\"era\":\"legacy\",\"version\":\"2025-11-25\"`)
}

func TestSetLevel(t *testing.T) {
	s := newServer(t, Options{})
	c := newLegacyClient(t, s, rev2511, "")
	f := func(want int) {
		t.Helper()
		_, r := c.begin("tools/call", `"name":"log","arguments":{"count":2},"_meta":{"io.modelcontextprotocol/logLevel":"debug"}`)
		n := 0
		for m := c.must(r); !m.IsResponse(); m = c.must(r) {
			n++
		}
		_ = r.Close()
		if n != want {
			t.Errorf("%d messages, want %d", n, want)
		}
	}
	f(0)
	c.call("logging/setLevel", `"level":"info"`)
	f(2)
	c.call("logging/setLevel", `"level":"error"`)
	f(0)
}
