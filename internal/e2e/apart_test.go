package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"dragoman/internal/testkit"
)

// gossipMain is a server of either era that repeats what a call says wherever it can: in its result, errors, questions, notifications, state,
// log messages, and on stderr. What it says of a call it says in that call, or on stderr.
func gossipMain() {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	in := bufio.NewScanner(os.Stdin)
	waiting := map[string]chan string{}
	listens := gossipListens{}
	for in.Scan() {
		var m gossipMessage
		line := in.Text()
		_ = json.Unmarshal([]byte(line), &m)
		switch {
		case m.Method == "server/discover" && os.Getenv("GOSSIP_ERA") == "modern":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, discovered)
		case m.Method == "initialize" && os.Getenv("GOSSIP_ERA") == "legacy":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(welcomed, "2025-11-25"))
		case m.Method == "tools/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"print","inputSchema":{"type":"object"}},{"name":"crash","inputSchema":{"type":"object"}}]}}`, m.ID)
		case m.Method == "ping", m.Method == "resources/subscribe", m.Method == "resources/unsubscribe":
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case m.Method == "subscriptions/listen":
			say("%s", listens.begin(&m))
		case m.Method == "notifications/cancelled":
			delete(listens, string(m.Params.RequestID))
		case m.Params.Name == "touch":
			for _, notice := range listens.notices(&m) {
				say("%s", notice)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
		case m.Method == "" && len(m.ID) > 0:
			if answered := waiting[string(m.ID)]; answered != nil {
				delete(waiting, string(m.ID))
				answered <- line
			}
		case m.Method != "tools/call":
			if len(m.ID) > 0 {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			}
		default:
			answered := make(chan string, 1)
			if m.Params.Name == "ask" && os.Getenv("GOSSIP_ERA") == "legacy" {
				waiting[`"q`+strings.Trim(string(m.ID), `"`)+`"`] = answered
			}
			if !m.call(say, line, answered) {
				os.Exit(3)
			}
		}
	}
	os.Exit(0)
}

type gossipMessage struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name      string
		Arguments struct{ Says string }
		State     string          `json:"requestState"`
		Answers   json.RawMessage `json:"inputResponses"`
		RequestID json.RawMessage `json:"requestId"`
		Notices   struct {
			URIs []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
}

// call answers a call; false if it crashes.
func (m *gossipMessage) call(say func(string, ...any), line string, answered chan string) bool {
	says := m.Params.Arguments.Says
	result := func(text string) {
		quoted, _ := json.Marshal(text)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%s}]}}`, m.ID, quoted)
	}
	switch m.Params.Name {
	case "print":
		fmt.Fprintln(os.Stderr, line)
		fmt.Fprintln(os.Stderr, "token "+os.Getenv("GOSSIP_TOKEN"))
		result("printed")
	case "fail":
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"cannot %s","data":{"of":"%s"}}}`, m.ID, says, says)
	case "log":
		say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"%s"}}`, says)
		result("logged")
	case "progress":
		if len(m.Params.Meta.Token) > 0 {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"%s"}}`, m.Params.Meta.Token, says)
		}
		result("done " + says)
	case "ask":
		question := gossipQuestion(says)
		switch {
		case os.Getenv("GOSSIP_ERA") == "legacy":
			say(`{"jsonrpc":"2.0","id":"q%s",%s}`, strings.Trim(string(m.ID), `"`), question)
			go func() { result("answered " + <-answered) }() // the process ends it
		case m.Params.State == "":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"r1-1":{%s}},"requestState":"state-%s"}}`, m.ID, question, says)
		default:
			result("answered " + string(m.Params.Answers) + m.Params.State)
		}
	case "crash":
		fmt.Fprintln(os.Stderr, line)
		return false
	default:
		result(line)
	}
	return true
}

func gossipQuestion(says string) string {
	return fmt.Sprintf(`"method":"elicitation/create","params":{"mode":"form","message":"%s?","requestedSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, says)
}

// marker is a text that names its caller; the number makes each unique.
var marker = regexp.MustCompile(`mark-(alice|bob|carol)-[0-9]+`)

