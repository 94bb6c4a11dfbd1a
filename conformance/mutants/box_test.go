package mutants

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/eventstream"
	"dragoman/conformance/peer"
)

// mutant is a server with one fault.
type mutant struct {
	name   string      // the fault
	caught string      // the check that must catch it
	faces  []peer.Face // nil: the first of the check
	at     string      // the revision; empty: the newest of the face
	seen   []string    // for messages.shape: the checks whose messages have the fault

	tasks, guarded bool // the server behind it is that of tasks, or the one that requires a token

	// request changes a request, or answers in place of the server with x.reply. It may be nil.
	request func(x *exchange)
	// message returns the messages in place of a message of the server: the same one, a changed one, several or none. It may be called
	// concurrently, and may be nil.
	message func(x *exchange, m peer.Message) []string
	// head changes the head of a response (HTTP only).
	head func(x *exchange, status *int, h http.Header)
	// event changes an event after message (event streams only). It may be nil.
	event func(x *exchange, e *peer.Event)
	// end is called when the server has ended its stream or its output. It returns messages to add to the end.
	end func(x *exchange) []string
	// delay delays each event of a stream that has no response of its own, as on a busy machine; the stream keeps its order.
	delay time.Duration
	// deaf is a stdio server that exits only when it is killed.
	deaf bool
}

// exchange is one request of a client, or one line.
type exchange struct {
	*http.Request              // nil on stdio
	body          string       // for the server
	asked         peer.Message // from the client
	method        string       // of asked
	state         *state       // of the mutant, for all exchanges
	replied       bool
	status        int
	header        http.Header
	text          string
	drop          bool          // the server does not get it
	feed          <-chan string // data of events in place of the server's, until the client disconnects; may be nil
}

// state is the state of a mutant for all exchanges.
type state struct {
	mu    sync.Mutex
	n     map[string]int
	asked map[string]*exchange // posted requests by id
}

// ask keeps a request: its answer may come on another stream.
func (s *state) ask(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]*exchange)
	}
	s.asked[string(x.asked.ID)] = x
}

// of returns the exchange of a message on x's stream: that of its request, if x is a GET.
func (s *state) of(x *exchange, m peer.Message) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if y := s.asked[string(m.ID)]; y != nil && x.method == "" && m.Kind() == peer.IsResponse {
		return y
	}
	return x
}

// count increments the counter of a name and returns it.
func (s *state) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[name]++
	return s.n[name]
}

// reply answers in place of the server. On stdio only text counts; "" is no answer.
func (x *exchange) reply(status int, kind, text string) {
	x.replied, x.status, x.text, x.header = true, status, text, http.Header{}
	if kind != "" {
		x.header.Set("Content-Type", kind)
	}
}

// box starts the middlebox in front of an HTTP server.
func box(t *testing.T, m *mutant, server string, always peer.Fields) *peer.HTTP {
	t.Helper()
	all := &state{}
	proxy := func(w http.ResponseWriter, r *http.Request) { through(w, r, m, all, server) }
	srv := httptest.NewServer(http.HandlerFunc(proxy))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	path := strings.TrimPrefix(server, origin(server))
	h := peer.NewHTTP(srv.URL+path, always, nil)
	t.Cleanup(h.Close)
	return h
}

func origin(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// through forwards one request to the server and its response back.
func through(w http.ResponseWriter, r *http.Request, m *mutant, all *state, server string) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	x := &exchange{Request: r, body: string(raw), state: all}
	x.asked, _ = peer.ReadMessage(x.body)
	x.method = x.asked.Method
	if x.asked.ID != nil {
		all.ask(x)
	}
	if m.request != nil {
		m.request(x)
	}
	if x.replied {
		for name, values := range x.header {
			w.Header()[name] = values
		}
		w.WriteHeader(x.status)
		_, _ = io.WriteString(w, x.text)
		return
	}
	if x.feed != nil {
		feed(w, r, x.feed, m.delay)
		return
	}
	// The server is on loopback: a Host is foreign or local there as it is at the middlebox.
	forward := &httputil.ReverseProxy{FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog: nil,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, _ = strings.Cut(origin(server), "://")
			if strings.HasPrefix(p.In.Host, "127.0.0.1:") || strings.HasPrefix(p.In.Host, "localhost:") {
				p.Out.Host = p.Out.URL.Host
			} else {
				p.Out.Host = p.In.Host
			}
			p.Out.Body, p.Out.ContentLength = io.NopCloser(strings.NewReader(x.body)), int64(len(x.body))
			if x.body == "" {
				p.Out.Body = http.NoBody
			}
		},
		ModifyResponse: func(res *http.Response) error { alter(x, m, res); return nil }}
	// A mutant may break a response off.
	defer func() {
		if e := recover(); e != nil && e != http.ErrAbortHandler { //nolint:errorlint // it is that value
			panic(e)
		}
	}()
	forward.ServeHTTP(w, r)
}

