package decision

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// point is a decision point that counts its connections.
type point struct {
	*httptest.Server
	connections atomic.Int64
}

func newPoint(t *testing.T, tls bool, handle http.HandlerFunc) *point {
	t.Helper()
	p := &point{Server: httptest.NewUnstartedServer(handle)}
	p.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.connections.Add(1)
		}
	}
	if tls {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func newClient(t *testing.T, opt Options) *Client {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = testkit.Patient
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.host.Close() })
	return c
}

// A question is a POST of JSON to the path of the URL, with its query, the headers that were set, and the trace of its context.
func TestAsk(t *testing.T) {
	const question = `{"input":{}}`
	p := newPoint(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.RequestURI != "/v1/data/mcp?pretty=false" || string(body) != question || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json" ||
			r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("Traceparent") != "00-x" {
			t.Errorf("%s %s %v %s", r.Method, r.RequestURI, r.Header, body)
		}
		_, _ = w.Write([]byte(`{"result":true}`))
	})
	c := newClient(t, Options{URL: p.URL + "/v1/data/mcp?pretty=false", Headers: []httpclient.Header{{Name: "Authorization", Value: "Bearer t"}}})
	for range 3 {
		if got, err := c.Ask(proxy.WithTrace(t.Context(), &proxy.Trace{Parent: "00-x"}), []byte(question)); err != nil || string(got) != `{"result":true}` {
			t.Errorf("%s %v", got, err)
		}
	}
	if n := p.connections.Load(); n != 1 {
		t.Errorf("%d connections for questions in a row", n)
	}
}

// An answer with another status than 200 is an error. No redirect is followed.
func TestStatuses(t *testing.T) {
	var other atomic.Int64
	there := newPoint(t, false, func(http.ResponseWriter, *http.Request) { other.Add(1) })
	for _, status := range []int{201, 204, 301, 302, 303, 307, 308, 400, 404, 500, 503} {
		p := newPoint(t, false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", there.URL)
			w.WriteHeader(status)
		})
		got, err := newClient(t, Options{URL: p.URL}).Ask(t.Context(), nil)
		if !errors.Is(err, StatusError(status)) || got != nil || !strings.Contains(err.Error(), "the decision point answered HTTP ") {
			t.Errorf("%d: %q %v", status, got, err)
		}
	}
	if other.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// An answer has at most 64 KiB.
func TestLargeAnswers(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		for size, ok := range map[int]bool{maxAnswer: true, maxAnswer + 1: false} {
			p := newPoint(t, false, func(w http.ResponseWriter, _ *http.Request) {
				if chunked {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(make([]byte, size))
			})
			if got, err := newClient(t, Options{URL: p.URL}).Ask(t.Context(), nil); ok != (err == nil) || ok && len(got) != size {
				t.Errorf("%d bytes, chunked: %v: %d bytes, %v", size, chunked, len(got), err)
			}
		}
	}
}

