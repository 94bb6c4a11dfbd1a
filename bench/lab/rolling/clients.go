package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	mediaTypes = "application/json, text/event-stream"
	about      = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"rolling","version":"1"}}`
	bodyMost   = 1 << 20
)

// post sends a request and returns the whole response.
func post(ctx context.Context, c *http.Client, url, body string, headers ...string) (status int, text string, head http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", mediaTypes)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.GetBody = nil // without it net/http resends on a broken connection
	res, err := c.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, bodyMost))
	return res.StatusCode, string(b), res.Header, err
}

// holds returns an error unless the response is a good one that contains want.
func holds(status int, body string, err error, want string) error {
	if err != nil {
		return err
	}
	if status != http.StatusOK || !strings.Contains(body, want) {
		return fmt.Errorf("HTTP %d: %.300s", status, body)
	}
	return nil
}

func modern(l *load, c *http.Client, name string) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		said := fmt.Sprintf("%s says %d", name, n)
		status, body, _, err := post(ctx, c, l.front+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":%q},%s}}`, n, said, about),
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
		return holds(status, body, err, said)
	}
}

// modernSlow has a request in flight most of the time, with progress on a stream.
func modernSlow(l *load, c *http.Client, _ string) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		status, body, _, err := post(ctx, c, l.front+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"progress","arguments":{"steps":5,"delayMs":60},"_meta":{"progressToken":"t%d",%s}}`,
			n, n, strings.TrimPrefix(about, `"_meta":{`)),
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "progress")
		if err := holds(status, body, err, `"result"`); err != nil {
			return err
		}
		if got := strings.Count(body, "notifications/progress"); got < 5 {
			return fmt.Errorf("%d of 5 reports: %.300s", got, body)
		}
		return nil
	}
}

func restful(l *load, c *http.Client, name string) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		said := fmt.Sprintf("%s says %d", name, n)
		status, body, _, err := post(ctx, c, l.front+"/call-tool", fmt.Sprintf(`{"tool":"echo","arguments":{"message":%q}}`, said))
		return holds(status, body, err, said)
	}
}

// legacy keeps a session, and opens another one after a 404, as the specification requires.
func legacy(l *load, c *http.Client, name string) func(context.Context, int) error {
	session := ""
	open := func(ctx context.Context) error {
		status, body, head, err := post(ctx, c, l.front+"/mcp", `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rolling","version":"1"}}}`)
		if err := holds(status, body, err, `"result"`); err != nil {
			return err
		}
		session = head.Get("Mcp-Session-Id")
		status, body, _, err = post(ctx, c, l.front+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
		if err == nil && status != http.StatusAccepted && status != http.StatusNotFound {
			err = fmt.Errorf("HTTP %d to initialized: %.300s", status, body)
		}
		return err
	}
	return func(ctx context.Context, n int) error {
		said := fmt.Sprintf("%s says %d", name, n)
		for {
			if session == "" {
				if err := open(ctx); err != nil {
					return err
				}
			}
			status, body, _, err := post(ctx, c, l.front+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":%q}}}`, n, said),
				"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
			if err == nil && status == http.StatusNotFound {
				session = ""
				l.recovered("legacy")
				continue
			}
			return holds(status, body, err, said)
		}
	}
}

// listens keeps a listen open. It ends with a result when its Dragoman is restarted, and is opened again.
func listens(l *load, c *http.Client, _ string) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.front+"/mcp", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`, n, about)))
		if err != nil {
			return err
		}
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": mediaTypes, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
			req.Header.Set(k, v)
		}
		req.GetBody = nil
		res, err := c.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d to a listen", res.StatusCode)
		}
		ended, last := false, ""
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				last = text
			}
			ended = ended || strings.Contains(lines.Text(), `"result"`)
		}
		if !ended {
			return fmt.Errorf("a listen ended without its result (%v); the last line: %.200s", lines.Err(), last)
		}
		return nil
	}
}