// feed serves an event stream of the mutant.
func feed(w http.ResponseWriter, r *http.Request, from <-chan string, delay time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for {
		_ = flush.Flush()
		select {
		case data := <-from:
			time.Sleep(delay) // the mutant is slow
			_, _ = io.WriteString(w, "data: "+data+"\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// alter applies the mutant to a response.
func alter(x *exchange, m *mutant, res *http.Response) {
	if m.head != nil {
		m.head(x, &res.StatusCode, res.Header)
		res.Status = ""
	}
	if m.message == nil && m.event == nil && m.end == nil && m.delay == 0 {
		return
	}
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = events(x, m, res.Body)
		return
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		raw = nil
	}
	out := replaced(x, m, string(raw))
	if m.end != nil {
		out = append(out, m.end(x)...)
	}
	res.Body = io.NopCloser(strings.NewReader(strings.Join(out, "")))
}

// replaced returns the messages in place of a message.
func replaced(x *exchange, m *mutant, raw string) []string {
	if m.message == nil || strings.TrimSpace(raw) == "" {
		return []string{raw}
	}
	msg, _ := peer.ReadMessage(raw)
	return m.message(x.state.of(x, msg), msg)
}

// events applies the mutant to an event stream.
func events(x *exchange, m *mutant, from io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		var split eventstream.Splitter
		split.Reset(64 << 20)
		for {
			e, err := split.Next(from)
			if err != nil {
				if m.end != nil && errors.Is(err, io.EOF) {
					for _, text := range m.end(x) {
						_, _ = w.Write(eventstream.AppendMessage(nil, []byte(text)))
					}
				}
				if errors.Is(err, io.EOF) {
					err = nil
				}
				_ = w.CloseWithError(err)
				return
			}
			if e.Data == nil && !e.HasID && e.Retry < 0 && len(e.Name) == 0 {
				continue
			}
			texts := []string{string(e.Data)}
			if e.IsMessage() && len(e.Data) > 0 {
				texts = replaced(x, m, string(e.Data))
			}
			for _, text := range texts {
				one := peer.Event{Name: string(e.Name), Data: text, ID: string(e.ID), HasID: e.HasID, HasData: e.Data != nil, Retry: e.Retry}
				if x.method == "" || x.method == "subscriptions/listen" {
					time.Sleep(m.delay) // the mutant is slow
				}
				if m.event != nil {
					m.event(x, &one)
				}
				if _, err := w.Write([]byte(one.String() + "\n\n")); err != nil {
					_ = from.Close()
					return
				}
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{r, both{r, from}}
}

type both struct{ one, two io.Closer }

func (b both) Close() error { return errors.Join(b.one.Close(), b.two.Close()) }

// spawner is the middlebox in front of a program.
type spawner struct {
	peer.Spawner
	m   *mutant
	all *state
}

func (s spawner) Spawn(ctx context.Context, stderr func(string)) (peer.Lines, error) {
	inner, err := s.Spawner.Spawn(ctx, stderr)
	if err != nil {
		return nil, err
	}
	l := &lines{Lines: inner, m: s.m, all: s.all, asked: make(map[string]*exchange), out: make(chan string, 1024), stop: make(chan struct{})}
	l.work.Go(l.read)
	return l, nil
}

// lines applies the mutant to the lines of a program.
type lines struct {
	peer.Lines
	m    *mutant
	all  *state
	work sync.WaitGroup
	out  chan string
	stop chan struct{}

	mu    sync.Mutex
	asked map[string]*exchange // by id
}

func (l *lines) Write(line []byte) error {
	x := &exchange{body: string(line), state: l.all}
	x.asked, _ = peer.ReadMessage(x.body)
	x.method = x.asked.Method
	if x.asked.ID != nil {
		l.mu.Lock()
		l.asked[string(x.asked.ID)] = x
		l.mu.Unlock()
	}
	if l.m.request != nil {
		l.m.request(x)
	}
	if x.replied {
		if x.text != "" {
			l.send(x.text)
		}
		return nil
	}
	if x.drop {
		return nil
	}
	return l.Lines.Write([]byte(x.body))
}

func (l *lines) send(text string) {
	select {
	case l.out <- text:
	case <-l.stop:
	}
}

func (l *lines) read() {
	defer close(l.out)
	for {
		raw, err := l.Lines.ReadLine()
		if err != nil {
			if l.m.end != nil {
				for _, text := range l.m.end(&exchange{state: l.all}) {
					l.send(text)
				}
			}
			return
		}
		m, _ := peer.ReadMessage(string(raw))
		l.mu.Lock()
		x := l.asked[string(m.ID)]
		l.mu.Unlock()
		if x == nil || m.Kind() != peer.IsResponse {
			x = &exchange{state: l.all}
		}
		for _, text := range replaced(x, l.m, string(raw)) {
			l.send(text)
		}
	}
}

func (l *lines) ReadLine() ([]byte, error) {
	line, ok := <-l.out
	if !ok {
		return nil, io.EOF
	}
	return []byte(line), nil
}

func (l *lines) Stop() (string, bool) {
	close(l.stop)
	end, forced := l.Lines.Stop()
	l.work.Wait()
	if l.m.deaf {
		return "signal: killed", true
	}
	return end, forced
}