// A question ends with its context, whatever it waits for, and fails with the cause of that. Its request is broken off.
func TestQuestionsEnd(t *testing.T) {
	why := errors.New("enough")
	for name, handle := range map[string]func(w http.ResponseWriter){
		"for the head": func(http.ResponseWriter) {},
		"for the body": func(w http.ResponseWriter) { _, _ = w.Write([]byte("{")); w.(http.Flusher).Flush() },
	} {
		reached, left := make(chan struct{}), make(chan struct{})
		p := newPoint(t, false, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			handle(w)
			close(reached)
			<-r.Context().Done()
			close(left)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error, 1)
		c := newClient(t, Options{URL: p.URL})
		go func() {
			_, err := c.Ask(ctx, []byte("{}"))
			errs <- err
		}()
		testkit.Receive(t, "the question", reached)
		cancel(why)
		if err := testkit.Receive(t, "the end of the question", errs); !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
		testkit.Receive(t, "the end at the decision point", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	hole := testkit.Listen(t) // accepts, and says nothing
	if _, err := newClient(t, Options{URL: "http://" + hole.Addr().String()}).Ask(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question without an answer: %v", err)
	}
}

// A question whose connection breaks before an answer begins is asked once more.
func TestBrokenConnections(t *testing.T) {
	for breaks, ok := range map[int64]bool{1: true, 2: false} {
		var asked atomic.Int64
		p := newPoint(t, false, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			if asked.Add(1) <= breaks {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte("{}"))
		})
		if got, err := newClient(t, Options{URL: p.URL}).Ask(t.Context(), nil); ok != (err == nil) || ok && string(got) != "{}" || asked.Load() != 2 {
			t.Errorf("%d breaks: %q %v, asked %d times", breaks, got, err, asked.Load())
		}
	}
	var asked atomic.Int64
	p := newPoint(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		asked.Add(1)
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, err := newClient(t, Options{URL: p.URL}).Ask(t.Context(), nil); err == nil || asked.Load() != 1 {
		t.Errorf("a broken answer: %v, asked %d times", err, asked.Load())
	}
	refused := newPoint(t, false, nil)
	refused.Close()
	if _, err := newClient(t, Options{URL: refused.URL}).Ask(t.Context(), nil); err == nil || errors.As(err, new(StatusError)) {
		t.Errorf("no decision point: %v", err)
	}
}

// Many questions at a time are answered, over connections that are used again.
func TestManyQuestions(t *testing.T) {
	p := newPoint(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	c := newClient(t, Options{URL: p.URL})
	const each = 50
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range each {
				if got, err := c.Ask(t.Context(), []byte("{}")); err != nil || string(got) != "{}" {
					t.Errorf("%q %v", got, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := p.connections.Load(); n > 2*8 {
		t.Errorf("%d connections for 8 askers", n)
	}
}

// More questions than may be asked at a time wait, in their own time.
func TestQuestionsWait(t *testing.T) {
	free, reached := make(chan struct{}), make(chan struct{}, 3*atATime)
	p := newPoint(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		reached <- struct{}{}
		<-free
		_, _ = w.Write([]byte("{}"))
	})
	c := newClient(t, Options{URL: p.URL})
	errs := make(chan error, 2*atATime)
	for range 2 * atATime {
		go func() {
			_, err := c.Ask(t.Context(), []byte("{}"))
			errs <- err
		}()
	}
	for range atATime {
		testkit.Receive(t, "a question", reached)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Ask(ctx, []byte("{}")); !errors.Is(err, context.DeadlineExceeded) || len(reached) != 0 {
		t.Errorf("one more: %v; %d more were asked", err, len(reached))
	}
	close(free)
	for range 2 * atATime {
		if err := testkit.Receive(t, "an answer", errs); err != nil {
			t.Error(err)
		}
	}
	if n := p.connections.Load(); n != atATime {
		t.Errorf("%d connections", n)
	}
}

// The decision point may listen at a Unix socket, and over TLS with a root of its own.
func TestPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opa.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	saw := make(chan string, 1)
	unix := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw <- r.URL.Path
		_, _ = w.Write([]byte("{}"))
	}), ReadHeaderTimeout: testkit.Patient}
	go func() { _ = unix.Serve(ln) }()
	t.Cleanup(func() { _ = unix.Close() })
	for _, at := range []string{"unix:" + path + ":/v1/data/mcp", "unix://" + path + ":/v1/data/mcp"} {
		if got, err := newClient(t, Options{URL: at}).Ask(t.Context(), nil); err != nil || string(got) != "{}" {
			t.Errorf("%s: %q %v", at, got, err)
		}
		if got := testkit.Receive(t, "the question", saw); got != "/v1/data/mcp" {
			t.Errorf("asked at %s", got)
		}
	}
	p := newPoint(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	roots := testkit.WriteFile(t, "roots.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})))
	if got, err := newClient(t, Options{URL: p.URL, CAFile: roots}).Ask(t.Context(), nil); err != nil || string(got) != "{}" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := newClient(t, Options{URL: p.URL}).Ask(t.Context(), nil); err == nil {
		t.Error("a certificate of nobody is trusted")
	}
	if _, err := New(Options{URL: "ftp://x"}); err == nil {
		t.Error("a URL of another scheme is taken")
	}
}
