package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// unidentified is a caller without an identity.
var unidentified = proxy.Caller{}

// script is what a server does in an interactive scene, step by step: its calls are held until the test says what comes next.
type script struct {
	t *testing.T
	u *upstream

	mu   sync.Mutex
	came map[string]chan *heldCall
	now  map[string]*heldCall
}

// heldCall is a call at the server that lasts until the script has answered it.
type heldCall struct {
	*call
	do chan func() (over bool)
}

func newScript(u *upstream) *script {
	return &script{t: u.t, u: u, came: map[string]chan *heldCall{}, now: map[string]*heldCall{}}
}

// hold keeps the calls of a method waiting.
func (s *script) hold(method string) {
	came := make(chan *heldCall, 64)
	s.mu.Lock()
	s.came[method] = came
	s.mu.Unlock()
	s.u.on(method, func(c *call) {
		h := &heldCall{c, make(chan func() bool)}
		came <- h
		for {
			select {
			case f := <-h.do:
				if f() {
					return
				}
			case <-c.cancelled:
				return
			}
		}
	})
}

// call is the call of a method that the script is at: the oldest that has not been answered.
func (s *script) call(method string) *heldCall {
	s.t.Helper()
	s.mu.Lock()
	h, came := s.now[method], s.came[method]
	s.mu.Unlock()
	if h == nil {
		if came == nil {
			s.t.Fatalf("%s is not held", method)
		}
		h = testkit.Receive(s.t, "a call of "+method, came)
		s.mu.Lock()
		s.now[method] = h
		s.mu.Unlock()
	}
	return h
}

// says sends lines on a call's own stream, at one go. One with the call's id ends it, and comes last.
func (s *script) says(method, text string) {
	s.t.Helper()
	h := s.call(method)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	final := strings.Contains(lines[len(lines)-1], `"id":$ID`)
	if final {
		s.forget(method)
	}
	said := make(chan struct{})
	f := func() bool {
		defer close(said)
		for i, line := range lines {
			if final && i == len(lines)-1 {
				h.message(200, line)
			} else {
				h.event(line)
			}
		}
		return final
	}
	select {
	case h.do <- f:
		testkit.Receive(s.t, "the end of writing", said)
	case <-h.cancelled:
		s.t.Errorf("the call was cancelled before %s", text)
	}
}

// forget goes on to the next call of a method although this one has no answer.
func (s *script) forget(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, method)
}

// away sends lines where they belong to no call: the newest session's own stream, or the only one there is.
func (s *script) away(text string) {
	s.t.Helper()
	var out *stream
	testkit.Eventually(s.t, "a stream to the proxy", func() bool {
		s.u.mu.Lock()
		defer s.u.mu.Unlock()
		switch s.u.kind {
		case "legacy":
			out = s.u.streams["get-up-"+strconv.Itoa(s.u.sessions)]
		case "sse":
			out = s.u.streams[strconv.Itoa(s.u.sessions)]
		default:
			out = s.u.procs[len(s.u.procs)-1]
		}
		return out != nil
	})
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		out.send(line)
	}
}

// die breaks whatever connects the server to the proxy.
func (s *script) die(method string) {
	s.t.Helper()
	h := s.call(method)
	s.forget(method)
	if h.out != nil && h.out.conn == nil { // HTTP+SSE: the stream ends
		close(h.out.done)
		return
	}
	if h.out != nil {
		h.drop()
		return
	}
	dropped := make(chan struct{})
	h.do <- func() bool { h.drop(); close(dropped); return true }
	testkit.Receive(s.t, "the end of the connection", dropped)
}

// interactiveScene is a scene in which client and server speak in turn.
type interactiveScene struct {
	*transcript
	face   testClient
	script *script
	states []string
	merged *mergedClient // nil: the server stands alone
}

// The envelopes of modern clients that may be asked something.
const (
	metaHead  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":`
	asksMeta  = metaHead + `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}}`
	formMeta  = metaHead + `{"elicitation":{}}}`
	rootsMeta = metaHead + `{"roots":{}}}`
)

var statePattern = regexp.MustCompile(`"requestState":"(v1\.[^"]*)"`)

