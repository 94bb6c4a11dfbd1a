package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// Guessed, foreign and ended session ids: a session can be used only by the caller that opened it, on its transport and path; and no answer
// says why not.
func TestGuessedSessions(t *testing.T) {
	a, b := newUpstream(t, "legacy"), newUpstream(t, "legacy")
	toml := strings.Replace(a.toml(""), "upstreams.default", "upstreams.a", 1) + strings.Replace(b.toml(""), "upstreams.default", "upstreams.b", 1)
	r := startRig(t, toml, true)
	open := func(path string) string {
		res := r.must("POST", path, stdioInit, legacyHeaders("")...)
		return res.header.Get("Mcp-Session-Id")
	}
	mine, ended := open("/servers/a/mcp"), open("/servers/a/mcp")
	stream := r.sse("/servers/a/sse")
	if res := r.must("DELETE", "/servers/a/mcp", "", "Mcp-Session-Id", ended); res.status != 204 {
		t.Fatal(res.status)
	}
	_, streamID, _ := strings.Cut(stream.post, "=")
	type guess struct{ what, path, id string }
	guesses := []guess{{"of an ended session", "/servers/a/mcp", ended}, {"of another server", "/servers/b/mcp", mine}, {"of another transport", "/servers/a/mcp", streamID},
		{"another's case", "/servers/a/mcp", swapCase(mine)}, {"cut", "/servers/a/mcp", mine[:len(mine)-1]}, {"longer", "/servers/a/mcp", mine + "A"}, {"a path", "/servers/a/mcp", "../" + mine},
		{"the server's own", "/servers/a/mcp", "up-1"}, {"a pattern", "/servers/a/mcp", "*"}, {"long", "/servers/a/mcp", strings.Repeat("A", 30000)}, {"two in one", "/servers/a/mcp", mine + ", " + mine}}
	for i := range len(mine) {
		flipped := []byte(mine)
		if flipped[i]++; flipped[i] > '~' {
			flipped[i] = '!'
		}
		guesses = append(guesses, guess{fmt.Sprintf("byte %d", i), "/servers/a/mcp", string(flipped)})
	}
	want := r.must("POST", "/servers/a/mcp", pingBody, legacyHeaders("no-such-session")...).body
	for _, g := range guesses {
		for verb, body := range map[string]string{"POST": pingBody, "GET": "", "DELETE": ""} {
			res := r.must(verb, g.path, body, legacyHeaders(g.id)...)
			if res.status != 404 || verb == "POST" && res.body != want {
				t.Errorf("%s, %s: %d %s", g.what, verb, res.status, res.body)
			}
		}
	}
	for _, post := range []string{strings.Replace(stream.post, streamID, mine, 1), strings.Replace(stream.post, "/servers/a/", "/servers/b/", 1), stream.post + "A", strings.Replace(stream.post, streamID, ended, 1),
		strings.Replace(stream.post, streamID, swapCase(streamID), 1)} {
		if res := r.must("POST", post, pingBody, "Content-Type", jsonType); res.status != 404 {
			t.Errorf("%s: %d %s", post, res.status, res.body)
		}
	}
	if res := r.must("POST", "/servers/a/mcp", pingBody, append(legacyHeaders(mine), "Mcp-Session-Id", ended)...); res.status != 400 || !strings.Contains(res.body, "more than once") {
		t.Errorf("two ids: %d %s", res.status, res.body)
	}
	if res := r.must("POST", "/servers/a/mcp", pingBody, legacyHeaders(mine)...); res.status != 200 {
		t.Errorf("the session itself: %d %s", res.status, res.body)
	}
	stream.send(stdioInit)
	stream.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 32
		case 'A' <= r && r <= 'Z':
			return r + 32
		}
		return r
	}, s)
}

// A state or cursor with one changed byte is refused like an unknown one without reaching the server; the unchanged one is still valid.
func TestTamperedSeals(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.getOpen = true
	r := startRig(t, u.toml(""), true)
	echoing(u)
	u.on("tools/list", func(c *call) {
		switch {
		case strings.Contains(c.body, `"cursor":"page2"`):
			c.result(`{"tools":[]}`)
		case strings.Contains(c.body, `"cursor"`):
			c.error(200, `{"code":-32602,"message":"no such cursor"}`)
		default:
			c.result(`{"tools":[],"nextCursor":"page2"}`)
		}
	})
	asked := r.must("POST", "/mcp", asksCall("1", "a", ""), modernHeaders("tools/call", "a")...)
	retry := answerTo(t, "2", "a", asked, "mine")
	state := statePattern.FindStringSubmatch(asked.body)[1]
	list := func(cursor string) *response {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+modernMeta+`}}`, modernHeaders("tools/list", "")...)
	}
	cursor := textAfter(list("").body, `"nextCursor":"`)
	u.forget()
	for i := range len(state) {
		body := strings.Replace(retry, state, flip(state, i), 1)
		if res := r.must("POST", "/mcp", body, modernHeaders("tools/call", "a")...); !strings.Contains(res.body, `"error":{"code":-32602`) {
			t.Errorf("state, byte %d: %d %s", i, res.status, res.body)
		}
	}
	for _, bad := range []string{"", "x", state[:len(state)/2], state + state, cursor, strings.Repeat("A", 100000)} {
		body := strings.Replace(retry, `"requestState":"`+state, `"requestState":"`+bad, 1)
		if res := r.must("POST", "/mcp", body, modernHeaders("tools/call", "a")...); !strings.Contains(res.body, `"error":{"code":-32602`) {
			t.Errorf("state %.20q: %d %s", bad, res.status, res.body)
		}
	}
	if n := len(u.all("tools/call")) + len(u.all("response")); n != 0 {
		t.Errorf("%d of these reached the server", n)
	}
	for i := range len(cursor) {
		if res := list(fmt.Sprintf(`"cursor":%q,`, flip(cursor, i))); !strings.Contains(res.body, `"error":{"code":-32602`) {
			t.Errorf("cursor, byte %d: %d %s", i, res.status, res.body)
		}
	}
	for _, s := range u.all("tools/list") {
		if strings.Contains(s.body, "page2") {
			t.Errorf("the server was asked for %s", s.body)
		}
	}
	if res := list(fmt.Sprintf(`"cursor":%q,`, cursor)); !strings.Contains(res.body, `"tools":[]`) {
		t.Errorf("the cursor itself: %s", res.body)
	}
	if res := r.must("POST", "/mcp", retry, modernHeaders("tools/call", "a")...); !strings.Contains(res.body, "a mine") {
		t.Errorf("the state itself: %s", res.body)
	}
}

