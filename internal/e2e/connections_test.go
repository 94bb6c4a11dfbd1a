package e2e

import (
	"fmt"
	"testing"

	"dragoman/internal/testkit"
)

// If all connections of limits.connections are in use, a new one is refused with the fix; streams count as connections.
func TestConnectionsAreLimited(t *testing.T) {
	const most = 3
	u := newUpstream(t, "modern")
	started := hanging(u, 0)
	r := startRig(t, fmt.Sprintf("[limits]\nconnections = %d\n", most)+u.toml(""), true)
	var busy []*wireClient
	for i := range most {
		c := r.wire()
		body := modernCall(fmt.Sprint(i), "hang", "")
		c.send(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: hang\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		testkit.Receive(t, "the call at the server", started)
		busy = append(busy, c)
	}
	res, err := r.wire().receive()
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, res.body, "limits.connections", `"retryAfter":1`)
	if res.status != 503 || res.header.Get("Retry-After") != "1" {
		t.Errorf("%+v", res)
	}
	_ = busy[0].Close()
	testkit.Eventually(t, "there is room", func() bool {
		c := r.wire()
		c.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := c.receive()
		return err == nil && res.status == 404
	})
}