// gossiper is a caller that puts its markers wherever a client can, and keeps all that it receives.
type gossiper struct {
	name    string
	r       *rig
	path    string
	session string // of its legacy client
	listens bool   // it has a listen of its modern client
	rnd     *rand.Rand
	n       int
	keyed   bool // it has used the key of idempotency

	mu       sync.Mutex
	received []string
	event    string // the last id of an event of its session
	streams  sync.WaitGroup
	stop     context.CancelFunc // of the streams
	until    context.Context
}

func (g *gossiper) mark() string { g.n++; return fmt.Sprintf("mark-%s-%d", g.name, g.n) }

// send makes a request and keeps the answer. Errors of the client itself are those of a cut connection.
func (g *gossiper) send(verb, path, body string, headers ...string) string {
	ctx, cancel := context.WithTimeout(g.r.t.Context(), testkit.Patient)
	defer cancel()
	res, err := g.r.do(ctx, verb, path, body, headers...)
	if err != nil {
		g.r.t.Errorf("%s: %s %s: %v", g.name, verb, path, err)
		return ""
	}
	text := fmt.Sprint(res.status, res.header, res.body)
	g.mu.Lock()
	g.received = append(g.received, text)
	g.mu.Unlock()
	return text
}

// modern calls a tool as a modern client; extra are further params.
func (g *gossiper) modern(tool, extra string) string {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"says":%q}%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/logLevel":"debug","progressToken":%q}}}`, g.mark(), tool, g.fixed(tool), extra, g.mark())
	return g.send("POST", g.path+"/mcp", body, append(modernHeaders("tools/call", tool), "X-Request-Id", g.mark(), "Baggage", "who="+g.mark())...)
}

// fixed returns the argument of a call, which its retry repeats.
func (g *gossiper) fixed(tool string) string {
	if tool == "ask" || tool == "touch" {
		return "mark-" + g.name + "-0"
	}
	return g.mark()
}

// legacy calls a tool in the caller's own session.
func (g *gossiper) legacy(tool string) string {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"says":%q},"_meta":{"progressToken":%q}}}`, g.mark(), tool, g.fixed(tool), g.mark())
	return g.send("POST", g.path+"/mcp", body, append(legacyHeaders(g.session), "X-Request-Id", g.mark())...)
}

// act does one thing at random. others are the callers whose state it tries to use.
func (g *gossiper) act(others []*gossiper, states *sync.Map, kind string) {
	tools := []string{"echo", "print", "fail", "progress", "log"}
	tool := tools[g.rnd.IntN(len(tools))]
	other := others[g.rnd.IntN(len(others))]
	switch g.rnd.IntN(12) {
	case 0, 1:
		g.modern(tool, "")
	case 2:
		if g.session != "" {
			g.legacy(tool)
		}
	case 3: // a key of idempotency that all use, for a call that is the same for all
		text := g.send("POST", g.path+"/mcp", modernCall("7", "echo", ""), append(modernHeaders("tools/call", "echo"), "Idempotency-Key", "same", "X-Request-Id", g.mark())...)
		if replayed := strings.Contains(text, "Idempotent-Replayed"); replayed != g.keyed {
			g.r.t.Errorf("%s: its answer (%v) under the key is repeated: %v", g.name, g.keyed, replayed)
		}
		g.keyed = true
	case 4:
		if got := g.modern("ask", ""); statePattern.MatchString(got) {
			states.Store(g.name, statePattern.FindStringSubmatch(got)[1])
		}
	case 5: // goes on with the state of another, or its own
		who := []string{g.name, other.name}[g.rnd.IntN(2)]
		if state, ok := states.Load(who); ok {
			// As the other would send it: the argument is the other's, too, so that only the caller differs.
			text := g.send("POST", g.path+"/mcp", strings.ReplaceAll(strings.ReplaceAll(asksCall("9", "ask", fmt.Sprintf(`,"inputResponses":{"r1-1":{"action":"accept","content":{"text":%q}}},"requestState":%q`, "mark-"+g.name+"-1", state)),
				`"arguments":{}`, fmt.Sprintf(`"arguments":{"says":"mark-%s-0"}`, who)), "\n", ""), modernHeaders("tools/call", "ask")...)
			if who == g.name && !strings.Contains(text, "answered") {
				states.Delete(who)
			}
		}
	case 6: // another's session: its running request ids, its streams
		if id := other.session; id != "" {
			g.send("POST", g.path+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":"again","method":"tools/call","params":{"name":"echo","arguments":{"says":"mark-%s-0"}}}`, other.name), legacyHeaders(id)...)
			g.send("DELETE", g.path+"/mcp", "", "Mcp-Session-Id", id)
			g.send("GET", g.path+"/mcp", "", "Mcp-Session-Id", id, "Accept", "text/event-stream", "Last-Event-ID", "1-1")
		}
	case 7:
		g.send("POST", g.path+"/call-tool", fmt.Sprintf(`{"tool":"print","arguments":{"says":%q}}`, g.mark()), "Content-Type", jsonType, "X-Request-Id", g.mark())
		g.send("GET", g.path+"/health", "")
	case 8:
		g.subscribe()
	case 9: // resumes its stream, or another's
		g.stream([]string{g.lastEvent(), other.lastEvent()}[g.rnd.IntN(2)])
	case 10:
		g.rest(tool)
	case 11:
		if !g.listens && kind != "anonymous" {
			g.listen()
		}
		g.modern("touch", "")
	}
}

