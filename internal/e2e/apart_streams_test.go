package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// gossipListens are the resources of each listen, by its id. A legacy server has none.
type gossipListens map[string][]string

// begin records a listen, and returns its acknowledgement.
func (l gossipListens) begin(m *gossipMessage) string {
	l[string(m.ID)] = m.Params.Notices.URIs
	uris, _ := json.Marshal(m.Params.Notices.URIs)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true,"resourceSubscriptions":%s}}}`, m.ID, uris)
}

// notices tells that the note of a call has changed: each listen that names it, or if there is none, whoever may have subscribed.
func (l gossipListens) notices(m *gossipMessage) (all []string) {
	note := "note://" + m.Params.Arguments.Says
	for id, uris := range l {
		if slices.Contains(uris, note) {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, note, id))
		}
	}
	if len(l) == 0 {
		all = append(all, updated(note))
	}
	return all
}

// gossipWeb is the server over HTTP that repeats what calls say.
type gossipWeb struct {
	*upstream
	mu       sync.Mutex
	subs     map[string][]string // by session
	listens  map[*call][]string
	answered map[string]chan string // questions of calls, by id
}

// gossipUpstream starts one and returns its configuration.
func gossipUpstream(t *testing.T, kind string) string {
	t.Helper()
	w := &gossipWeb{upstream: newUpstream(t, kind), subs: map[string][]string{}, listens: map[*call][]string{}, answered: map[string]chan string{}}
	w.getOpen = true
	w.upstream.heard = func(s *seen, _ *stream) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if a := w.answered[s.id]; s.method == "response" && a != nil {
			delete(w.answered, s.id)
			a <- s.body
		}
	}
	w.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"print","inputSchema":{"type":"object"}},{"name":"crash","inputSchema":{"type":"object"}}]}`)
	})
	w.on("resources/subscribe", func(c *call) {
		var m struct{ Params struct{ URI string } }
		_ = json.Unmarshal([]byte(c.body), &m)
		w.mu.Lock()
		w.subs[w.own(c)] = append(w.subs[w.own(c)], m.Params.URI)
		w.mu.Unlock()
		c.result("{}")
	})
	w.on("subscriptions/listen", w.listen)
	w.on("tools/call", w.call)
	return w.toml("ISOLATION")
}

// own names the stream of a call's session.
func (w *gossipWeb) own(c *call) string {
	if w.kind == "sse" {
		return strings.TrimPrefix(c.path, "/messages?s=")
	}
	return "get-" + c.header.Get("Mcp-Session-Id")
}

func (w *gossipWeb) listen(c *call) {
	var m gossipMessage
	_ = json.Unmarshal([]byte(c.body), &m)
	w.mu.Lock()
	c.event(gossipListens{}.begin(&m))
	w.listens[c] = m.Params.Notices.URIs
	w.mu.Unlock()
	<-c.cancelled
	w.mu.Lock()
	delete(w.listens, c)
	w.mu.Unlock()
}

