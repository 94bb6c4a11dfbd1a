package rest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func newRequest(ctx context.Context, url string) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("{}"))
}

const stream200 = "text/event-stream"

// Progress and log messages arrive as they come, then the envelope; the request asks for both.
func TestStream(t *testing.T) {
	r := newRig(t, nil)
	closed := make(chan struct{})
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return &scriptedReplies{ex: ex, closed: closed, msgs: []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`,
			"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\n\"data\":1}}",
			`{"jsonrpc":"2.0","method":"notifications/other","params":{"x":1}}`,
			`{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`}}, nil
	})
	res := r.send("POST", "/call-tool?log_level=debug", `{"tool":"plain","arguments":{},"request_id":"`+callerID+`"}`, "Accept", stream200)
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := "event: progress\ndata: {\"progressToken\":\"" + callerID + "\",\"progress\":1}\n\n" +
		"event: log\ndata: {\"level\":\"info\",\ndata: \"data\":1}\n\n" +
		"event: notification\ndata: {\"method\":\"notifications/other\",\"params\":{\"x\":1}}\n\n" +
		"event: result\ndata: {\"success\":true,\"data\":{\"content\":[]},\"request_id\":\"" + callerID + "\"," + stamp + "}}\n\n"
	if string(raw) != want || res.StatusCode != 200 || res.Header.Get("Content-Type") != stream200 || res.Header.Get("X-Request-ID") != callerID {
		t.Errorf("%d %v\n%s\nwant\n%s", res.StatusCode, res.Header, raw, want)
	}
	<-closed
	m := &r.s.all("tools/call")[0].Msg
	if got := string(m.Of(m.Token)) + string(m.Of(m.LogLevel)); got != `"`+callerID+`""debug"` {
		t.Error(got)
	}
}

// Which log messages a stream asks for, and when an answer is a stream.
func TestStreamWanted(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("prompts/get", `{}`)
	f := func(path, body, accept, level string) {
		t.Helper()
		res := r.send("POST", path, body, "Accept", accept)
		_, _ = io.Copy(io.Discard, res.Body)
		streams := res.Header.Get("Content-Type") == stream200
		all := r.s.all("prompts/get")
		m := &all[len(all)-1].Msg
		if got := string(m.Text(m.LogLevel)); got != level || streams != (level != "") || m.Token.Present() != streams {
			t.Errorf("%s, Accept %q: stream %v, level %q, want %q", body, accept, streams, got, level)
		}
	}
	f("/get-prompt", `{"name":"p"}`, stream200, "info")
	f("/get-prompt", `{"name":"p","log_level":"error"}`, stream200, "error")
	f("/get-prompt?log_level=alert", `{"name":"p"}`, stream200, "alert")
	f("/get-prompt", `{"name":"p","log_level":"error"}`, "application/json", "")
	f("/get-prompt", `{"name":"p"}`, "*/*", "")
	f("/get-prompt", `{"name":"p"}`, "application/json, text/event-stream", "")
	f("/get-prompt", `{"name":"p"}`, "text/event-stream, application/json", "")
	f("/get-prompt", `{"name":"p"}`, "text/event-stream, */*", "info")
	f("/get-prompt", `{"name":"p"}`, "application/json;q=0.5, text/event-stream", "info")
	f("/get-prompt", `{"name":"p"}`, "text/event-stream;q=0", "")
	f("/mcp/prompts/get", `{"name":"p","_meta":{"io.modelcontextprotocol/logLevel":"notice"}}`, stream200, "notice")
	if status, got := r.got("POST", "/get-prompt?log_level=loud", `{"name":"p"}`); status != 400 || !strings.Contains(got, "log_level") {
		t.Errorf("%d %s", status, got)
	}
}

// An error on a stream is its result; before the call it is a plain answer.
func TestStreamFailure(t *testing.T) {
	r := newRig(t, nil)
	f := func(status int, want string) {
		t.Helper()
		if s, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`, "Accept", stream200); s != status || !strings.HasPrefix(got, want) {
			t.Errorf("%d %s", s, got)
		}
	}
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return failed(ex, `{"code":-32602,"message":"m"}`), nil
	})
	f(200, "event: result\ndata: {\"success\":false,\"error\":\"m\",\"code\":\"INVALID_ARGUMENTS\"")
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return broken{proxy.Errf(proxy.BadAnswer, "gone")}, nil
	})
	f(200, "event: result\ndata: {\"success\":false,\"error\":\"gone\",\"code\":\"EXECUTION_ERROR\"")
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.Unreachable, "gone") })
	f(503, "{\"success\":false,\"error\":\"gone\"")
	r = newRig(t, func(o *Options) { o.Cap, o.KeepAlive = 50*time.Millisecond, 10*time.Millisecond })
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return &scriptedReplies{ex: ex, msgs: []string{""}, closed: make(chan struct{})}, nil
	})
	f(200, ": keep-alive\n\n")
	_, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`, "Accept", stream200)
	if !strings.Contains(got, `"code":"TIMEOUT"`) || !strings.HasSuffix(got, "}}\n\n") {
		t.Error(got)
	}
	status, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`)
	if status != 504 || !strings.Contains(got, "limits.request_time") {
		t.Errorf("%d %s", status, got)
	}
}

type broken struct{ err error }

func (b broken) Next(time.Time) (*wire.Message, error) { return nil, b.err }
func (b broken) Close() error                          { return nil }

// Closing the connection cancels the call, streamed or not.
func TestLeaving(t *testing.T) {
	for _, accept := range []string{"application/json", stream200} {
		r := newRig(t, nil)
		calls, closed := make(chan *proxy.Exchange, 1), make(chan struct{})
		r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
			calls <- ex
			return &scriptedReplies{ex: ex, msgs: []string{""}, closed: closed}, nil
		})
		ctx, leave := context.WithCancel(t.Context())
		req, _ := newRequest(ctx, r.base+"/tools/plain")
		req.Header.Set("Accept", accept)
		over := make(chan struct{})
		go func() {
			defer close(over)
			if res, err := r.http.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
		ex := <-calls
		leave()
		<-over
		select {
		case <-ex.Done():
		case <-time.After(testkit.Patient):
			t.Fatalf("%s: not cancelled", accept)
		}
		<-closed
		if ex.Err() != proxy.ErrCancelled {
			t.Errorf("%s: %v", accept, ex.Err())
		}
	}
}

// A listen lasts until the proxy is about to stop.
func TestListenDrains(t *testing.T) {
	draining, drain := context.WithCancel(context.Background())
	r := newRig(t, func(o *Options) { o.Draining, o.Cap, o.KeepAlive = draining, 20*time.Millisecond, 5*time.Millisecond })
	r.s.set("subscriptions/listen", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return &scriptedReplies{ex: ex, closed: make(chan struct{}), msgs: []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`, ""}}, nil
	})
	res := r.send("POST", "/mcp/subscriptions/listen", `{"notifications":{}}`, "Accept", stream200)
	lines := bufio.NewScanner(res.Body)
	comments, rest := 0, ""
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			if comments++; comments == 10 { // longer than the deadline of other requests
				drain()
			}
			continue
		}
		rest += lines.Text() + "|"
	}
	drain()
	if !strings.HasPrefix(rest, `event: notification|data: {"method":"notifications/subscriptions/acknowledged","params":{}}||`) ||
		!strings.Contains(rest, `event: result|data: {"resultType":"complete",`) || comments < 10 {
		t.Errorf("%d comments, %s", comments, rest)
	}
}
