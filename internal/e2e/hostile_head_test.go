package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

const accessDenies = "[upstreams.default.access.\"*\"]\ndeny_tools = [\"denied\"]\n"

// A denied tool cannot be called by a notification, an array, a strange spelling, or another endpoint.
func TestNoWayAroundWhatIsDenied(t *testing.T) {
	hook := newDecider(t, func(in hookInput) string {
		if in.Tool == "denied" {
			return denyAnswer
		}
		return permitAnswer
	})
	for _, by := range [][2]string{{"modern", accessDenies}, {"legacy", accessDenies}, {"modern", hook.toml("")}, {"legacy", hook.toml("")}} {
		kind := by[0]
		u := newUpstream(t, kind)
		u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
		r := startRig(t, u.toml("")+by[1], true)
		session, old := r.open("2025-11-25", "{}"), r.open("2025-03-26", "{}")
		u.forget()
		notice := `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"denied","arguments":{}}}`
		modernNotice := `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"denied","arguments":{},` + modernMeta + `}}`
		escaped := `{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"\u0064enied","arguments":{}}}`
		for _, try := range []struct{ session, body string }{
			{session, legacyCall("1", "denied")}, {session, notice}, {session, escaped}, {session, strings.Replace(notice, "tools/call", "tools\\/call", 1)},
			{old, "[" + notice + "]"}, {old, "[" + legacyCall("1", "denied") + "]"}, {old, "[[" + legacyCall("1", "denied") + "]]"}, {old, "[" + notice + ",[" + notice + "]]"},
		} {
			if res := r.must("POST", "/mcp", try.body, legacyHeaders(try.session)...); strings.Contains(res.body, `"result"`) {
				t.Errorf("%s: %s gets %d %s", kind, try.body, res.status, res.body)
			}
		}
		r.must("POST", "/mcp", modernNotice, modernHeaders("tools/call", "denied")...)
		r.must("POST", "/mcp", modernCall("1", "denied", ""), modernHeaders("tools/call", "denied")...)
		for path, body := range map[string]string{"/call-tool": `{"tool":"denied","arguments":{}}`, "/tools/denied": `{}`, "/tools/%64enied": `{}`, "/mcp/tools/call": `{"name":"denied","arguments":{}}`} {
			if res := r.must("POST", path, body, "Content-Type", jsonType); res.status < 400 {
				t.Errorf("%s: %s gets %d %s", kind, path, res.status, res.body)
			}
		}
		r.good("all that") // notifications are sent in order with what follows
		for _, s := range u.all("tools/call") {
			t.Errorf("%s: the server has got %s", kind, s.body)
		}
		for _, s := range u.everything() {
			if strings.Contains(s.body, "denied") {
				t.Errorf("%s: the server has got %s", kind, s.body)
			}
		}
	}
}

// Heads up to the limit, with one large field or thousands of tiny ones, are answered in time; larger ones with 431.
func TestGiantHeads(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[limits]\nheader = \"64KiB\"\n"+u.toml(""), true)
	for name, c := range map[string]struct {
		fields string
		want   int
	}{
		"one large":       {"X-Large: " + strings.Repeat("x", 60<<10) + "\r\n", 200},
		"many":            {strings.Repeat("A:\r\n", 15000), 200},
		"many parameters": {many("Mcp-Param-P%d: x\r\n", 2500), 200},
		"many of a name":  {strings.Repeat("X-Forwarded-For: 1.1.1.1\r\n", 2400), 200},
		"a long list":     {"Accept: " + strings.Repeat("a/b,", 10000) + "*/*\r\n", 200},
		"many cookies":    {"Cookie: " + strings.Repeat("a=b; ", 12000) + "\r\n", 200},
		"too large":       {"X-Large: " + strings.Repeat("x", 70<<10) + "\r\n", 431},
		"too many":        {strings.Repeat("A:\r\n", 20000), 431},
		"a name too long": {strings.Repeat("X", 70<<10) + ": x\r\n", 431},
		"endless":         {strings.Repeat("x", 1<<20), 431},
	} {
		conn := r.wire()
		began := time.Now()
		head := wireHead
		if strings.HasPrefix(c.fields, "Accept") {
			head = strings.Replace(wireHead, "Accept: application/json, text/event-stream\r\n", "", 1)
		}
		go conn.send(head + c.fields + sized + "\r\n" + discoverBody)
		res, err := conn.receive()
		if err != nil || res.status != c.want || c.want == 431 && !strings.Contains(res.body, "limits.header") {
			t.Errorf("%s: %v %v, want %d", name, res, err, c.want)
		}
		if took := time.Since(began); took > soonEnough {
			t.Errorf("%s takes %v", name, took)
		}
		r.good(name)
	}
	target := r.wire()
	go target.send("POST /" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if res, err := target.receive(); err != nil || res.status != 431 {
		t.Errorf("a long target: %v %v", res, err)
	}
}

