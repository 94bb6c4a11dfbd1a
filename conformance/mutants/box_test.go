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

	"dragoman/adapters/eventstream"
	"dragoman/conformance/peer"
)

// mutant is a server that is broken in one way.
type mutant struct {
	name   string      // what it does wrong
	caught string      // the check that has to see it
	faces  []peer.Face // where it is tried; nil: where the check is for, the first of them
	at     string      // the revision; empty: the newest of the face
	seen   []string    // of messages.shape: the checks whose messages it is to be seen in

	tasks, guarded bool // it stands before the sound server of tasks, or that which wants a token

	// request changes what the server is told, or answers in its place by calling x.reply; nil: nothing of it.
	request func(x *exchange)
	// message says what becomes of a message of the server's: it is given as it is, changed, several times, or not at all. It may be
	// called from several goroutines. nil: as it is.
	message func(x *exchange, m peer.Message) []string
	// head changes the head of a response (HTTP alone).
	head func(x *exchange, status *int, h http.Header)
	// event changes an event as it goes over the wire, after message (event streams alone); nil: as it is.
	event func(x *exchange, e *peer.Event)
	// end is called when the server has ended its stream or its output; what it gives is said after the end of the response.
	end func(x *exchange) []string
	// deaf has a stdio server that ends neither at the end of its input nor otherwise, but by force.
	deaf bool
}

// exchange is one request of a client, or one line.
type exchange struct {
	*http.Request              // nil on stdio
	body          string       // as the server will get it
	asked         peer.Message // as the client has sent it
	method        string       // of asked
	state         *state       // of the mutant, for all exchanges
	replied       bool
	status        int
	header        http.Header
	text          string
	drop          bool          // the server is not told
	feed          <-chan string // nil, or the data of the events that are said in the server's place, until the client goes
}

// state is what a mutant remembers, for all that it meets.
type state struct {
	mu    sync.Mutex
	n     map[string]int
	asked map[string]*exchange // by id, what was posted
}

// ask remembers a request: its answer may come on another's stream.
func (s *state) ask(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]*exchange)
	}
	s.asked[string(x.asked.ID)] = x
}

// of is the exchange to which a message on x's stream belongs: that of its request, if x is a GET.
func (s *state) of(x *exchange, m peer.Message) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if y := s.asked[string(m.ID)]; y != nil && x.method == "" && m.Kind() == peer.IsResponse {
		return y
	}
	return x
}

// count counts under a name and gives the number so far, from 1 on.
func (s *state) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[name]++
	return s.n[name]
}

// reply answers in the server's place. On stdio status and kind mean nothing; an empty text is no answer.
func (x *exchange) reply(status int, kind, text string) {
	x.replied, x.status, x.text, x.header = true, status, text, http.Header{}
	if kind != "" {
		x.header.Set("Content-Type", kind)
	}
}

// box is the middlebox before an HTTP server.
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

// through takes one request to the server and its response back.
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
		feed(w, r, x.feed)
		return
	}
	// The server is loopback: who is foreign to the middlebox has to be foreign to it, and who is local, local.
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
	// What a mutant does to a response may be to break it off.
	defer func() {
		if e := recover(); e != nil && e != http.ErrAbortHandler { //nolint:errorlint // it is that value
			panic(e)
		}
	}()
	forward.ServeHTTP(w, r)
}

// feed is an event stream of the mutant's own.
func feed(w http.ResponseWriter, r *http.Request, from <-chan string) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for {
		_ = flush.Flush()
		select {
		case data := <-from:
			_, _ = io.WriteString(w, "data: "+data+"\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// alter puts the mutant's hand on a response.
func alter(x *exchange, m *mutant, res *http.Response) {
	if m.head != nil {
		m.head(x, &res.StatusCode, res.Header)
		res.Status = ""
	}
	if m.message == nil && m.event == nil && m.end == nil {
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
	out := said(x, m, string(raw))
	if m.end != nil {
		out = append(out, m.end(x)...)
	}
	res.Body = io.NopCloser(strings.NewReader(strings.Join(out, "")))
}

// said is what becomes of a message.
func said(x *exchange, m *mutant, raw string) []string {
	if m.message == nil || strings.TrimSpace(raw) == "" {
		return []string{raw}
	}
	msg, _ := peer.ReadMessage(raw)
	return m.message(x.state.of(x, msg), msg)
}

// events is an event stream under the mutant's hand.
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
				texts = said(x, m, string(e.Data))
			}
			for _, text := range texts {
				one := peer.Event{Name: string(e.Name), Data: text, ID: string(e.ID), HasID: e.HasID, HasData: e.Data != nil, Retry: e.Retry}
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

// spawner is the middlebox before a program.
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

// lines are those of a program under the mutant's hand.
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
			l.say(x.text)
		}
		return nil
	}
	if x.drop {
		return nil
	}
	return l.Lines.Write([]byte(x.body))
}

func (l *lines) say(text string) {
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
					l.say(text)
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
		for _, text := range said(x, l.m, string(raw)) {
			l.say(text)
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
