package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const wireHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
	"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n"

// smuggled is a request that must never run: it is sent in the place of a body or of nothing.
var smuggled = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n" +
	fmt.Sprintf("Mcp-Method: tools/call\r\nMcp-Name: evil\r\nContent-Length: %d\r\n\r\n%s", len(modernCall("666", "evil", "")), modernCall("666", "evil", ""))

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// sized and pieces make a body with its framing.
var sized = fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody))

const inPieces = "Transfer-Encoding: chunked\r\n"

// Heads and bodies that two readers may parse as different requests. A valid one is answered once; everything else gets 400, 413 or 431 and
// the connection is closed. A hidden request never runs.
func TestRequestSmuggling(t *testing.T) {
	whole := chunk(discoverBody) + "0\r\n\r\n"
	wrong := map[string][2]string{
		"CL.TE":                    {fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", 5+len(smuggled)), "0\r\n\r\n" + smuggled},
		"TE.CL":                    {inPieces + "Content-Length: 4\r\n", chunk(smuggled) + "0\r\n\r\n"},
		"TE.CL, both right":        {inPieces + sized, whole + smuggled},
		"TE.CL, bigger":            {inPieces + "Content-Length: 3000000\r\n", whole + smuggled},
		"identity":                 {"Transfer-Encoding: identity\r\n", smuggled},
		"identity with length":     {"Transfer-Encoding: identity\r\n" + sized, discoverBody + smuggled},
		"TE.TE":                    {inPieces + "Transfer-Encoding: identity\r\n", "0\r\n\r\n" + smuggled},
		"TE.TE, cow":               {"Transfer-Encoding: cow\r\n" + inPieces, "0\r\n\r\n" + smuggled},
		"a list":                   {"Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n" + smuggled},
		"chunked twice":            {"Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n" + smuggled},
		"gzip":                     {"Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n" + smuggled},
		"xchunked":                 {"Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + smuggled},
		"a blank before the colon": {"Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + smuggled},
		"a blank in the name":      {"Transfer Encoding: chunked\r\n" + sized, discoverBody + smuggled},
		"a blank in front":         {"X: x\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
		"vertical tab":             {"Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n" + smuggled},
		"quotes":                   {"Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n" + smuggled},
		"folded":                   {"Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n" + smuggled},
		"folded length":            {"Content-Length:\r\n " + fmt.Sprint(len(discoverBody)) + "\r\n", discoverBody + smuggled},
		"behind a bare LF":         {"X: x\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
		"length behind a bare LF":  {"X: x\n" + sized, discoverBody + smuggled},
		"behind a bare CR":         {"X: x\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
		"no coding":                {"Transfer-Encoding:\r\n", smuggled},
		"the same length twice":    {sized + sized, discoverBody + smuggled},
		"two lengths":              {"Content-Length: 0\r\n" + sized, discoverBody + smuggled},
		"a list of lengths":        {fmt.Sprintf("Content-Length: %d, %[1]d\r\n", len(discoverBody)), discoverBody + smuggled},
		"+":                        {fmt.Sprintf("Content-Length: +%d\r\n", len(discoverBody)), discoverBody + smuggled},
		"-":                        {"Content-Length: -1\r\n", smuggled},
		"hexadecimal length":       {"Content-Length: 0x10\r\n", smuggled},
		"no length":                {"Content-Length:\r\n", smuggled},
		"a blank in the length":    {"Content-Length: 1 0\r\n", smuggled},
		"no chunk size":            {inPieces, "g\r\n" + smuggled},
		"chunk of 0x":              {inPieces, fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody) + smuggled},
		"chunk of less":            {inPieces, "-1\r\n" + smuggled},
		"chunk of 2^64-1":          {inPieces, "ffffffffffffffff\r\n" + smuggled},
		"chunk of 2^63-1":          {inPieces, "7fffffffffffffff\r\n" + smuggled},
		"chunk of 2^60-1":          {inPieces, "fffffffffffffff\r\n" + smuggled},
		"chunk of 4 MiB and more":  {inPieces, "400001\r\n" + smuggled},
		"chunk of many zeros":      {inPieces, strings.Repeat("0", 100) + "\r\n\r\n" + smuggled},
		"chunk longer than it is":  {inPieces, "2\r\n{}x\r\n0\r\n\r\n" + smuggled},
		"chunks with LF":           {inPieces, fmt.Sprintf("%x\n%s\n0\n\n", len(discoverBody), discoverBody) + smuggled},
		"extension with LF":        {inPieces, fmt.Sprintf("%x;a\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody) + smuggled},
		"extension with CR":        {inPieces, fmt.Sprintf("%x;a\rb\r\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody) + smuggled},
		"length in the trailer":    {inPieces, chunk(discoverBody) + "0\r\nContent-Length: 5\r\n\r\n" + smuggled},
		"host in the trailer":      {inPieces, chunk(discoverBody) + "0\r\nHost: evil\r\n\r\n" + smuggled},
		"a trailer without colon":  {inPieces, chunk(discoverBody) + "0\r\nx\r\n\r\n" + smuggled},
		"an endless trailer":       {inPieces, chunk(discoverBody) + "0\r\n" + strings.Repeat("X: x\r\n", 50000) + "\r\n"},
		"another host":             {"Host: evil\r\n" + sized, discoverBody + smuggled},
		"the same host":            {"Host: localhost\r\n" + sized, discoverBody + smuggled},
		"NUL in a value":           {"X-A: b\x00c\r\n" + sized, discoverBody + smuggled},
		"NUL in a name":            {"X\x00A: b\r\n" + sized, discoverBody + smuggled},
		"no colon":                 {"X\r\n" + sized, discoverBody + smuggled},
		"no name":                  {": x\r\n" + sized, discoverBody + smuggled},
		"a folded value":           {"X-A: b\r\n c\r\n" + sized, discoverBody + smuggled},
	}
	right := map[string][2]string{
		"length":           {sized, discoverBody},
		"zeros in front":   {"Content-Length: 00" + sized[len("Content-Length: "):], discoverBody},
		"chunks":           {inPieces, whole},
		"a tab":            {"Transfer-Encoding:\tchunked\r\n", whole},
		"any case":         {"transfer-ENCODING: cHUNKED\r\n", whole},
		"another name":     {"Transfer_Encoding: chunked\r\n" + sized, discoverBody},
		"extensions":       {inPieces, fmt.Sprintf("%x;a=b\r\n%s\r\n0;c\r\n\r\n", len(discoverBody), discoverBody)},
		"bytes, one each":  {inPieces, onePiece(discoverBody)},
		"a trailer":        {inPieces, chunk(discoverBody) + "0\r\nMcp-Method: tools/call\r\nMcp-Session-Id: x\r\nOrigin: http://evil\r\n\r\n"},
		"HTTP/2, no":       {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n" + sized, discoverBody},
		"WebSocket, no":    {"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n" + sized, discoverBody},
		"hop by hop":       {"Connection: close, Mcp-Method, Host\r\n" + sized, discoverBody},
		"what proxies use": {"X-HTTP-Method-Override: DELETE\r\nX-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\n" + sized, discoverBody},
	}
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	r := startRig(t, u.toml(""), true)
	for name, w := range wrong {
		c := r.wire()
		go c.send(wireHead + w[0] + "\r\n" + w[1])
		all, ended := c.rest(soonEnough)
		if len(all) != 1 || !ended || !slices.Contains([]int{400, 413, 431}, all[0].status) || !strings.Contains(all[0].body, `"error":{"code":-32600`) {
			t.Errorf("%s: %d answers, closed %v", name, len(all), ended)
			for _, a := range all {
				t.Logf("  %d %s", a.status, a.body)
			}
		}
	}
	for name, w := range right {
		c := r.wire()
		go c.send(wireHead + w[0] + "\r\n" + w[1])
		if res, err := c.receive(); err != nil || res.status != 200 || !strings.Contains(res.body, `"supportedVersions"`) {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	if n := len(u.all("tools/call")); n != 0 {
		t.Errorf("%d hidden requests were run", n)
	}
	r.good("all that")
}

// onePiece is a body in chunks of one byte.
func onePiece(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "1\r\n%c\r\n", s[i])
	}
	return b.String() + "0\r\n\r\n"
}

// Bodies of methods without a body, and other HTTP versions, are never taken for the next request.
func TestBodiesWhereNoneBelong(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled)
	for request, want := range map[string]int{
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + length:                                            400,
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + inPieces + "\r\n" + chunk(smuggled) + "0\r\n\r\n": 400,
		"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                                                      400,
		"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                                                     405,
		"BREW /mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                                                        405,
		"TRACE /mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                                                       405,
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n" + length:                                                             404,
		"POST /mcp HTTP/1.0\r\nHost: localhost\r\n" + inPieces + "\r\n0\r\n\r\n" + smuggled:                                         400,
		"POST /mcp HTTP/1.0\r\nHost: localhost\r\n\r\n" + smuggled:                                                                  400,
		"POST /mcp HTTP/1.1\r\n" + length:                                                                                           400,
		"POST /mcp HTTP/1.1\r\nHost:\r\n" + length:                                                                                  400,
		"POST /mcp HTTP/0.9\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + smuggled:                                             400,
		"POST /mcp HTTP/1.2\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + smuggled:                                             400,
		"POST /mcp HTTP/2.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + smuggled:                                             400,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled:                                                                               400,
		"POST /mcp\r\nHost: localhost\r\n\r\n" + smuggled:                                                                           400,
		"POST  /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled:                                                                 400,
		" POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled:                                                                 400,
		"POST /mcp x HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled:                                                                400,
		"POST /mcp?a=\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled:                                                           400,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n" + smuggled:                                                               400,
		"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + smuggled:                                                                         400,
	} {
		c := r.wire()
		go c.send(request)
		if res, err := c.receive(); err != nil || res.status != want {
			t.Errorf("%.60q: %v %v, want %d", request, res, err, want)
			continue
		}
		if want == 405 || want == 404 || strings.HasPrefix(request, "GET") || strings.HasPrefix(request, "DELETE") { // the connection goes on after the body
			go c.send(wireHead + sized + "\r\n" + discoverBody)
			if res, err := c.receive(); err != nil || res.status != 200 {
				t.Errorf("%.60q: the next request gets %v %v", request, res, err)
			}
		} else if more, ended := c.rest(soonEnough); len(more) > 0 || !ended {
			t.Errorf("%.60q: %d more answers, closed %v", request, len(more), ended)
		}
	}
	if n := len(u.all("tools/call")); n != 0 {
		t.Errorf("%d hidden requests were run", n)
	}
	r.good("all that")
}

// Targets that readers may interpret differently: the router and the policies use the bytes as received.
func TestPathTricks(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	u.forget()
	f := func(target string, want int) {
		t.Helper()
		c := r.wire()
		c.send(strings.Replace(wireHead, " /mcp ", " "+target+" ", 1) + sized + "\r\n" + discoverBody)
		if res, err := c.receive(); err != nil || res.status != want {
			t.Errorf("%s: %v %v, want %d", target, res, err, want)
		}
	}
	for _, none := range []string{"//mcp", "//localhost/mcp", "///mcp", "/./mcp", "/x/../mcp", "/%6dcp", "/%2e/mcp", "/x/%2e%2e/mcp", "/x/..%2fmcp", "/mcp/", "/mcp;x=y", `/mcp\..\x`, `\mcp`,
		"/mcp%00", "/mcp%20", "/MCP", "/mcp%2f", "/admin", "/metrics", "/healthz", "/debug/pprof/", "/.git/config", "/servers/default/mcp/../../admin", "/servers", "/servers/", "/servers/default/../../mcp"} {
		want := 404
		if strings.HasPrefix(none, `\`) {
			want = 400
		}
		f(none, want)
	}
	for _, nobody := range []string{"/servers/nosuch/mcp", "/servers/default%2f..%2fx/mcp", "/servers/%64efault/mcp", "/servers/../mcp", "/servers/./mcp", "/servers/%2e%2e/mcp", "/servers/DEFAULT/mcp", "/servers/default%00/mcp",
		"/servers/default;x/mcp", "/servers/" + strings.Repeat("x", 10000) + "/mcp"} {
		f(nobody, 404)
	}
	for _, evil := range []string{"http://evil.example/mcp", "http://localhost@evil.example/mcp", "https://evil.example:8080/mcp"} {
		f(evil, 403)
	}
	if n := len(u.all("server/discover")); n != 0 {
		t.Errorf("%d of these have reached the server", n)
	}
	f("/mcp?x=/../y", 200)
	f("http://localhost/mcp", 200)
	f("/servers/default/mcp", 200)
	r.good("all that")
}
