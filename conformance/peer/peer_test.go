package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFields(t *testing.T) {
	f := Fields{{"A", "1"}, {"B", "2"}, {"b", "3"}}.With(Field{"B", "4"}, Drop("a"), Field{"C", "5"}, Field{"C", "6"})
	if got := fmt.Sprint(f); got != "[{B 4} {C 5} {C 6}]" {
		t.Error(got)
	}
}

func TestReadMessage(t *testing.T) {
	for raw, want := range map[string]Kind{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`: IsRequest, `{"method":"m"}`: IsNotification, `{"id":1,"result":null}`: IsResponse, `{"error":{}}`: IsResponse,
		`{"Method":"m"}`: Neither, `[]`: Neither, `null`: Neither, `{"method":1}`: Neither, ``: Neither, `{`: Neither} {
		m, err := ReadMessage(raw)
		if m.Kind() != want || (err == nil) != (m.Object != nil) || m.Raw != raw {
			t.Errorf("%s: %v, %v", raw, m.Kind(), err)
		}
	}
	m, _ := ReadMessage(`{"id":12345678901234567890,"error":{"code":-32602,"message":"x","data":{"a":[{"b":"c"}]}}}`)
	code, message, data := m.Error()
	if string(m.ID) != "12345678901234567890" || code != -32602 || message != "x" || Text(data, "a", "0", "b") != "c" || Get(data, "a", "1") != nil || List(data, "a") == nil {
		t.Errorf("%+v", m)
	}
	if got := Encode(Object{"a": "<&>"}); got != `{"a":"<&>"}` {
		t.Error(got)
	}
}

// In a legacy session each request has the session id, requests of the server are answered, messages are dispatched by stream and call,
// and Close ends the session.
func TestLegacySession(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		m, _ := ReadMessage(string(raw))
		mu.Lock()
		heard = append(heard, r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Mcp-Protocol-Version")+" "+m.Method)
		mu.Unlock()
		stream := func(text string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		switch {
		case r.Method == "GET":
			stream("data: {\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
		case m.Method == "tools/call":
			stream("id: 0\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\n\nevent: other\ndata: x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n")
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer srv.Close()
	h := NewHTTP(srv.URL, Fields{{"Authorization", "s3cret"}}, nil)
	defer h.Close()
	var evidence strings.Builder
	var received []string
	c, err := (&Target{HTTP: h}).Open(t.Context(), Settings{Face: LegacyHTTP, Revision: R2511,
		Watch: func(d byte, where, text string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&evidence, "%c %s %s\n", d, where, text)
		},
		Received: func(m Message, answers string) {
			mu.Lock()
			defer mu.Unlock()
			received = append(received, m.Method+answers)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Agreed != R2506 || c.Session != "s1" || !c.Listens() {
		t.Errorf("%+v", c)
	}
	if _, err := c.WaitOther(func(m Message) bool {
		return m.Method == "notifications/tools/list_changed" && m.Where == "the GET stream"
	}); err != nil {
		t.Error(err)
	}
	call, err := c.Start("tools/call", `{"name":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := call.Wait(); err != nil || m.Where != "the response" || !call.WaitEnd() || len(call.Got()) != 2 || call.Status != 200 {
		t.Errorf("%+v %v %+v", m, err, call.Got())
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { // the answer to ping is on its way
		mu.Lock()
		answered := len(heard) >= 5
		mu.Unlock()
		if answered || time.Now().After(end) {
			break
		}
	}
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"POST   initialize", "GET s1 2025-06-18 ", "POST s1 2025-06-18 notifications/initialized", "POST s1 2025-06-18 tools/call", "POST s1 2025-06-18 ", "DELETE s1 2025-06-18 "} {
		found := false
		for _, h := range heard {
			found = found || h == want
		}
		if !found {
			t.Errorf("not heard: %q of %q", want, heard)
		}
	}
	if got := strings.Join(received, " "); !strings.Contains(got, "initialize") || !strings.Contains(got, "ping tools/call") {
		t.Error(got)
	}
	if strings.Contains(evidence.String(), "s3cret") || !strings.Contains(evidence.String(), `> HTTP POST`) {
		t.Error(evidence.String())
	}
}

// pipe is a program in memory.
type pipe struct {
	in   chan string
	out  chan string
	once sync.Once
}

func (p *pipe) Spawn(context.Context, func(string)) (Lines, error) { return p, nil }
func (p *pipe) Write(line []byte) error                            { p.in <- string(line); return nil }
func (p *pipe) Stop() (string, bool) {
	p.once.Do(func() { close(p.in); close(p.out) })
	return "exit 0", false
}
func (p *pipe) ReadLine() ([]byte, error) {
	line, ok := <-p.out
	if !ok {
		return nil, io.EOF
	}
	return []byte(line), nil
}

// Lines of a shared stream are dispatched to their calls; others are kept; its end fails the waiting calls.
func TestLinesAreSorted(t *testing.T) {
	p := &pipe{in: make(chan string, 8), out: make(chan string, 8)}
	target := &Target{Program: p, Timeout: 5 * time.Second}
	c, err := target.Open(t.Context(), Settings{Face: ModernStdio, Revision: R2607, LogLevel: "info", Capabilities: `{"roots":{}}`})
	if err != nil {
		t.Fatal(err)
	}
	one, _ := c.Start("a", "")
	two, _ := c.StartAs(`"x"`, "b", `{"p":1}`)
	first, _ := ReadMessage(<-p.in)
	second, _ := ReadMessage(<-p.in)
	if Text(first.Params(), "_meta", MetaVersion) != R2607 || Text(first.Params(), "_meta", MetaLogLevel) != "info" || Get(second.Params(), "_meta", MetaCapabilities, "roots") == nil || string(second.ID) != `"x"` {
		t.Errorf("%s %s", first.Raw, second.Raw)
	}
	p.out <- `{"id":"x","result":{}}`
	p.out <- `{"method":"notifications/progress","params":{"progressToken":"1"}}`
	p.out <- `not JSON`
	p.out <- `{"id":1,"result":{"n":1}}`
	if m, err := one.Wait(); err != nil || len(one.Got()) != 2 || fmt.Sprint(m.Result()["n"]) != "1" {
		t.Errorf("%+v %v", one.Got(), err)
	}
	if m, err := two.Wait(); err != nil || string(m.ID) != `"x"` {
		t.Errorf("%+v %v", m, err)
	}
	if _, err := c.WaitOther(func(m Message) bool { return m.Raw == "not JSON" }); err != nil {
		t.Error(err)
	}
	three, _ := c.Start("c", "")
	three.Cancel()
	<-p.in
	if m := <-p.in; !strings.Contains(m, `"notifications/cancelled","params":{"requestId":2}`) {
		t.Error(m)
	}
	p.Stop()
	if _, err := three.Wait(); err == nil || !strings.Contains(err.Error(), "ended its output") {
		t.Error(err)
	}
	if end, forced := c.Close(); end != "exit 0" || forced {
		t.Error(end, forced)
	}
}

// A silent program costs no more than the timeout; one that cannot be started is an error.
func TestSilence(t *testing.T) {
	p := &pipe{in: make(chan string, 8), out: make(chan string, 8)}
	if _, err := (&Target{Program: p, Timeout: 20 * time.Millisecond}).Open(t.Context(), Settings{Face: LegacyStdio, Revision: R2511}); err == nil || !strings.Contains(err.Error(), "initialize: nothing came within 60ms") {
		t.Error(err)
	}
	if _, err := (&Target{Program: Command{Argv: []string{"/no/such/program"}}}).Open(t.Context(), Settings{Face: LegacyStdio, Revision: R2511}); err == nil {
		t.Error("it was started")
	}
	if _, err := (&Target{Program: p}).Open(t.Context(), Settings{Face: LegacyHTTP}); !errors.Is(err, errNoFace) {
		t.Error(err)
	}
}

// The error of a real child has its stderr, and Close returns its exit code.
func TestChild(t *testing.T) {
	c, err := (&Target{Program: Command{Argv: []string{"sh", "-c", `echo oops >&2; read x; exit 3`}}, Timeout: 5 * time.Second}).Open(t.Context(), Settings{Face: ModernStdio, Revision: R2607})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Request("a", "")
	if err == nil || !strings.Contains(err.Error(), "it said last: oops") {
		t.Error(err)
	}
	if end, forced := c.Close(); forced || !strings.Contains(end, "3") {
		t.Error(end, forced)
	}
}