func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

var dragomanOnly = regexp.MustCompile(`^1\.1 dragoman-[0-9a-f]{16}$`)

// Nothing that a client sends becomes a separate field towards the server, and fields with a meaning between Dragoman and the server, or
// for a proxy there, are not accepted from clients.
func TestNothingIsInjectedUpstream(t *testing.T) {
	u := newUpstream(t, "modern")
	ok := func(c *call) { c.result(`{"resultType":"complete","content":[]}`) }
	u.on("tools/call", ok)
	u.fallback = ok
	r := startRig(t, u.toml(""), true)
	u.forget()
	callHead := strings.Replace(wireHead, "Mcp-Method: server/discover", "Mcp-Method: tools/call", 1)
	body := modernCall("1", "t", "")
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for name, fields := range map[string]string{
		"a control in a parameter": "Mcp-Name: t\r\nMcp-Param-A: x\x01y\r\n", "DEL in a parameter": "Mcp-Name: t\r\nMcp-Param-A: x\x7fy\r\n",
		"NUL in a parameter": "Mcp-Name: t\r\nMcp-Param-A: x\x00y\r\n", "CR in a parameter": "Mcp-Name: t\r\nMcp-Param-A: x\ry\r\n", "LF in a parameter": "Mcp-Name: t\r\nMcp-Param-A: x\nX-Evil: 1\r\n",
		"a folded parameter": "Mcp-Name: t\r\nMcp-Param-A: x\r\n X-Evil: 1\r\n", "a parameter's strange name": "Mcp-Name: t\r\nMcp-Param-A B: x\r\n", "CR in the name": "Mcp-Name: t\rX-Evil: 1\r\n",
		"a parameter twice": "Mcp-Name: t\r\nMcp-Param-A: x\r\nmcp-param-a: y\r\n", "another name": "Mcp-Name: u\r\n",
	} {
		c := r.wire()
		c.send(callHead + fields + length + "\r\n" + body)
		if res, err := c.receive(); err != nil || res.status != 400 {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	if n := len(u.all("tools/call")); n != 0 {
		t.Errorf("%d of these have reached the server", n)
	}
	evil := []string{"X-Evil", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-Ip", "Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Origin", "Referer", "Te", "Upgrade",
		"X-Http-Method-Override", "Idempotency-Key", "Mcp-Session-Id", "Last-Event-Id", "Expect"}
	head := callHead + "Mcp-Name: t\r\n"
	for _, name := range evil {
		value := "evil"
		if name == "Origin" {
			value = "http://localhost"
		}
		head += name + ": " + value + "\r\n"
	}
	c := r.wire()
	c.send(head + length + "\r\n" + body)
	if res, err := c.receive(); err != nil || res.status != 200 {
		t.Errorf("%v %v", res, err)
	}
	for path, body := range map[string]string{"/mcp/tools%0d%0aX-Evil:1": `{}`, "/tools/t%0d%0aX-Evil:%201": `{}`, "/call-tool": `{"tool":"t\r\nX-Evil: 1","arguments":{}}`} {
		if res := r.must("POST", path, body, "Content-Type", jsonType); res.status >= 500 {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
	for _, s := range u.everything() {
		for _, name := range evil {
			if name == "Via" && dragomanOnly.MatchString(s.header.Get(name)) { // Dragoman's own
				continue
			}
			if s.header.Get(name) != "" {
				t.Errorf("the server gets %s: %s with %s", name, s.header.Get(name), s.body)
			}
		}
	}
	r.good("all that")
}

// Host names that a page may use, and names that look like ours and are not.
func TestHostsAndOriginsOfPages(t *testing.T) {
	u := newUpstream(t, "modern")
	local := startRig(t, u.toml(""), true)
	named := startRig(t, "[security]\nallowed_hosts = [\"mcp.example\"]\nallowed_origins = [\"https://app.example\"]\n"+u.toml(""), true)
	f := func(r *rig, host, origin string, want int) {
		t.Helper()
		c := r.wire()
		if origin != "" {
			origin = "Origin: " + origin + "\r\n"
		}
		c.send(strings.Replace(wireHead, "Host: localhost", "Host: "+host, 1) + origin + sized + "\r\n" + discoverBody)
		res, err := c.receive()
		if err != nil || res.status != want {
			t.Errorf("Host %q %s: %v %v, want %d", host, origin, res, err, want)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST", "localhost:1", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3", "[::1]", "[::1]:8080"} {
		f(local, host, "", 200)
	}
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1.evil.example", "evil-localhost", "localhost.", "127.0.0.1.", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433",
		"0.0.0.0", "[::]", "[::ffff:10.0.0.1]", "169.254.169.254", "xn--lcalhost-54a", "l\xc3\xb6calhost", "localhost@evil.example", "evil.example#localhost", "localhost, evil.example", "[::1].evil.example", "mcp.example"} {
		c := local.wire()
		c.send(strings.Replace(wireHead, "Host: localhost", "Host: "+host, 1) + sized + "\r\n" + discoverBody)
		if res, err := c.receive(); err != nil || res.status != 403 && res.status != 400 {
			t.Errorf("Host %q: %v %v", host, res, err)
		}
	}
	for _, origin := range []string{"http://localhost", "HTTP://LOCALHOST", "http://localhost:80"} {
		f(local, "localhost", origin, 200)
	}
	f(local, "127.0.0.1:8080", "http://127.0.0.1:8080", 200)
	f(local, "[::1]:5", "http://[::1]:5", 200)
	for _, origin := range []string{"http://localhost:3000", "https://localhost", "https://127.0.0.1", "http://127.0.0.1", "http://[::1]:5", "null", "NULL", "http://evil.example", "http://localhost.evil.example", "http://localhost:80@evil.example", "file://", "file://localhost", "chrome-extension://localhost", "http://localhost.", "//localhost", "localhost",
		"http://", "http://xn--lcalhost-54a", "http://127.0.0.1.nip.io", "*", "https://app.example", "http://evil.example#http://localhost"} {
		f(local, "localhost", origin, 403)
	}
	f(named, "mcp.example:443", "https://app.example", 200)
	f(named, "mcp.example", "https://APP.example", 200)
	for _, origin := range []string{"http://app.example", "https://app.example:444", "https://app.example.", "https://app.example.evil.example", "https://evil.app.example", "https://app.example/", "https://app.example evil", "null"} {
		f(named, "mcp.example", origin, 403)
	}
	local.good("all that")
}

// Forwarding headers count only from a trusted proxy, and then only the part that the proxy has added.
func TestSpoofedWays(t *testing.T) {
	u := newUpstream(t, "modern")
	spoof := func(i int) []string {
		a := fmt.Sprintf("198.51.100.%d", i)
		return append(modernHeaders("server/discover", ""), "X-Forwarded-For", a, "X-Real-IP", a, "Forwarded", "for="+a, "X-Client-IP", a, "CF-Connecting-IP", a, "True-Client-IP", a)
	}
	for name, c := range map[string]struct {
		trusted string
		last    []string // appended by the proxy
		limited bool
	}{
		"nobody is trusted":    {`["10.0.0.1"]`, nil, true},
		"a trusted proxy":      {`["127.0.0.1"]`, nil, false},
		"that names one other": {`["127.0.0.1"]`, []string{"X-Forwarded-For", "203.0.113.7"}, true},
		"that names rubbish":   {`["127.0.0.1"]`, []string{"X-Forwarded-For", "unknown"}, true},
	} {
		r := startRig(t, "[security]\naddress_rate_limit = 10\ntrusted_proxies = "+c.trusted+"\n"+u.toml(""), true)
		refused := 0
		for i := range 60 {
			if res := r.must("POST", "/mcp", discoverBody, append(spoof(i), c.last...)...); strings.Contains(res.body, "rate_limited") || res.status == 429 {
				refused++
			}
		}
		if refused > 0 != c.limited {
			t.Errorf("%s: %d of 60 requests were refused", name, refused)
		}
	}
}

// JSON that is expensive to read is refused or served in time by every endpoint.
func TestJSONBombs(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-11-25", "{}")
	const size = 3 << 20
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":` + arguments + `,` + modernMeta + `}}`
	}
	for name, body := range map[string]string{
		"a long string":        call(`{"a":"` + strings.Repeat("x", size) + `"}`),
		"a string of escapes":  call(`{"a":"` + strings.Repeat(`\u0041`, size/6) + `"}`),
		"half escapes":         call(`{"a":"` + strings.Repeat(`\ud800`, size/6) + `"}`),
		"a long number":        call(`{"a":` + strings.Repeat("9", size) + `}`),
		"a large exponent":     call(`{"a":1e` + strings.Repeat("9", 1000) + `}`),
		"many numbers":         call(`{"a":[` + strings.Repeat("1e9,", size/4) + `1]}`),
		"many members":         call(`{` + many(`"m%d":1,`, 200000) + `"z":1}`),
		"the same member":      call(`{` + strings.Repeat(`"m":1,`, size/6) + `"m":2}`),
		"many empty arrays":    call(`{"a":[` + strings.Repeat("[],", size/3) + `0]}`),
		"deep arrays":          call(`{"a":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2) + `}`),
		"deep and never ended": call(strings.Repeat("[", size)),
		"deep objects":         call(strings.Repeat(`{"a":`, size/6) + "1" + strings.Repeat("}", size/6)),
		"blanks":               strings.Repeat(" ", size) + call("{}"),
		"a long method":        `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", size) + `","params":{` + modernMeta + `}}`,
		"a long id":            `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", size) + `","method":"tools/call","params":{"name":"a","arguments":{},` + modernMeta + `}}`,
		"a huge id":            `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 1000) + `,"method":"tools/call","params":{"name":"a","arguments":{},` + modernMeta + `}}`,
		"many unknown members": `{"jsonrpc":"2.0",` + many(`"m%d":1,`, 200000) + `"id":1,"method":"tools/call","params":{"name":"a","arguments":{},` + modernMeta + `}}`,
	} {
		for face, send := range map[string]func() *response{
			"modern": func() *response { return r.must("POST", "/mcp", body, modernHeaders("tools/call", "a")...) },
			"legacy": func() *response { return r.must("POST", "/mcp", body, legacyHeaders(session)...) },
			"REST":   func() *response { return r.must("POST", "/call-tool", body, "Content-Type", jsonType) },
		} {
			began := time.Now()
			res := send()
			if took := time.Since(began); took > bombTime() || res.status >= 500 && face != "REST" || len(res.body) > 2*size {
				t.Errorf("%s, %s: %d, %d bytes, after %v: %.300s", name, face, res.status, len(res.body), took, res.body)
			}
		}
		r.good(name)
	}
}

// bombTime is how long 3 MiB of the worst may take. The race detector makes code some ten times slower.
func bombTime() time.Duration {
	if raceDetector {
		return 6 * soonEnough
	}
	return soonEnough
}
