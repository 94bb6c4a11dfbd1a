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
	"slices"
	"strings"
	"time"

	"dragoman/conformance/peer"
)

// The client of the tests is this test's own program, started anew. What it does wrong stands in the variable breakName.
const (
	clientName = "MOCK_TEST_CLIENT"
	breakName  = "MOCK_TEST_BREAK"
)

// fault is what a client does wrong.
func fault(name string) bool { return os.Getenv(breakName) == name }

// beClient is a client: it connects, lists the tools, calls each, and ends.
func beClient(endpoint string) error {
	box := httptest.NewServer(breaking(endpoint))
	defer box.Close()
	h := peer.NewHTTP(box.URL+"/mcp", nil, nil)
	defer h.Close()
	c := &testClient{http: h, target: &peer.Target{HTTP: h, Timeout: 5 * time.Second}, revision: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")}
	if err := c.open(); err != nil {
		return err
	}
	defer func() { c.conn.Close() }()
	tools, err := c.list()
	if err != nil {
		return err
	}
	for _, name := range tools {
		if err := c.use(name); err != nil {
			return err
		}
	}
	if fault("ping") || os.Getenv("MCP_CONFORMANCE_SCENARIO") != "streams" || c.revision == peer.R2607 {
		return nil
	}
	_, err = c.conn.Request("tools/list", "") // by then the pings are answered
	return err
}

type testClient struct {
	http     *peer.HTTP
	target   *peer.Target
	conn     *peer.Conn
	revision string
}

func (c *testClient) open() (err error) {
	s := peer.Settings{Face: peer.LegacyHTTP, Revision: c.revision, Capabilities: `{"elicitation":{}}`}
	if c.revision == peer.R2607 {
		s.Face = peer.ModernHTTP
	}
	if fault("ping") {
		s.Answer = func(peer.Message) string { return "" }
	}
	c.conn, err = c.target.Open(context.Background(), s)
	if err == nil && fault("legacy-ways") {
		_, _ = c.conn.Request("ping", "")
	}
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

// use calls a tool, and does what its answer asks for.
func (c *testClient) use(name string) error {
	if fault("streams") && os.Getenv("MCP_CONFORMANCE_SCENARIO") == "streams" {
		return errors.New("an answer that is no JSON")
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
	case os.Getenv("MCP_CONFORMANCE_SCENARIO") == "sse-retry" && err != nil:
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

// breaking stands between client and mock, and makes the client's requests wrong.
func breaking(endpoint string) http.Handler {
	to, _ := url.Parse(endpoint)
	to.Path = ""
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body := string(raw)
		m, _ := peer.ReadMessage(body)
		switch {
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

// asClient makes the test's program a client, if it was started as one.
func asClient() {
	if os.Getenv(clientName) == "" {
		return
	}
	if err := beClient(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if !slices.Contains([]string{"unknown-result"}, os.Getenv("MCP_CONFORMANCE_SCENARIO")) {
			os.Exit(1)
		}
	}
	os.Exit(0)
}