func (w *gossipWeb) call(c *call) {
	var m gossipMessage
	_ = json.Unmarshal([]byte(c.body), &m)
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf(format, args...)
		if strings.Contains(text, `"result":`) || strings.Contains(text, `"error":`) {
			c.message(200, text)
			return
		}
		c.event(text)
	}
	answered := make(chan string, 1)
	switch {
	case m.Params.Name == "touch":
		w.touch("note://" + m.Params.Arguments.Says)
		c.result(`{"resultType":"complete","content":[]}`)
	case m.Params.Name == "crash" && c.out == nil:
		c.raw(503, jsonType, `{"error":`+quote(c.body)+`}`)
	case m.Params.Name == "print", m.Params.Name == "crash": // there is no stderr
		c.result(`{"resultType":"complete","content":[]}`)
	case m.Params.Name == "ask" && w.legacy:
		w.mu.Lock()
		w.answered[`"q`+strings.Trim(c.id, `"`)+`"`] = answered
		w.mu.Unlock()
		c.event(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%s",%s}`, strings.Trim(c.id, `"`), gossipQuestion(m.Params.Arguments.Says)))
		select {
		case text := <-answered:
			c.result(`{"content":[{"type":"text","text":` + quote("answered "+text) + `}]}`)
		case <-c.cancelled:
		}
	default:
		m.call(say, c.body+c.header.Get("X-Request-Id")+c.header.Get("Baggage"), answered)
	}
}

// touch tells those that have subscribed to a note that it has changed.
func (w *gossipWeb) touch(note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, uris := range w.listens {
		if slices.Contains(uris, note) {
			c.event(strings.Replace(updated(note), `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},`, 1))
		}
	}
	for session, uris := range w.subs {
		w.upstream.mu.Lock()
		s := w.streams[session]
		w.upstream.mu.Unlock()
		if s != nil && slices.Contains(uris, note) {
			s.send(updated(note))
		}
	}
}

// follow keeps what comes on a stream, until the test's end or that of the stream.
func (g *gossiper) follow(verb, body string, headers ...string) {
	req, err := http.NewRequestWithContext(g.until, verb, g.r.base+g.path+"/mcp", strings.NewReader(body))
	if err != nil {
		g.r.t.Error(err)
		return
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	g.streams.Go(func() {
		res, err := g.r.http.Do(req)
		if err != nil {
			return // the test has ended
		}
		defer func() { _ = res.Body.Close() }()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			g.mu.Lock()
			g.received = append(g.received, lines.Text())
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok && verb == "GET" {
				g.event = id
			}
			g.mu.Unlock()
		}
	})
}

// stream opens the stream of its session, as of an event.
func (g *gossiper) stream(event string) {
	headers := []string{"Accept", "text/event-stream", "Mcp-Session-Id", g.session}
	if event != "" {
		headers = append(headers, "Last-Event-ID", event)
	}
	g.follow("GET", "", headers...)
}

func (g *gossiper) lastEvent() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.event
}

// listen opens a listen of its modern client.
func (g *gossiper) listen() {
	g.listens = true
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://mark-%s-0"]},%s}}`, g.mark(), g.name, modernMeta)
	g.follow("POST", body, append(modernHeaders("subscriptions/listen", ""), "X-Request-Id", g.mark())...)
}

// subscribe subscribes its session to its note, and touches that.
func (g *gossiper) subscribe() {
	g.send("POST", g.path+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"resources/subscribe","params":{"uri":"note://mark-%s-0"}}`, g.mark(), g.name), legacyHeaders(g.session)...)
	g.legacy("touch")
}

// hears touches its note until the stream of its session tells of it: of several processes, the listen is at one.
func (g *gossiper) hears() {
	testkit.Eventually(g.r.t, g.name+" hears of its note", func() bool {
		g.legacy("touch")
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.ContainsFunc(g.received, func(s string) bool {
			return strings.HasPrefix(s, "data") && strings.Contains(s, `"note://mark-`+g.name+`-0"`)
		})
	})
}

// rest does one thing at random over REST.
func (g *gossiper) rest(tool string) {
	args := fmt.Sprintf(`{"says":%q}`, g.mark())
	headers := []string{"Content-Type", jsonType, "X-Request-Id", g.mark()}
	switch g.rnd.IntN(5) {
	case 0:
		g.send("POST", g.path+"/tools/print", args, headers...)
	case 1:
		g.send("POST", g.path+"/mcp/tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args), headers...)
	case 2:
		g.send("GET", g.path+"/openapi.json", "", headers...)
	case 3: // what all send, under one key
		g.send("POST", g.path+"/call-tool", `{"tool":"echo","arguments":{}}`, append(headers, "Idempotency-Key", "same over rest")...)
	case 4:
		g.send("GET", g.path+"/tools", "", headers...)
		g.send("GET", g.path+"/health", "", headers...)
	}
}

// An update that names nothing that is subscribed to goes to all listens of a client, since only the server knows what it relates to, but not
// where several callers share the session: it may be another's.
func TestUpdatesOfNobody(t *testing.T) {
	for _, kind := range []string{"legacy", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			announce := announcer(u)
			more, keys := keysToml("alice", "bob")
			r := startRig(t, "[security]\napi_keys_enabled = true\n"+more+u.toml(`isolation = "shared"`)+noticeRules, true)
			alice, bob := newHTTPTestClient(r.as(keys["alice"])), newHTTPTestClient(r.as(keys["bob"]))
			noticed(t, alice, announce, false, false)
			announce("demo://elsewhere")
			if got := alice.receives("stream"); !strings.Contains(got, `"demo://elsewhere"`) {
				t.Errorf("the only caller received %s", got)
			}
			bob.open("2025-11-25", "{}")
			bob.send("tools", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			bob.receives("tools")
			announce("demo://of-bob", "demo://dir/fine")
			if got := alice.receives("stream"); !strings.Contains(got, `"demo://dir/fine"`) {
				t.Errorf("alice received %s", got)
			}
		})
	}
}
