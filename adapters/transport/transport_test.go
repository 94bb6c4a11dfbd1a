package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func scan(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return &m
}

// fakeLink answers each request with a result, after a time, or never.
type fakeLink struct {
	answer string // $ID in place of the id; empty: none
	after  time.Duration
	err    error
	words  string
	seen   []string
	ex     *proxy.Exchange
}

func (l *fakeLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.seen, l.ex = append(l.seen, string(ex.Msg.Append(nil))), ex
	if l.err != nil {
		return nil, l.err
	}
	return &fakeReplies{l: l, ex: ex, due: time.Now().Add(l.after)}, nil
}
func (l *fakeLink) Send(context.Context, []byte) error { return nil }
func (l *fakeLink) Close() error                       { return nil }
func (l *fakeLink) LastWords() string                  { return l.words }

type fakeReplies struct {
	l   *fakeLink
	ex  *proxy.Exchange
	due time.Time
}

func (r *fakeReplies) Next(until time.Time) (*wire.Message, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	var due <-chan time.Time
	if r.l.answer != "" {
		due = time.After(time.Until(r.due))
	}
	select {
	case <-due:
		return proxy.Scanned([]byte(strings.ReplaceAll(r.l.answer, "$ID", string(r.ex.Msg.Of(r.ex.Msg.ID)))))
	case <-late:
		return nil, proxy.ErrNotYet
	case <-r.ex.Done():
		return nil, r.ex.Err()
	}
}

func (r *fakeReplies) Close() error { return nil }