// foreign returns what the caller has received of others.
func (g *gossiper) foreign() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, text := range g.received {
		for _, found := range marker.FindAllString(text, -1) {
			if !strings.HasPrefix(found, "mark-"+g.name+"-") {
				all = append(all, found+" in "+text)
			}
		}
		if strings.Contains(text, "gossip-token") {
			all = append(all, "the token in "+text)
		}
	}
	return all
}

// gossipServers are the servers that repeat what calls say: children of this binary, and servers over HTTP.
var gossipServers = map[string]func(t *testing.T) (toml string){
	"legacy child": func(t *testing.T) string { return gossipChild(t, "legacy") },
	"modern child": func(t *testing.T) string { return gossipChild(t, "modern") },
	"legacy":       func(t *testing.T) string { return gossipUpstream(t, "legacy") },
	"modern":       func(t *testing.T) string { return gossipUpstream(t, "modern") },
	"sse":          func(t *testing.T) string { return gossipUpstream(t, "sse") },
}

func gossipChild(t *testing.T, era string) string {
	t.Helper()
	return fmt.Sprintf("[upstreams.default]\ncommand = [%q]\nstderr_to_clients = true\nstop_grace = \"300ms\"\ncrash_limit = 1000\nISOLATION\n", testkit.Executable(t)) +
		fmt.Sprintf("[upstreams.default.env]\n%s = \"gossip\"\nGOSSIP_ERA = %q\nGOSSIP_TOKEN = \"gossip-token\"\n", testkit.AsDragoman, era)
}

// No byte of one caller's data reaches another through what Dragoman adds to a server: errors, remembered and cached answers, sealed state,
// records, sessions, streams, notices, listens, notifications, stderr; whatever the isolation, the transport and the endpoint, and however
// callers are told apart. A server that many share may itself tell one what another said, which these servers do not: they speak of a call
// in that call only, on stderr, or to those that have subscribed to what it touches. Anonymous clients are one caller but for their
// sessions, and are tried with these only.
func TestCallersAreApart(t *testing.T) {
	const seed = 22
	for server, start := range gossipServers {
		for _, isolation := range []string{"session", "principal", "pool(2)", "shared"} {
			for _, kind := range []string{"anonymous", "keys", "tokens", "headers", "headers of one key"} {
				t.Run(server+", "+isolation+", "+kind, func(t *testing.T) {
					t.Parallel()
					toml := strings.Replace(start(t), "ISOLATION", fmt.Sprintf("isolation = %q\nseal_state = true", isolation), 1)
					all := gossipers(t, toml, kind, rand.New(rand.NewPCG(seed, uint64(len(server)*1000+len(isolation)*100+len(kind)))))
					var group sync.WaitGroup
					var states sync.Map
					for i, g := range all {
						others := append(append([]*gossiper{}, all[:i]...), all[i+1:]...)
						group.Go(func() {
							g.stream("")
							for range 10 {
								if kind == "anonymous" {
									g.actInSession(others)
									continue
								}
								g.act(others, &states, kind)
							}
						})
					}
					group.Wait()
					gossipEnds(all, kind, server != "modern child" || isolation != "pool(2)")
					for _, g := range all {
						g.send("GET", g.path+"/health", "")
						g.stop()
						g.streams.Wait()
						for _, found := range g.foreign() {
							t.Errorf("%s received %s", g.name, found)
						}
						if len(g.received) < 5 {
							t.Errorf("%s has received %d answers", g.name, len(g.received))
						}
					}
				})
			}
		}
	}
}

