package mock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"dragoman/conformance/peer"
)

// The client of the tests and the mock server that it starts are the test's own program. The environment variable breakName has the fault
// of the client.
const (
	clientName = "MOCK_TEST_CLIENT"
	relayName  = "MOCK_TEST_RELAY"
	breakName  = "MOCK_TEST_BREAK"
)

// fault returns the fault of the client.
func fault(name string) bool { return os.Getenv(breakName) == name }

// within reports whether the client runs in one of the scenarios.
func within(name string) bool { return os.Getenv("MCP_CONFORMANCE_SCENARIO") == name }

// answerTime is how long the client waits for an answer.
const answerTime = 5 * time.Second

// beClient is a client: it connects, lists the tools, calls each, and ends.
func beClient() error {
	c := &testClient{face: peer.Face(os.Getenv("MCP_CONFORMANCE_FACE")), revision: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")}
	if c.face.Stdio() {
		c.target = &peer.Target{Program: program(strings.Fields(os.Getenv("MCP_CONFORMANCE_COMMAND"))), Timeout: answerTime}
	} else {
		at, _ := url.Parse(os.Getenv("MCP_CONFORMANCE_URL"))
		path := at.Path
		at.Path = ""
		box := httptest.NewServer(breaking(at, path))
		defer box.Close()
		c.http = peer.NewHTTP(box.URL+path, nil, nil)
		defer c.http.Close()
		c.target = &peer.Target{HTTP: c.http, Timeout: answerTime}
	}
	defer func() {
		if c.conn != nil {
			c.conn.Close()
		}
	}()
	if err := c.open(); err != nil {
		return err
	}
	tools, err := c.list()
	if err != nil {
		if fault("falls-back") {
			_, _ = c.conn.Request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`)
		}
		return err
	}
	for _, name := range tools {
		if err := c.use(name); err != nil {
			return err
		}
	}
	if fault("ping") || !within("streams") && !within("chatter") && !within("asked") || c.face.Modern() {
		return nil
	}
	_, err = c.conn.Request("tools/list", "") // by then the questions are answered
	return err
}

type testClient struct {
	face     peer.Face
	http     *peer.HTTP
	target   *peer.Target
	conn     *peer.Conn
	revision string
	opened   bool
}

func (c *testClient) open() (err error) {
	s := peer.Settings{Face: c.face, Revision: c.revision, Capabilities: `{"elicitation":{}}`, Answer: answer}
	s.NoHandshake = c.face == peer.SSE || c.face.Stdio() || within("unknown-revision")
	if c.face == peer.SSE {
		if leave, err := c.findStream(); leave || err != nil {
			return err
		}
	}
	if c.conn, err = c.target.Open(context.Background(), s); err != nil {
		return err
	}
	switch {
	case c.face.Modern() && fault("legacy-ways"):
		_, _ = c.conn.Request("ping", "")
	case c.face == peer.ModernStdio && within("tools_call"):
		return c.listen()
	case fault("goes-on") && c.opened:
	case !c.face.Modern() && s.NoHandshake:
		c.opened = true
		return c.shakeHands()
	}
	return nil
}

// answer answers a request of the server, as specified or with the fault.
func answer(m peer.Message) string {
	switch {
	case fault("ping") && m.Method == "ping", fault("no-answer") && m.Method != "ping":
		return ""
	case m.Method == "ping", fault("knows-all") && strings.HasPrefix(m.Method, "x-"):
		return `"result":{}`
	case fault("undeclared") && m.Method == "roots/list":
		return `"result":{"roots":[]}`
	case m.Method == "elicitation/create" && !fault("disowns"):
		return `"result":{"action":"accept","content":{"name":"Anna"}}`
	}
	return `"error":{"code":-32601,"message":"Method not found"}`
}

// findStream posts first, as a client does that does not know the transport. leave reports that there is no usable endpoint.
func (c *testClient) findStream() (leave bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + c.revision + `","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	res, err := c.http.Send(ctx, peer.Request{Method: "POST", Header: peer.Fields{{Name: "Accept", Value: "application/json, text/event-stream"}}, Body: initialize}, nil)
	if err != nil {
		return false, err
	}
	res.Close()
	if fault("no-fallback") {
		return true, errors.New("POST was refused")
	}
	if !within("foreign-endpoint") || fault("anywhere") {
		return false, nil
	}
	res, err = c.http.Send(ctx, peer.Request{Method: "GET", Header: peer.Fields{{Name: "Accept", Value: "text/event-stream"}}}, nil)
	if err != nil {
		return false, err
	}
	defer res.Close()
	e, err := res.Next()
	if err == nil && strings.HasPrefix(e.Data, "http") {
		err = errors.New("the endpoint is elsewhere")
	}
	return true, err
}

// shakeHands probes the era first if the scenario is about that.
func (c *testClient) shakeHands() error {
	probes := within("odd-probe") || within("silent-probe") || fault("keyed")
	if probes {
		if within("silent-probe") {
			c.target.Timeout = 50 * time.Millisecond
		}
		m, err := c.conn.Request("server/discover", `{"_meta":{"`+peer.MetaVersion+`":"`+peer.R2607+`","`+peer.MetaCapabilities+`":{}}}`)
		c.target.Timeout = answerTime
		if code, _, _ := m.Error(); fault("keyed") && (err != nil || code != -32601) {
			return errors.New("what is this?")
		}
	}
	if fault("cancels-initialize") {
		_, _ = c.conn.Notify("notifications/cancelled", `{"requestId":`+map[bool]string{true: "2", false: "1"}[probes]+`}`)
	}
	result, err := c.conn.Result("initialize", `{"protocolVersion":"`+c.revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"a","version":"1"}}`)
	if err != nil {
		return err
	}
	c.conn.Server, c.conn.Agreed = result, peer.Text(result, "protocolVersion")
	if c.conn.Agreed == unknownRevision && !fault("goes-on") {
		return errors.New("it speaks " + unknownRevision)
	}
	_, err = c.conn.Notify("notifications/initialized", "")
	return err
}

// listen opens a subscription and cancels it.
func (c *testClient) listen() error {
	call, err := c.conn.Start("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		return err
	}
	for _, method := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
		m, err := c.conn.WaitOther(func(m peer.Message) bool { return m.Method == method })
		if err != nil {
			return err
		}
		if got := peer.Encode(peer.Get(m.Params(), "_meta", peer.MetaSubscription)); got != call.ID {
			return fmt.Errorf("the subscription %s in %s", got, m.Raw)
		}
	}
	_, err = c.conn.Notify("notifications/cancelled", `{"requestId":`+call.ID+`}`)
	return err
}

func (c *testClient) list() (names []string, err error) {
	params := ""
	for {
		result, err := c.conn.Result("tools/list", params)
		if err != nil {
			return nil, err
		}
		for _, t := range peer.List(result, "tools") {
			names = append(names, peer.Text(t, "name"))
		}
		cursor, more := result["nextCursor"].(string)
		if !more || cursor == "" && fault("cursors") {
			return names, nil
		}
		params = peer.Encode(peer.Object{"cursor": cursor})
	}
}

// use calls a tool and answers its questions.
func (c *testClient) use(name string) error {
	if fault("streams") && within("streams") {
		return errors.New("an answer that is no JSON")
	}
	if within("slow") {
		return c.giveUp(name)
	}
	id := ""
	if fault("ids") {
		id = "7"
	}
	m, err := c.call(id, name, "")
	if err == nil && fault("ids") {
		m, err = c.call(id, name, "")
	}
	if err != nil {
		return err
	}
	state, asks := m.Result()["requestState"].(string)
	if !asks {
		return nil
	}
	if fault("state") {
		state += "x"
	}
	if fault("same-id") {
		id = string(m.ID)
	}
	if fault("no-answers") {
		return nil
	}
	_, err = c.call(id, name, `,"requestState":`+peer.Encode(state)+`,"inputResponses":{"who":{"action":"accept","content":{"name":"Anna"}}}`)
	return err
}

func (c *testClient) call(id, name, more string) (peer.Message, error) {
	params := `{"name":` + peer.Encode(name) + `,"arguments":{"a":1,"b":2,"region":"südlich","limit":3}` + more + `,"_meta":{"progressToken":"p"}}`
	var fields []peer.Field
	if name == "query" && !fault("mirrored") {
		fields = []peer.Field{{Name: "Mcp-Param-Region", Value: "=?base64?c8O8ZGxpY2g=?="}, {Name: "Mcp-Param-Limit", Value: "3"}}
	}
	if name == "größe" {
		fields = append(fields, peer.Field{Name: "Mcp-Name", Value: "=?base64?Z3LDtsOfZQ==?="})
	}
	if within("lost-stream") {
		// Nothing of the kind comes: this ends with the stream.
		_, _ = c.conn.WaitOther(func(peer.Message) bool { return false })
		c.conn.Close()
		if err := c.open(); err != nil {
			return peer.Message{}, err
		}
	}
	start := func() (*peer.Call, error) {
		if id != "" {
			return c.conn.StartAs(id, "tools/call", params, fields...)
		}
		return c.conn.Start("tools/call", params, fields...)
	}
	call, err := start()
	if err != nil {
		return peer.Message{}, err
	}
	m, err := call.Wait()
	switch {
	case within("crash") && err != nil && !fault("no-restart"):
		c.conn.Close()
		if err := c.open(); err != nil {
			return m, err
		}
		if call, err = start(); err == nil {
			m, err = call.Wait()
		}
		return m, err
	case within("sse-retry") && err != nil:
		if fault("no-resume") {
			return m, nil
		}
		if !fault("no-wait") {
			time.Sleep(retryMS * time.Millisecond) // as the client was told
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		res, err := c.http.Send(ctx, peer.Request{Method: "GET", Header: peer.Fields{{Name: "Accept", Value: "text/event-stream"}, {Name: "Mcp-Session-Id", Value: c.conn.Session},
			{Name: "MCP-Protocol-Version", Value: c.revision}, {Name: "Last-Event-ID", Value: "s-1"}}}, nil)
		if err != nil {
			return m, err
		}
		defer res.Close()
		e, err := res.Next()
		if err != nil {
			return m, err
		}
		return peer.ReadMessage(e.Data)
	case err == nil && m.Status == http.StatusNotFound && !fault("stays"):
		c.conn.Close()
		if err := c.open(); err != nil {
			return m, err
		}
		if call, err = start(); err == nil {
			m, err = call.Wait()
		}
		return m, err
	}
	return m, err
}

// giveUp calls a tool, and cancels the call.
func (c *testClient) giveUp(name string) error {
	call, err := c.conn.Start("tools/call", `{"name":`+peer.Encode(name)+`,"arguments":{"a":1,"b":2}}`)
	if err != nil {
		return err
	}
	id := call.ID
	if fault("cancels-other") {
		id = `"` + id + `"`
	}
	if _, err = c.conn.Notify("notifications/cancelled", `{"requestId":`+id+`}`); err != nil {
		return err
	}
	_, err = c.conn.Request("tools/list", "")
	return err
}

// breaking changes the client's requests by the fault.
func breaking(to *url.URL, door string) http.Handler {
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body := string(raw)
		m, _ := peer.ReadMessage(body)
		switch {
		case fault("endpoint") && r.Method == "POST" && m.Kind() == peer.IsNotification:
			r.URL.Path, r.URL.RawQuery = door, ""
		case fault("accept") && r.Method == "POST":
			r.Header.Set("Accept", "application/json")
		case fault("version"):
			r.Header.Del("Mcp-Protocol-Version")
		case fault("newest"):
			r.Header.Set("Mcp-Protocol-Version", peer.R2511)
		case fault("array") && m.Kind() == peer.IsNotification:
			body = "[" + body + "]"
		case fault("array") && m.Method == "tools/list" && m.Object != nil && r.Header.Get("Mcp-Method") != "":
			body = "[" + body + "]"
		case fault("initialized") && m.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
			return
		case fault("session") && m.Method == "tools/call":
			r.Header.Del("Mcp-Session-Id")
		case fault("delete") && r.Method == "DELETE":
			return
		case fault("get-accept") && r.Method == "GET":
			r.Header.Set("Accept", "*/*")
		case fault("method"):
			r.Header.Set("Mcp-Method", "tools/list")
		case fault("name") && m.Method == "tools/call":
			r.Header.Set("Mcp-Name", "other")
		case fault("meta"):
			body = strings.Replace(body, peer.MetaCapabilities, "capabilities", 1)
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		forward.ServeHTTP(w, r)
	})
}

// asOther runs the client or the mock server, if the test's program was started as one.
func asOther() {
	switch {
	case os.Getenv(relayName) != "":
		os.Exit(Relay(os.Args[len(os.Args)-1], os.Stdin, os.Stdout, os.Stderr))
	case os.Getenv(clientName) == "":
		return
	}
	if err := beClient(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if !within("unknown-result") {
			os.Exit(1)
		}
	}
	os.Exit(0)
}