// Ask returns the response, error responses included, and fails with a timeout that names the method when the context ends first.
func TestAsk(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":$ID,"result":{}}`
	for _, c := range []struct {
		link   fakeLink
		cancel bool
		want   string
	}{
		{fakeLink{answer: result}, false, ""},
		{fakeLink{answer: result, after: 999 * time.Millisecond}, false, ""},
		{fakeLink{answer: `{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"no"}}`}, false, ""},
		{fakeLink{}, false, "no answer to ping in time"},
		{fakeLink{words: "; it wrote: x"}, false, "no answer to ping in time; it wrote: x"},
		{fakeLink{answer: result, after: time.Hour}, true, "context canceled"},
		{fakeLink{err: proxy.Errf(proxy.Unreachable, "down")}, false, "down"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if c.cancel {
				time.AfterFunc(time.Second/2, stop)
			}
			ex, err := NewExchange(proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Ask(ctx, &c.link, ex)
			var e *proxy.Error
			switch {
			case c.want == "" && (err != nil || !m.IsResponse()):
				t.Errorf("%v, %s", err, m.Raw)
			case strings.HasPrefix(c.want, "no answer") && (!errors.As(err, &e) || e.Name != proxy.UpstreamTimeout.Name || e.Message != c.want):
				t.Errorf("%v, want %s", err, c.want)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// A request of no client carries the forwarded headers of its context; one that has headers keeps them.
func TestAskForwardsHeaders(t *testing.T) {
	of, own := new(proxy.Forwarded), new(proxy.Forwarded)
	for _, has := range []*proxy.Forwarded{nil, own} {
		ex, err := NewExchange(proxy.Modern, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil || ex.Client.Era != proxy.Modern {
			t.Fatal(ex, err)
		}
		ex.Caller.Forwarded = has
		want := has
		if want == nil {
			want = of
		}
		l := &fakeLink{answer: `{"jsonrpc":"2.0","id":1,"result":{}}`}
		if _, err := Ask(proxy.WithForwarded(t.Context(), of), l, ex); err != nil || l.ex.Caller.Forwarded != want {
			t.Errorf("%v; headers are not those wanted", err)
		}
	}
	if _, err := NewExchange(proxy.Legacy, []byte(`{`)); err == nil {
		t.Error("an exchange for what is no message")
	}
}

// A cancelled exchange cancels the one that serves it.
func TestAlong(t *testing.T) {
	outer, inner := &proxy.Exchange{}, &proxy.Exchange{}
	outer.Attach(Along{Inner: inner})
	outer.Cancel(proxy.ErrCancelled)
	if inner.Err() == nil {
		t.Error("the inner exchange goes on")
	}
	if (Discard{}).Message(nil) {
		t.Error("somebody needs the message")
	}
}

// wrapping is a link that another wraps.
type wrapping struct{ Link }

func (w wrapping) Under() Link { return w.Link }

// As finds an optional interface at any depth, the outermost first.
func TestAs(t *testing.T) {
	l := &fakeLink{words: "inner"}
	if got := LastWords(wrapping{wrapping{l}}); got != "inner" {
		t.Errorf("last words %q", got)
	}
	if got := LastWords(wrapping{nil}); got != "" {
		t.Errorf("last words %q of nothing", got)
	}
	if _, ok := As[Settler](wrapping{l}); ok {
		t.Error("found what is not there")
	}
	if found, ok := As[interface{ Under() Link }](wrapping{wrapping{l}}); !ok || found.Under() != Link(wrapping{l}) {
		t.Error("not the outermost")
	}
	var r Ref
	if r.Get() != nil {
		t.Error("a link before it is set")
	}
	r.Set(l)
	if r.Get() != Link(l) {
		t.Error("another link")
	}
}

func mint(m *wire.Message, n uint64) *Minted {
	x := new(Minted)
	x.Put(m, n)
	return x
}

// A minted id and token replace the client's own; replies get these back, to the byte.
func TestMinted(t *testing.T) {
	for _, token := range []string{"", `"a\u00e9"`, "1e3", `"` + strings.Repeat("x", 100) + `"`} {
		meta := ""
		if token != "" {
			meta = `,"params":{"_meta":{"progressToken":` + token + `}}`
		}
		m := scan(t, `{"jsonrpc":"2.0","id":"a\/1","method":"m"`+meta+`}`)
		minted := mint(m, 17)
		want := `{"jsonrpc":"2.0","id":17,"method":"m"`
		if token != "" {
			want += `,"params":{"_meta":{"progressToken":"p17"}}`
		}
		if got := string(m.Append(nil)); got != want+"}" {
			t.Errorf("sent %s, want %s}", got, want)
		}
		for _, x := range []*Minted{minted, minted.Apart()} {
			if string(x.OwnID()) != `"a\/1"` || string(x.ID) != "17" || (token == "") != (x.Token == nil) {
				t.Errorf("own id %s, minted %s and %s", x.OwnID(), x.ID, x.Token)
			}
			progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p17","progress":1}}`
			restored := progress
			if token != "" {
				restored = strings.Replace(progress, `"p17"`, token, 1)
			}
			for in, out := range map[string]string{
				`{"jsonrpc":"2.0","id":17,"result":{}}`:                      `{"jsonrpc":"2.0","id":"a\/1","result":{}}`,
				`{"jsonrpc":"2.0","id":17,"error":{"code":1,"message":"m"}}`: `{"jsonrpc":"2.0","id":"a\/1","error":{"code":1,"message":"m"}}`,
				progress: restored,
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":"p17"}}`:       `{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":"p17"}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`:               `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`,
				`{"jsonrpc":"2.0","id":17,"method":"ping"}`:                                                 `{"jsonrpc":"2.0","id":17,"method":"ping"}`,
				`{"jsonrpc":"2.0","error":{"code":-32700,"message":"an error for what could not be read"}}`: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"an error for what could not be read"}}`,
			} {
				r, err := wire.Scan([]byte(in))
				if err != nil {
					continue // some revisions have no such message
				}
				x.Restore(&r)
				if got := string(r.Append(nil)); got != out {
					t.Errorf("token %q: %s, want %s", token, got, out)
				}
			}
		}
	}
	// what was made apart outlives the memory of the call
	m := scan(t, `{"jsonrpc":"2.0","id":"own","method":"m"}`)
	minted := mint(m, 1)
	apart := minted.Apart()
	again := scan(t, `{"jsonrpc":"2.0","id":"next","method":"m"}`)
	minted.Put(again, 22)
	if string(apart.ID) != "1" || string(apart.OwnID()) != `"own"` {
		t.Errorf("%s %s", apart.ID, apart.OwnID())
	}
	// edits that a message has already stay
	edited := scan(t, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`)
	edited.EditParams([]wire.Change{{Key: "b", Value: []byte("2")}})
	mint(edited, 3)
	if got := string(edited.Append(nil)); got != `{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":1,"b":2}}` {
		t.Error(got)
	}
}

// Settle waits for the messages begun before it, and for no others, until the context ends.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pending
		p.Settle(t.Context())
		one, two := p.Begin(), p.Begin()
		settled := make(chan time.Time, 1)
		go func() {
			p.Settle(t.Context())
			settled <- time.Now()
		}()
		synctest.Wait()
		three := p.Begin()
		time.Sleep(time.Second)
		two()
		time.Sleep(time.Second)
		at := time.Now()
		one()
		if got := <-settled; got != at {
			t.Errorf("settled %s late", got.Sub(at))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p.Settle(ctx)
		if d := time.Since(at); d != time.Minute {
			t.Errorf("waited %s", d)
		}
		three()
		if p.Settle(t.Context()); len(p.under) != 0 {
			t.Errorf("%d left", len(p.under))
		}
	})
}

// A status becomes the error that its meaning asks for.
func TestStatusFault(t *testing.T) {
	for status, want := range map[int]string{401: proxy.Refused.Name, 403: proxy.Refused.Name, 429: proxy.Overloaded.Name, 503: proxy.Overloaded.Name,
		400: proxy.HTTPStatus.Name, 402: proxy.HTTPStatus.Name, 404: proxy.HTTPStatus.Name, 500: proxy.HTTPStatus.Name} {
		s := &StatusError{Status: status, Text: "no", RetryAfter: 7}
		e := StatusFault(s)
		refused := status == 401 || status == 403
		if e.Name != want || e.RetryAfter != 7 || !errors.Is(e, s) || s.HTTPStatus() != status || !strings.Contains(e.Message, fmt.Sprintf("HTTP %d: no", status)) ||
			strings.Contains(e.Message, "forward_headers") != refused {
			t.Errorf("%d: %v", status, e)
		}
		if got := Unauthorized(fmt.Errorf("x: %w", s)); (got != nil) != refused {
			t.Errorf("%d: unauthorized %v", status, got)
		}
	}
	if got := (&StatusError{Status: 204}).Error(); got != "HTTP 204 without a body" {
		t.Error(got)
	}
	if Unauthorized(nil) != nil || Unauthorized(errors.New("x")) != nil {
		t.Error("unauthorized without a status")
	}
}

// A process has more time for a handshake than for a request, since it must be started first.
func TestHandshakeTimeout(t *testing.T) {
	for _, c := range []struct {
		stdio                bool
		timeout, start, want time.Duration
	}{
		{false, 5 * time.Second, time.Minute, 5 * time.Second},
		{true, 5 * time.Second, time.Minute, 61 * time.Second},
		{true, 5 * time.Second, time.Second, 5 * time.Second},
		{true, 5 * time.Second, 4500 * time.Millisecond, 5500 * time.Millisecond},
	} {
		s := Server{Wires: Wires{Stdio: c.stdio}, Timeout: c.timeout, StartTimeout: c.start}
		if got := s.HandshakeTimeout(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// allowed returns the revisions of a configuration.
func allowed(t *testing.T, eras ...string) rules.Allowed {
	t.Helper()
	a, err := rules.Allow(eras)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// With some legacy revisions excluded, initialize asks for one of the others, and fails if the server settles on an excluded one.
// Whatever else a link can do it still can.
func TestWithin(t *testing.T) {
	dialled := &fakeLink{words: "w"}
	dial := func(context.Context, Sink) (Link, error) { return dialled, nil }
	if Within(allowed(t, "modern"), nil) != nil {
		t.Error("a dial of nothing")
	}
	for _, all := range [][]string{nil, {"legacy"}, {"modern", "legacy"}} {
		l, err := Within(allowed(t, all...), dial)(t.Context(), Discard{})
		if err != nil || l != Link(dialled) {
			t.Errorf("%v: a wrapper without need", all)
		}
	}
	failing := func(context.Context, Sink) (Link, error) { return nil, errors.New("down") }
	if _, err := Within(allowed(t, "2025-06-18"), failing)(t.Context(), Discard{}); err == nil {
		t.Error("no error")
	}
	initialize := func(version string) string {
		if version == "" {
			return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":1}}`
		}
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","x":1}}`
	}
	settled := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":` + version + `}}`
	}
	for _, c := range []struct{ asked, sent, answer, want string }{
		{initialize("2025-11-25"), initialize("2025-06-18"), settled(`"2025-06-18"`), settled(`"2025-06-18"`)},
		{initialize("2025-06-18"), initialize("2025-06-18"), settled(`"2025-03-26"`), settled(`"2025-03-26"`)},
		{initialize("2025-03-26"), initialize("2025-03-26"), settled(`"2025-11-25"`), proxy.BadAnswer.Name},
		{initialize("2025-03-26"), initialize("2025-03-26"), settled(`7`), settled(`7`)}, // the caller judges it
		{initialize("2025-03-26"), initialize("2025-03-26"), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`},
		{initialize(""), initialize(""), settled(`"2025-06-18"`), settled(`"2025-06-18"`)},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, settled(`"2025-11-25"`), settled(`"2025-11-25"`)},
	} {
		link := &fakeLink{answer: c.answer, words: "w"}
		l, err := Within(allowed(t, "2025-06-18", "2025-03-26"), func(context.Context, Sink) (Link, error) { return link, nil })(t.Context(), Discard{})
		if err != nil || LastWords(l) != "w" {
			t.Fatal(err, LastWords(l))
		}
		ex, err := NewExchange(proxy.Legacy, []byte(c.asked))
		if err != nil {
			t.Fatal(err)
		}
		if version := ex.Msg.ParamsVersion; version.Present() { // as a link that edits it does
			ex.Msg.Replace(version, ex.Msg.Of(version))
		}
		replies, err := l.Call(ex)
		if err != nil {
			t.Fatal(err)
		}
		m, err := replies.Next(time.Time{})
		var got string
		if err != nil {
			got = proxy.AsError(err).Name
		} else {
			got = string(m.Append(nil))
		}
		if got != c.want || link.seen[0] != c.sent {
			t.Errorf("%s: sent %s, received %s; want %s, %s", c.asked, link.seen[0], got, c.sent, c.want)
		}
		link.err = proxy.Errf(proxy.Unreachable, "down")
		if ex, err = NewExchange(proxy.Legacy, []byte(c.asked)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Call(ex); err == nil {
			t.Error("no error")
		}
		link.err, link.answer = nil, ""
		if ex, err = NewExchange(proxy.Legacy, []byte(c.asked)); err != nil {
			t.Fatal(err)
		}
		if replies, err = l.Call(ex); err != nil {
			t.Fatal(err)
		}
		if _, err := replies.Next(time.Now()); err != proxy.ErrNotYet {
			t.Errorf("%v", err)
		}
	}
}
