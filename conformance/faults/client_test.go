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

// clientKinds are what meets Dragoman: streamable HTTP in both eras, HTTP+SSE, a started process in both eras, and a caller of the
// REST envelope.
var clientKinds = []string{"modern", "legacy", "sse", "stdio", "modern-stdio", "rest"}

// outcome is what came of a call, as its client saw it.
type outcome struct {
	Code    string // of Dragoman's table, or of the envelope; empty if the call was answered well
	Message string
	Broken  bool // the connection or the session to Dragoman has ended: a fault of the upstream must not
	took    time.Duration
}

// client has one conversation with Dragoman.
type client interface {
	// call calls a tool, and waits patiently. load is so many bytes of arguments.
	call(tool, tag string, load int) outcome
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
		c := &legacyClient{httpClient: h}
		c.open()
		return c
	case "sse":
		c := &sseClient{httpClient: h, talk: newTalk()}
		c.open()
		return c
	}
	c := &stdioClient{d: d, talk: newTalk(), modern: kind == "modern-stdio"}
	c.open(t)
	return c
}

// arguments are those of a call.
func arguments(tag string, load int) string {
	return fmt.Sprintf(`{"tag":%q,"load":%q}`, tag, strings.Repeat("z", load))
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// request is a tools/call; its id is the tag.
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

// httpClient is what clients over HTTP share.
type httpClient struct {
	t    *testing.T
	d    *dragoman
	http *http.Client
}

func (c *httpClient) close() { c.http.CloseIdleConnections() }

// post answers the status, and the message in the answer: its body, or the last event of it.
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

// timed takes the time of a call.
func timed(call func() outcome) outcome {
	began := time.Now()
	o := call()
	o.took = time.Since(began)
	return o
}

func broken(err error) outcome { return outcome{Broken: true, Code: "broken", Message: err.Error()} }

type modernClient struct{ *httpClient }

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

// legacyClient has a session, and its stream open all the time.
type legacyClient struct {
	*httpClient
	session string
	stream  *http.Response
	lost    chan error // the end of the stream, before it was closed
}

func (c *legacyClient) open() {
	c.t.Helper()
	res, raw, err := c.post("/mcp", initialize("2025-11-25"))
	if err != nil || judge(raw).Code != "" {
		c.t.Fatalf("initialize: %v %s", err, raw)
	}
	c.session = res.Header.Get("Mcp-Session-Id")
	if _, _, err := c.post("/mcp", initialized, "Mcp-Session-Id", c.session); err != nil {
		c.t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.d.base+"/mcp", nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", c.session)
	if c.stream, err = c.http.Do(req); err != nil || c.stream.StatusCode != http.StatusOK {
		c.t.Fatalf("GET: %v %v", err, c.stream)
	}
	c.lost = make(chan error, 1)
	go func() { // ends with the stream
		_, err := io.Copy(io.Discard, c.stream.Body)
		c.lost <- err
	}()
}

func (c *legacyClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		_, raw, err := c.post("/mcp", request(false, tool, tag, load), "Mcp-Session-Id", c.session)
		if err != nil {
			return broken(err)
		}
		select {
		case err := <-c.lost:
			c.lost <- err
			return broken(fmt.Errorf("the stream of the session ends: %w", err))
		default:
		}
		return judge(raw)
	})
}

func (c *legacyClient) close() {
	_ = c.stream.Body.Close()
	<-c.lost
	c.httpClient.close()
}

// talk finds the responses in what comes on one channel.
type talk struct {
	mu      sync.Mutex
	waiting map[string]chan []byte
	ended   chan struct{}
}

func newTalk() *talk { return &talk{waiting: map[string]chan []byte{}, ended: make(chan struct{})} }

// await says that a response to the id is wanted.
func (k *talk) await(id string) <-chan []byte {
	ch := make(chan []byte, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[id] = ch
	return ch
}

func (k *talk) heard(raw []byte) {
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

// response waits for what await has announced.
func (k *talk) response(ch <-chan []byte) outcome {
	select {
	case raw := <-ch:
		return judge(raw)
	case <-k.ended:
		return broken(errors.New("the channel from Dragoman ended"))
	case <-time.After(patient):
		return broken(errors.New("nothing came"))
	}
}

type sseClient struct {
	*httpClient
	talk     *talk
	stream   *http.Response
	endpoint string
}

func (c *sseClient) open() {
	c.t.Helper()
	req, _ := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.d.base+"/sse", nil)
	var err error
	if c.stream, err = c.http.Do(req); err != nil {
		c.t.Fatal(err)
	}
	posts := make(chan string, 1)
	go func() { // ends with the stream
		defer close(c.talk.ended)
		r, name := bufio.NewReader(c.stream.Body), ""
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
				c.talk.heard([]byte(strings.TrimSpace(data)))
			}
		}
	}()
	select {
	case c.endpoint = <-posts:
	case <-time.After(patient):
		c.t.Fatal("no endpoint")
	}
	ch := c.talk.await("open")
	if _, _, err := c.post(c.endpoint, initialize("2024-11-05")); err != nil {
		c.t.Fatal(err)
	}
	if o := c.talk.response(ch); o.Code != "" {
		c.t.Fatalf("initialize: %+v", o)
	}
	if _, _, err := c.post(c.endpoint, initialized); err != nil {
		c.t.Fatal(err)
	}
}

func (c *sseClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		ch := c.talk.await(tag)
		res, raw, err := c.post(c.endpoint, request(false, tool, tag, load))
		if err != nil {
			return broken(err)
		}
		if res.StatusCode != http.StatusAccepted {
			return outcome{Broken: true, Code: res.Status, Message: string(raw)}
		}
		return c.talk.response(ch)
	})
}

func (c *sseClient) close() {
	_ = c.stream.Body.Close()
	<-c.talk.ended
	c.httpClient.close()
}

// stdioClient speaks to a Dragoman that it has started.
type stdioClient struct {
	d      *dragoman
	talk   *talk
	modern bool
}

func (c *stdioClient) open(t *testing.T) {
	t.Helper()
	go func() { // ends with Dragoman's output
		defer close(c.talk.ended)
		r := bufio.NewReader(c.d.out)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			c.talk.heard(bytes.Clone(line))
		}
	}()
	if c.modern {
		return
	}
	ch := c.talk.await("open")
	_, _ = io.WriteString(c.d.in, initialize("2025-11-25")+"\n")
	if o := c.talk.response(ch); o.Code != "" {
		t.Fatalf("initialize: %+v", o)
	}
	_, _ = io.WriteString(c.d.in, initialized+"\n")
}

func (c *stdioClient) call(tool, tag string, load int) outcome {
	return timed(func() outcome {
		ch := c.talk.await(tag)
		if _, err := io.WriteString(c.d.in, request(c.modern, tool, tag, load)+"\n"); err != nil {
			return broken(err)
		}
		return c.talk.response(ch)
	})
}

func (c *stdioClient) close() {
	_ = c.d.in.Close()
	<-c.talk.ended
}
