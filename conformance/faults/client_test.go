package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientKinds are the kinds of clients: streamable HTTP in both eras, HTTP+SSE, a started process in both eras, and a caller of the REST
// envelope.
var clientKinds = []string{"modern", "legacy", "sse", "stdio", "modern-stdio", "rest"}

// outcome is the result of a call for its client.
type outcome struct {
	Code    string // of Dragoman's table, or of the envelope; empty if the call succeeded
	Message string
	Broken  bool // there was no answer that a client can use, which a fault of the upstream must not cause
	Over    bool // the session has ended, as the transport reports it
	took    time.Duration
}

// client has one connection to Dragoman.
type client interface {
	// call calls a tool with load bytes of arguments.
	call(tool, tag string, load int) outcome
	// open begins a session, the first or another. Clients without sessions do nothing.
	open() outcome
	close()
}

func newClient(t *testing.T, kind string, d *dragoman) client {
	t.Helper()
	transport := &http.Transport{}
	h := &httpClient{t: t, d: d, http: &http.Client{Transport: transport}}
	switch kind {
	case "modern":
		return &modernClient{h}
	case "rest":
		return &restClient{h}
	case "legacy":
		return &legacyClient{httpClient: h}
	case "sse":
		return &sseClient{httpClient: h}
	}
	return newStdio(d, kind == "modern-stdio")
}

