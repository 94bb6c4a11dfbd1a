package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const wireHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
	"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n"

// smuggled is a request that must never be one: it is written where a body, or nothing, belongs.
var smuggled = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n" +
	fmt.Sprintf("Mcp-Method: tools/call\r\nMcp-Name: evil\r\nContent-Length: %d\r\n\r\n%s", len(modernCall("666", "evil", "")), modernCall("666", "evil", ""))

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

var smuggling = []struct{ name, head, body string }{
	{"CL.TE", fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", 5+len(smuggled)), "0\r\n\r\n" + smuggled},
	{"TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunk(smuggled) + "0\r\n\r\n"},
	{"TE.CL good", fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", len(discoverBody)), chunk(discoverBody) + "0\r\n\r\n" + smuggled},
	{"TE identity", "Transfer-Encoding: identity\r\n", smuggled},
	{"TE identity, CL", fmt.Sprintf("Transfer-Encoding: identity\r\nContent-Length: %d\r\n", len(discoverBody)), discoverBody + smuggled},
	{"TE twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + smuggled},
	{"TE list", "Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE gzip", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE x", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE blank", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE tab", "Transfer-Encoding:\tchunked\r\n", chunk(discoverBody) + "0\r\n\r\n"},
	{"TE vt", "Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE quoted", "Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n" + smuggled},
	{"TE case", "transfer-ENCODING: cHUNKED\r\n", chunk(discoverBody) + "0\r\n\r\n"},
	{"TE fold", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE after fold", "X: x\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE bare LF", "X: x\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE bare CR", "X: x\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled},
	{"TE empty", "Transfer-Encoding:\r\n", smuggled},
	{"TE underscore", fmt.Sprintf("Transfer_Encoding: chunked\r\nContent-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"TE space name", fmt.Sprintf("Transfer Encoding: chunked\r\nContent-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"CL same twice", fmt.Sprintf("Content-Length: %d\r\nContent-Length: %[1]d\r\n", len(discoverBody)), discoverBody},
	{"CL list", fmt.Sprintf("Content-Length: %d, %[1]d\r\n", len(discoverBody)), discoverBody},
	{"CL plus", fmt.Sprintf("Content-Length: +%d\r\n", len(discoverBody)), discoverBody},
	{"CL minus", "Content-Length: -1\r\n", smuggled},
	{"CL hex", "Content-Length: 0x10\r\n", smuggled},
	{"CL empty", "Content-Length:\r\n", smuggled},
	{"CL blank inside", "Content-Length: 1 0\r\n", smuggled},
	{"CL zero led", fmt.Sprintf("Content-Length: 00%d\r\n", len(discoverBody)), discoverBody},
	{"chunk bad", "Transfer-Encoding: chunked\r\n", "g\r\n" + smuggled},
	{"chunk 0x", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody)},
	{"chunk minus", "Transfer-Encoding: chunked\r\n", "-1\r\n" + smuggled},
	{"chunk huge", "Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n" + smuggled},
	{"chunk huge 2", "Transfer-Encoding: chunked\r\n", "7fffffffffffffff\r\n" + smuggled},
	{"chunk huge 3", "Transfer-Encoding: chunked\r\n", "fffffffffffffff\r\n" + smuggled},
	{"chunk zeros", "Transfer-Encoding: chunked\r\n", strings.Repeat("0", 100) + "\r\n\r\n" + smuggled},
	{"chunk longer", "Transfer-Encoding: chunked\r\n", "2\r\n{}x\r\n0\r\n\r\n" + smuggled},
	{"chunk LF", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\n%s\n0\n\n", len(discoverBody), discoverBody) + smuggled},
	{"chunk ext", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;a=b\r\n%s\r\n0;c\r\n\r\n", len(discoverBody), discoverBody)},
	{"chunk ext LF", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;a\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody) + smuggled},
	{"chunk ext NUL", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;\x00\r\n%s\r\n0\r\n\r\n", len(discoverBody), discoverBody)},
	{"chunk ext long", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;%s\r\n%s\r\n0\r\n\r\n", len(discoverBody), strings.Repeat("x", 200<<10), discoverBody)},
	{"trailer", "Transfer-Encoding: chunked\r\n", chunk(discoverBody) + "0\r\nMcp-Method: tools/call\r\nOrigin: http://evil\r\n\r\n"},
	{"trailer bad", "Transfer-Encoding: chunked\r\n", chunk(discoverBody) + "0\r\nContent-Length: 5\r\n\r\n" + smuggled},
	{"trailer host", "Transfer-Encoding: chunked\r\n", chunk(discoverBody) + "0\r\nHost: evil\r\n\r\n" + smuggled},
	{"trailer long", "Transfer-Encoding: chunked\r\n", chunk(discoverBody) + "0\r\n" + strings.Repeat("X: x\r\n", 50000) + "\r\n"},
	{"Host twice", "Host: evil\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"Host same twice", "Host: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"obs-fold", "X-A: b\r\n c\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"NUL value", "X-A: b\x00c\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"NUL name", "X\x00A: b\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"no colon", "X\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"empty name", ": x\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
	{"bare LF", "X: x\n" + fmt.Sprintf("Content-Length: %d\n", len(discoverBody)), discoverBody},
	{"upgrade h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n" + fmt.Sprintf("Content-Length: %d\r\n", len(discoverBody)), discoverBody},
}

func TestProbeSmuggling(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	for _, s := range smuggling {
		c := r.wire()
		go c.tell(wireHead + s.head + "\r\n" + s.body)
		all, ended := c.rest(500 * time.Millisecond)
		out := ""
		for _, a := range all {
			b := a.body
			if len(b) > 90 {
				b = b[:90]
			}
			out += fmt.Sprintf(" [%d %s]", a.status, b)
		}
		t.Logf("%-18s ended=%v evil=%d %s", s.name, ended, len(u.all("tools/call")), out)
		u.forget()
	}
	for _, s := range []string{
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(smuggled) + "0\r\n\r\n",
		"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
		"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
		"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
		"BREW /mcp HTTP/1.1\r\nHost: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
		"POST /mcp HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /mcp HTTP/1.0\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"POST /mcp HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"POST /mcp HTTP/2.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"POST /mcp HTTP/1.2\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp HTTP/9.9\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST http://localhost/mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n",
		"POST http://localhost@evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST //evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST //mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp/../admin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /./mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /x/../mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /%6dcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /x/%2e%2e/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /servers/default%2f..%2fx/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /servers/%64efault/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + fmt.Sprintf("%-100s", `{"jsonrpc":"2.0","id":1,"method":"ping"}`),
		"POST /servers/../mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /servers//mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp;x=y HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp#frag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp\\..\\x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp%00 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST  /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		" POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp\r\nHost: localhost\r\n\r\n",
		"POST mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"post /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"\r\n\r\n\r\nPOST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp?a=\x01 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost/evil\r\nContent-Length: 0\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost@evil\r\nContent-Length: 0\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 200-ok\r\n\r\n0\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n{}",
	} {
		c := r.wire()
		go c.tell(s)
		all, ended := c.rest(300 * time.Millisecond)
		out := ""
		for _, a := range all {
			b := a.body
			if len(b) > 130 {
				b = b[:130]
			}
			out += fmt.Sprintf(" [%d %s]", a.status, b)
		}
		l := strings.ReplaceAll(s, "\r\n", "|")
		t.Logf("%-90.90s ended=%v evil=%d %s", l, ended, len(u.all("tools/call")), out)
		u.forget()
	}
}
