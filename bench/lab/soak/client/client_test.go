package client

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a connection on which the given bytes arrive, and then its end.
func connect(t *testing.T, bytes string) *Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer l.Close() // not before Accept: a connection that waits to be accepted would be reset
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, bytes)
			_ = c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := Dial(ctx, l.Addr().String())
	if err != nil {
		_ = l.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		<-served
	})
	return c
}

const (
	jsonHead   = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\n"
	eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunked    = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
)

func TestBodies(t *testing.T) {
	f := func(response, want string, fails bool) {
		t.Helper()
		c := connect(t, response)
		h, err := c.Head()
		if err != nil {
			t.Fatal(err)
		}
		got, err := All(c.Body(h))
		if string(got) != want || (err != nil) != fails {
			t.Errorf("%q: %q, %v", response, got, err)
		}
	}
	f("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abc", false)
	f("HTTP/1.1 202 Accepted\r\n\r\nabc", "", false)
	f(chunked+"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\nrest", "abcde", false)
	f(chunked+"3\r\nabc\r\n", "abc", true) // without the last chunk
	f(chunked+"3\r\nab", "ab", true)
	f(chunked+"x\r\nab", "", true)
	f(chunked+"-1\r\nab", "", true)
}

func TestHead(t *testing.T) {
	if h, err := connect(t, jsonHead+"\r\n").Head(); err != nil || h.Status != 200 || h.Type != "application/json" || h.Session != "s1" {
		t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range []string{"", "SSH-2.0\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n"} {
		if h, err := connect(t, bad).Head(); err == nil {
			t.Errorf("%q: %+v", bad, h)
		}
	}
}

func TestEvents(t *testing.T) {
	events := NewEvents(strings.NewReader(": comment\n\nevent: endpoint\ndata: /x\n\nid: 1\ndata:\n\ndata: a\r\ndata:b\r\n\r\ndata: cut"))
	for _, want := range []Event{{"endpoint", "/x"}, {"", "a\nb"}} {
		if got, err := events.Next(); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if got, err := events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestExchange(t *testing.T) {
	call := Call{Want: "yes"}
	f := func(response string, want error) {
		t.Helper()
		m, _, err := connect(t, response).Exchange("1", nil)
		if err == nil {
			err = call.check(m)
		}
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", response, err, want)
		}
	}
	result := func(id, text string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
	}
	whole := func(body string) string { return jsonHead + "Connection: close\r\n\r\n" + body }
	f(whole(result("1", "yes")), nil)
	f(whole(result("2", "yes")), ErrWrong)
	f(whole(result(`"1"`, "yes")), ErrWrong)
	f(whole(result("1", "no")), ErrWrong)
	f(whole(`{"jsonrpc":"2.0","id":1,"result":{}}`), ErrWrong)
	f(eventsHead+"5\r\ndata:\r\n0\r\n\r\n", io.ErrUnexpectedEOF)
	f(eventsHead+"8\r\ndata: x\n\r\n1\r\n\n\r\n0\r\n\r\n", ErrWrong)

	var rpc *RPCError
	_, _, err := connect(t, whole(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m","data":{"code":"upstream_lost"}}}`)).Exchange("1", nil)
	if !errors.As(err, &rpc) || rpc.Name() != "upstream_lost" {
		t.Error(err)
	}
	var status *StatusError
	if _, _, err = connect(t, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno").Exchange("1", nil); !errors.As(err, &status) || status.Status != 502 {
		t.Error(err)
	}
}

// Messages before the response are passed on, and may end the reading.
func TestBeforeTheResponse(t *testing.T) {
	const body = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	response := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body
	var seen []string
	if _, _, err := connect(t, response).Exchange("1", func(m *Message) error { seen = append(seen, m.Method); return nil }); err != nil || len(seen) != 1 {
		t.Error(seen, err)
	}
	enough := errors.New("enough")
	if _, _, err := connect(t, response).Exchange("1", func(*Message) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// That a session has expired is told apart from its loss: the client must have paused.
func TestExpired(t *testing.T) {
	f := func(pause time.Duration, message string, want bool) {
		t.Helper()
		body := `{"jsonrpc":"2.0","error":{"code":-32600,"message":"` + message + `"}}`
		last := time.Now().Add(-pause)
		s := &Legacy{c: connect(t, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"+body), last: &last}
		_, err := s.Stream()
		if err == nil || errors.Is(err, ErrExpired) != want || time.Since(last) > pause {
			t.Errorf("%q after %v: %v", message, pause, err)
		}
	}
	const unknown = "no such session; send initialize"
	f(LongPause+time.Second, unknown, true)
	f(LongPause/2, unknown, false)
	f(LongPause+time.Second, "malformed", false)
}

func TestRequest(t *testing.T) {
	c := &Conn{addr: "h:1"}
	call := Call{Arguments: map[string]int{"a": 1}, Progress: true}
	body, err := call.body("7", `"m":1`)
	if err != nil || body != `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"_meta":{"m":1,"progressToken":"p7"}}}` {
		t.Error(body, err)
	}
	got := c.request("POST", "/mcp", []Header{{"A", "b"}}, "xy")
	want := "POST /mcp HTTP/1.1\r\nHost: h:1\r\nA: b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\nxy"
	if got != want {
		t.Errorf("%q", got)
	}
}