// arguments returns the arguments of a call.
func arguments(tag string, load int) string {
	return fmt.Sprintf(`{"tag":%q,"load":%q}`, tag, strings.Repeat("z", load))
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// request returns a tools/call whose id is the tag.
func request(modern bool, tool, tag string, load int) string {
	meta := fmt.Sprintf(`"progressToken":%q`, tag)
	if modern {
		meta += "," + modernMeta
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`, tag, tool, arguments(tag, load), meta)
}

func initialize(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, version)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// judge reads a JSON-RPC response.
func judge(raw []byte) (o outcome) {
	var m struct {
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
			Data    struct{ Code string }
		}
	}
	switch err := json.Unmarshal(raw, &m); {
	case err != nil || m.Result == nil && m.Error == nil:
		return outcome{Broken: true, Code: "no response", Message: fmt.Sprintf("%.200s", raw)}
	case m.Error != nil && m.Error.Data.Code != "":
		return outcome{Code: m.Error.Data.Code, Message: m.Error.Message}
	case m.Error != nil:
		return outcome{Code: fmt.Sprint(m.Error.Code), Message: m.Error.Message}
	}
	return outcome{}
}

// httpClient is the common part of clients over HTTP.
type httpClient struct {
	t    *testing.T
	d    *dragoman
	http *http.Client
}

func (c *httpClient) close() { c.http.CloseIdleConnections() }

// post returns the response and its message: the body, or its last event.
func (c *httpClient) post(path, body string, header ...string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.d.base+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		var last []byte
		for line := range bytes.Lines(raw) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				last = bytes.TrimSpace(data)
			}
		}
		raw = last
	}
	return res, raw, err
}

// timed measures the time of a call.
func timed(call func() outcome) outcome {
	began := time.Now()
	o := call()
	o.took = time.Since(began)
	return o
}

func over(text string) outcome { return outcome{Over: true, Code: "session over", Message: text} }

func broken(err error) outcome { return outcome{Broken: true, Code: "broken", Message: err.Error()} }

type modernClient struct{ *httpClient }

func (c *modernClient) open() outcome { return outcome{} }

func (c *modernClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		_, raw, err := c.post("/mcp", request(true, tool, tag, load), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
		if err != nil {
			return broken(err)
		}
		return judge(raw)
	})
}

type restClient struct{ *httpClient }

func (c *restClient) open() outcome { return outcome{} }

func (c *restClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		res, raw, err := c.post("/call-tool", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, tool, arguments(tag, load)), "Accept", "application/json")
		if err != nil {
			return broken(err)
		}
		var e struct {
			Success     bool
			Code, Error string
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return broken(err)
		}
		if e.Success {
			return outcome{}
		}
		return outcome{Code: fmt.Sprintf("%s (%d)", e.Code, res.StatusCode), Message: e.Error}
	})
}

// legacyClient has a session and keeps its stream open.
type legacyClient struct {
	*httpClient
	session string
	stream  *http.Response
	lost    chan error // the end of the stream, before it was closed
}

func (c *legacyClient) open() outcome {
	c.leave()
	res, raw, err := c.post("/mcp", initialize("2025-11-25"))
	if err != nil {
		return broken(err)
	}
	if o := judge(raw); o.Code != "" {
		return o
	}
	c.session = res.Header.Get("Mcp-Session-Id")
	if _, _, err := c.post("/mcp", initialized, "Mcp-Session-Id", c.session); err != nil {
		return broken(err)
	}
	req, _ := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.d.base+"/mcp", nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", c.session)
	stream, err := c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	if stream.StatusCode == http.StatusNotFound {
		_ = stream.Body.Close()
		return over("404")
	}
	lost := make(chan error, 1)
	c.stream, c.lost = stream, lost
	go func() { // ends with the stream
		_, err := io.Copy(io.Discard, stream.Body)
		lost <- err
	}()
	return outcome{}
}

func (c *legacyClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		res, raw, err := c.post("/mcp", request(false, tool, tag, load), "Mcp-Session-Id", c.session)
		switch {
		case err != nil:
			return broken(err)
		case res.StatusCode == http.StatusNotFound:
			return over(string(raw))
		}
		select {
		case err := <-c.lost: // Dragoman may end the stream, when the session has ended; it must not break off
			c.lost <- err
			if err != nil {
				return broken(fmt.Errorf("the stream of the session breaks: %w", err))
			}
		default:
		}
		return judge(raw)
	})
}

// leave ends what is left of a session.
func (c *legacyClient) leave() {
	if c.stream != nil {
		_ = c.stream.Body.Close()
		<-c.lost
		c.stream = nil
	}
}

func (c *legacyClient) close() {
	c.leave()
	c.httpClient.close()
}

// inbox matches the responses on a channel with their requests.
type inbox struct {
	mu      sync.Mutex
	waiting map[string]chan []byte
	ended   chan struct{}
}

func newInbox() *inbox { return &inbox{waiting: map[string]chan []byte{}, ended: make(chan struct{})} }

// await registers a request and returns the channel of its response.
func (k *inbox) await(id string) <-chan []byte {
	ch := make(chan []byte, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[id] = ch
	return ch
}

func (k *inbox) deliver(raw []byte) {
	var m struct{ ID, Method string }
	if json.Unmarshal(raw, &m) != nil || m.Method != "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if ch := k.waiting[m.ID]; ch != nil {
		ch <- raw
		delete(k.waiting, m.ID)
	}
}

// response waits for a response that await has registered.
func (k *inbox) response(ch <-chan []byte) outcome {
	select {
	case raw := <-ch:
		return judge(raw)
	case <-k.ended:
		select {
		case raw := <-ch: // it came before the end
			return judge(raw)
		default:
			return over("the channel from Dragoman ended without a response")
		}
	case <-time.After(patient):
		return broken(errors.New("nothing came"))
	}
}

type sseClient struct {
	*httpClient
	inbox    *inbox
	stream   *http.Response
	endpoint string
}

func (c *sseClient) open() outcome {
	c.leave()
	req, _ := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.d.base+"/sse", nil)
	stream, err := c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	posts, inbox := make(chan string, 1), newInbox()
	c.stream, c.inbox = stream, inbox
	go func() { // ends with the stream
		defer close(inbox.ended)
		r, name := bufio.NewReader(stream.Body), ""
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if n, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(n)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && name == "endpoint" {
				posts <- strings.TrimSpace(data)
			} else if ok {
				inbox.deliver([]byte(strings.TrimSpace(data)))
			}
		}
	}()
	select {
	case c.endpoint = <-posts:
	case <-time.After(patient):
		return broken(errors.New("no endpoint"))
	}
	ch := inbox.await("open")
	if _, _, err := c.post(c.endpoint, initialize("2024-11-05")); err != nil {
		return broken(err)
	}
	if o := inbox.response(ch); o.Code != "" {
		return o
	}
	if _, _, err := c.post(c.endpoint, initialized); err != nil {
		return broken(err)
	}
	return outcome{}
}

func (c *sseClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		ch := c.inbox.await(tag)
		res, raw, err := c.post(c.endpoint, request(false, tool, tag, load))
		if err != nil {
			return broken(err)
		}
		switch res.StatusCode {
		case http.StatusAccepted:
			return c.inbox.response(ch)
		case http.StatusNotFound:
			return over(string(raw))
		}
		return outcome{Broken: true, Code: res.Status, Message: string(raw)}
	})
}

// leave ends what is left of a session.
func (c *sseClient) leave() {
	if c.stream != nil {
		_ = c.stream.Body.Close()
		<-c.inbox.ended
		c.stream = nil
	}
}

func (c *sseClient) close() {
	c.leave()
	c.httpClient.close()
}

// stdioClient is the client of a Dragoman that it has started.
type stdioClient struct {
	d      *dragoman
	inbox  *inbox
	modern bool
}

func newStdio(d *dragoman, modern bool) *stdioClient {
	c := &stdioClient{d: d, inbox: newInbox(), modern: modern}
	go func() { // ends with Dragoman's output
		defer close(c.inbox.ended)
		r := bufio.NewReader(d.out)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			c.inbox.deliver(line)
		}
	}()
	return c
}

// open begins a session on the same pipes.
func (c *stdioClient) open() outcome {
	if c.modern {
		return outcome{}
	}
	ch := c.inbox.await("open")
	if _, err := io.WriteString(c.d.in, initialize("2025-11-25")+"\n"); err != nil {
		return broken(err)
	}
	if o := c.inbox.response(ch); o.Code != "" {
		return o
	}
	if _, err := io.WriteString(c.d.in, initialized+"\n"); err != nil {
		return broken(err)
	}
	return outcome{}
}

func (c *stdioClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		ch := c.inbox.await(tag)
		if _, err := io.WriteString(c.d.in, request(c.modern, tool, tag, load)+"\n"); err != nil {
			return broken(err)
		}
		return c.inbox.response(ch)
	})
}

func (c *stdioClient) close() {
	_ = c.d.in.Close()
	<-c.inbox.ended
}