// fill puts in what is known of the scene: $ASKS, $FORM, $ROOTS envelopes; $STATE the last requestState, $STATE1 the
// first; $ID the id under which the server has the call it was scripted to hold last.
func (d *interactiveScene) fill(text string) string {
	pairs := []string{"$ASKS", asksMeta, "$FORM", formMeta, "$ROOTS", rootsMeta}
	for i := len(d.states); i > 0; i-- {
		pairs = append(pairs, "$STATE"+strconv.Itoa(i), d.states[i-1])
	}
	if n := len(d.states); n > 0 {
		pairs = append(pairs, "$STATE", d.states[n-1])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// start makes the client, whose transport is named by the scene.
func (d *interactiveScene) start(name string) {
	config := d.config
	if !strings.Contains(config, "[questions]") {
		config += "\n[questions]\n"
	}
	// what a server asks at once must come at once on a busy machine too
	toml := strings.Replace(config, "[questions]", "[questions]\nsettle = \"50ms\"", 1) + "\n" + d.u.toml(d.upConfig)
	if d.merged != nil {
		toml = d.merged.configure(d.t, d.u, toml)
	}
	switch name {
	case "stdio":
		p := startStdio(d.t, toml)
		p.send(modernDiscover) // so that the upstream is known
		p.receives(`{"jsonrpc":"2.0","id":"d","result":{…`)
		d.face = newPipeClient(d.t, p)
	case "sse":
		d.r = startRig(d.t, toml, true)
		d.face = newSSEChannelClient(d.r)
	default:
		d.r = startRig(d.t, toml, true)
		d.face = newHTTPTestClient(d.r)
	}
	if d.merged != nil {
		d.merged.testClient, d.face = d.face, d.merged
	}
	d.u.forget()
}

// step plays a section of an interactive scene; ok is false if it failed.
//
//	-- hold METHOD --          the server keeps such calls until it is told what to say
//	-- client LABEL --         the client sends a message; LABEL names a request
//	-- hears LABEL --          the next message that the client gets, on that request's answer where it has one of its own
//	-- over LABEL [STATUS] --  nothing more comes of it
//	-- leave LABEL --          the client gives a request up, as its transport does
//	-- listen --               the client opens its GET stream
//	-- server METHOD --        the server says lines in the call it holds; $ID is the call's, a line with it ends the call
//	-- away --                 the server says lines outside any call
//	-- next METHOD --          the next call of that method is the one it speaks in from now on
//	-- sees METHOD --          of the messages of that method which the server sees from now on, one is this
//	-- settled --              the proxy has no call at the server any more that may ask something (HTTP clients only)
//	-- die METHOD --           the server's connection breaks, or its process ends
func (d *interactiveScene) step(words []string, text string) bool {
	text = d.fill(strings.TrimSpace(text))
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "open":
		d.face.open(words[1], arg(2))
	case "client":
		d.face.send(arg(1), d.expand(text))
	case "hears":
		got := strings.TrimSpace(d.face.receives(arg(1)))
		if m := statePattern.FindStringSubmatch(got); m != nil {
			d.states = append(d.states, m[1])
		}
		if !matches(text, got) {
			d.t.Errorf("the client heard\n  %s\nwant\n  %s", got, text)
			return false
		}
	case "over":
		d.face.over(arg(1), arg(2))
	case "leave":
		d.face.leave(arg(1))
	case "listen":
		d.face.listen()
	case "server":
		d.asked(text)
		d.script.says(arg(1), text)
	case "away":
		d.asked(text)
		d.script.away(text)
	case "next":
		d.script.forget(arg(1))
		d.script.call(arg(1))
	case "settled":
		testkit.Eventually(d.t, "the end of all leases", func() bool { _, leased := d.r.h.Targets.All[0].Sessions(); return leased == 0 })
	case "die":
		d.script.die(arg(1))
	case "sees":
		return d.sees(words[1], d.expand(text))
	case "seen", "unseen", "nothing":
		if strings.Contains(text, "$ID") {
			text = strings.ReplaceAll(text, "$ID", d.script.call("tools/call").id)
		}
		if words[0] == "seen" {
			return d.saw(words[1], d.expand(text))
		}
		return d.sawNot(arg(1))
	default:
		d.t.Errorf("unknown section %q of an interactive scene", words)
		return false
	}
	return true
}

// asked notes what the server asks, so that the client's own ids are known.
func (d *interactiveScene) asked(text string) {
	if d.merged != nil {
		d.merged.asked(text)
	}
}

// sees passes over what the server has seen of a method until one message is the wanted one.
func (d *interactiveScene) sees(method, body string) bool {
	d.t.Helper()
	testkit.Eventually(d.t, "the server seeing "+body, func() bool {
		d.u.mu.Lock()
		defer d.u.mu.Unlock()
		for i, s := range d.u.seen {
			if i >= d.u.next && s.method == method && matches(body, s.body) {
				d.u.next = i + 1
				return true
			}
		}
		return false
	})
	return true
}

// section is a piece of a transcript.
type section struct {
	line  int
	words []string
	text  string
}

// prologue are the sections before anything happens.
func (s *section) prologue() bool {
	switch s.words[0] {
	case "config", "upstream", "faces", "answer", "hold":
		return true
	}
	return false
}

// playScene plays one scene with one kind of server, and, if it is interactive, one kind of client; merged is that of a server that is one
// of several.
func playScene(t *testing.T, file string, scene []section, kind, client string, merged *mergedClient) {
	d := &interactiveScene{transcript: &transcript{t: t}, merged: merged}
	for _, s := range scene {
		switch {
		case s.words[0] == "upstream":
			d.play([]string{"upstream", kind}, s.text)
			d.script = newScript(d.u)
			d.u.getOpen = client != ""
		case s.words[0] == "faces":
		case s.words[0] == "hold":
			d.script.hold(s.words[1])
		case client == "" || s.prologue():
			if !d.play(s.words, s.text) {
				t.Errorf("%s:%d: section %q failed", file, s.line, s.words)
			}
		default:
			if d.face == nil {
				d.start(client)
			}
			if !d.step(s.words, s.text) {
				t.Fatalf("%s:%d: section %q failed", file, s.line, s.words)
			}
			if t.Failed() {
				t.Fatalf("%s:%d: section %q failed", file, s.line, s.words)
			}
		}
	}
}