// actInSession does one thing at random of those that anonymous clients have for themselves.
func (g *gossiper) actInSession(others []*gossiper) {
	switch n := g.rnd.IntN(7); n {
	case 4:
		g.subscribe()
	case 5:
		g.stream(others[g.rnd.IntN(len(others))].lastEvent())
	case 6:
		g.stream(g.lastEvent())
	default:
		g.legacy([]string{"echo", "print", "fail", "progress"}[n])
	}
}

// gossipEnds has each caller hear of what it has subscribed to, and say something on stderr before the last one crashes the process. A
// modern process of several gets no calls while it has a listen and the others have none, so that nothing is heard there.
func gossipEnds(all []*gossiper, kind string, heard bool) {
	for range 2 {
		for _, g := range all {
			g.subscribe()
			if heard {
				g.hears()
			}
			g.legacy("print")
			if kind != "anonymous" {
				g.modern("print", "")
			}
		}
	}
	last := all[len(all)-1]
	if kind != "anonymous" {
		last.modern("crash", "")
		last.send("POST", last.path+"/call-tool", fmt.Sprintf(`{"tool":"crash","arguments":{"says":%q}}`, last.mark()), "Content-Type", jsonType)
	}
	last.legacy("crash")
}

// gossipers returns three callers of one proxy that are told apart in one way, each with a legacy session.
func gossipers(t *testing.T, toml, kind string, rnd *rand.Rand) (all []*gossiper) {
	t.Helper()
	names := []string{"alice", "bob", "carol"}
	identities := map[string]func(r *rig) *rig{}
	path := ""
	switch kind {
	case "keys":
		more, keys := keysToml(names...)
		toml = "[security]\napi_keys_enabled = true\n" + more + toml
		for _, name := range names {
			identities[name] = func(r *rig) *rig { return r.as(keys[name]) }
		}
	case "tokens":
		i := newIssuer(t, "ec")
		toml = i.toml("") + toml
		for _, name := range names {
			token := i.token("ec", jose.ES256, map[string]any{"sub": name})
			identities[name] = func(r *rig) *rig { return r.as(token) }
		}
	case "headers", "headers of one key":
		path = "/servers/default"
		toml += "[upstreams.web]\nurl = \"http://127.0.0.1:1/mcp\"\nforward_headers = { X-Tenant = \"X-Tenant\" }\n"
		more, keys := keysToml("all")
		if kind != "headers" {
			toml = "[security]\napi_keys_enabled = true\n" + more + toml
		}
		for _, name := range names {
			identities[name] = func(r *rig) *rig {
				if kind != "headers" {
					r = r.as(keys["all"])
				}
				return r.sending("X-Tenant", name)
			}
		}
	}
	r := startRig(t, toml, false)
	for _, name := range names {
		own := r
		if identities[name] != nil {
			own = identities[name](r)
		}
		g := &gossiper{name: name, r: own, path: path, rnd: rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))}
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
		res, err := own.do(ctx, "POST", path+"/mcp", `{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
		cancel()
		if err != nil || res.status != 200 {
			t.Fatalf("%v %+v", err, res)
		}
		g.session = res.header.Get("Mcp-Session-Id")
		g.send("POST", path+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacyHeaders(g.session)...)
		g.until, g.stop = context.WithCancel(t.Context())
		t.Cleanup(func() { g.stop(); g.streams.Wait() })
		all = append(all, g)
	}
	return all
}