// flip returns s with another base64 character at i.
func flip(s string, i int) string {
	c := byte('A')
	if s[i] == c {
		c = 'Q'
	}
	return s[:i] + string(c) + s[i+1:]
}

// Unknown event ids and those of other sessions reveal nothing of another session.
func TestGuessedEvents(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("tools/call", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"secret"}}`)
		c.result(`{"content":[]}`)
	})
	r := startRig(t, u.toml(""), true)
	theirs, mine := r.open("2025-11-25", "{}"), r.open("2025-11-25", "{}")
	res := r.must("POST", "/mcp", legacyCall("1", "a"), legacyHeaders(theirs)...)
	id := textUpTo(res.body, "id: ", "\n")
	if id == "" || !strings.Contains(res.body, "secret") {
		t.Fatalf("no event id in %s", res.body)
	}
	guesses := []string{id, "s1-0", "s1-1", "s0-0", "1-1", "s-1", "s1--1", "s99999999999999999999-0", "s1-99999999999999999999", "x", " ", "../" + id, strings.Repeat("9", 10000)}
	for i := range 10 {
		guesses = append(guesses, fmt.Sprintf("s%d-0", i))
	}
	for _, g := range guesses {
		c := r.wire()
		c.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + mine + "\r\nLast-Event-ID: " + g + "\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // a stream that is open stays silent
		var text strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if got := text.String(); strings.Contains(got, "secret") || !strings.HasPrefix(got, "HTTP/1.1 200") && !strings.HasPrefix(got, "HTTP/1.1 4") {
			t.Errorf("%q: %s", g, got)
		}
		_ = c.Close()
	}
	r.good("all that")
}

func textUpTo(s, after, end string) string {
	_, s, _ = strings.Cut(s, after)
	s, _, _ = strings.Cut(s, end)
	return s
}

// Arrays, of 2025-03-26 only: too many messages, nested, empty, with forbidden messages.
func TestHostileArrays(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, u.toml(""), true)
	old, current := r.open("2025-03-26", "{}"), r.open("2025-11-25", "{}")
	u.forget()
	ping := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }
	many := make([]string, 40000)
	for i := range many {
		many[i] = ping(i)
	}
	f := func(name, session, body string, want string) {
		t.Helper()
		began := time.Now()
		res := r.must("POST", "/mcp", body, legacyHeaders(session)...)
		if res.status != 400 || !strings.Contains(res.body, `"error":{"code":-32`) || !strings.Contains(res.body, want) || time.Since(began) > soonEnough {
			t.Errorf("%s: %d %.300s after %v", name, res.status, res.body, time.Since(began))
		}
	}
	f("too many", old, "["+strings.Join(many, ",")+"]", "more than 100")
	f("one too many", old, "["+strings.Join(many[:101], ",")+"]", "more than 100")
	f("many that are nothing", old, "["+strings.Repeat("0,", 1<<20)+"0]", "")
	f("empty", old, "[]", "")
	f("nested", old, "[["+ping(1)+"]]", "element 0")
	f("a call, nested", old, "["+ping(1)+",["+legacyCall("2", "denied")+"]]", "element 1")
	f("nested for long", old, "["+ping(1)+","+strings.Repeat("[", 50)+legacyCall("2", "denied")+strings.Repeat("]", 50)+"]", "element 1")
	f("deep", old, strings.Repeat("[", 100000)+strings.Repeat("]", 100000), "")
	f("no message in it", old, "["+ping(1)+",7]", "")
	f("initialize", old, "["+stdioInit+"]", "initialize")
	f("the same id twice", old, "["+ping(1)+","+ping(1)+"]", "id 1")
	f("another revision", current, "["+ping(1)+"]", "2025-03-26 only")
	f("no session", "", "["+ping(1)+"]", "")
	if n := u.posts(); n != 0 {
		t.Errorf("%d of these reached the server", n)
	}
	if res := r.must("POST", "/mcp", "["+strings.Join(many[:100], ",")+"]", legacyHeaders(old)...); res.status != 200 || strings.Count(res.body, `"result":{}`) != 100 {
		t.Errorf("as many as may be: %d %.300s", res.status, res.body)
	}
	res := r.must("POST", "/mcp", `[`+ping(1)+`]`, append(modernHeaders("ping", ""), "MCP-Protocol-Version", "2026-07-28")...)
	if res.status != 400 {
		t.Errorf("a modern array: %d %s", res.status, res.body)
	}
	r.good("all that")
}
