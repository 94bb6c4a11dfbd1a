package mcpcall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// origin returns a caller whose requests handle answers.
func origin(t *testing.T, handle proxy.Handler) *Origin {
	t.Helper()
	return &Origin{Client: &Client{Handle: handle, Info: []byte(`{"name":"i"}`), Cap: 7 * time.Second}, ID: "r1", Caps: []byte(`{"sampling":{}}`),
		Life: t.Context(), End: time.Now().Add(time.Minute)}
}

// answering returns a handler whose server "s" answers with the results in turn. A result that begins with "!" is the error
// of an error response. Each request's params are appended to seen.
func answering(seen *[]string, results ...string) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if seen != nil {
			*seen = append(*seen, string(ex.Msg.Of(ex.Msg.Params)))
		}
		result := results[0]
		results = results[1:]
		ex.Target = "s"
		member := `"result":` + result
		if result[0] == '!' {
			member = `"error":` + result[1:]
		}
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, ex.Msg.Of(ex.Msg.ID), member))
		return proxy.Reply(m), err
	}
}

func TestMembers(t *testing.T) {
	var m Members
	if got := string(m.Object()); got != "{}" {
		t.Error(got)
	}
	m.Add("a", []byte("1"))
	m.AddText("b", `x"y`)
	m.AddRaw([]byte(`"\u0063"`), []byte("[2]"))
	if got := string(m.Object()); got != `{"a":1,"b":"x\"y","\u0063":[2]}` {
		t.Error(got)
	}
}

// The members of the call come first, then the other parameters, then _meta with the envelope and the caller's own members.
func TestExchangeMessage(t *testing.T) {
	envelope := fmt.Sprintf(`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"i"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}`, rules.ModernVersion)
	for _, test := range []struct {
		call         ToolCall
		params, meta string
		want         string
	}{
		{want: `{"_meta":{` + envelope + `}}`},
		{params: `"uri":"u"`, want: `{"uri":"u","_meta":{` + envelope + `}}`},
		{meta: `"x/y":1`, want: `{"_meta":{` + envelope + `,"x/y":1}}`},
		{call: ToolCall{[]byte(`"t"`), []byte(`{"n":1}`)}, params: `"more":true`,
			want: `{"name":"t","arguments":{"n":1},"more":true,"_meta":{` + envelope + `}}`},
	} {
		o := origin(t, nil)
		for id := 1; id <= 2; id++ {
			ex, err := o.Exchange("any/method", test.call, Members(test.params), Members(test.meta))
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"any/method","params":%s}`, id, test.want); string(ex.Msg.Raw) != want {
				t.Errorf("%s\nwant %s", ex.Msg.Raw, want)
			}
		}
	}
}

func TestExchangeFields(t *testing.T) {
	o := origin(t, nil)
	o.Server, o.Below, o.Own, o.Caller = "srv", "below", true, proxy.Caller{Principal: "p"}
	o.Arrival, o.Trace = &proxy.Arrival{}, &proxy.Trace{Parent: "x"}
	ex, err := o.Exchange("m", ToolCall{}, nil, Members(`"io.modelcontextprotocol/logLevel":"info"`))
	if err != nil {
		t.Fatal(err)
	}
	if ex.Server != "srv" || ex.Below != "below" || !ex.Own || ex.Caller.Principal != "p" || ex.RequestID != "r1" ||
		ex.Arrival != o.Arrival || ex.Trace != o.Trace {
		t.Errorf("%+v", ex)
	}
	want := proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: o.Client.Info, Caps: o.Caps, LogLevel: "info"}
	if !reflect.DeepEqual(ex.Client, want) {
		t.Errorf("%+v, want %+v", ex.Client, want)
	}
}

// The buffer is made for the whole message, so that a large one is not copied again.
func TestExchangeIsBuiltInOneBuffer(t *testing.T) {
	text := `"` + strings.Repeat("x", 1000) + `"`
	o := origin(t, nil)
	o.Client.Info, o.Caps = []byte(`{"name":`+text+`}`), []byte(`{"c":`+text+`}`)
	ex, err := o.Exchange("m", ToolCall{[]byte(text), []byte(`{"a":` + text + `}`)}, Members(`"p":`+text), Members(`"e":`+text))
	if err != nil {
		t.Fatal(err)
	}
	if spare := cap(ex.Msg.Raw) - len(ex.Msg.Raw); spare > 512 {
		t.Errorf("a message of %d bytes has grown to a buffer with %d spare bytes", len(ex.Msg.Raw), spare)
	}
}

// What the caller sent is part of the message as it is, so it may make the message invalid.
func TestExchangeOfAnInvalidMember(t *testing.T) {
	ex, err := origin(t, nil).Exchange("m", ToolCall{}, Members(`"a":}`), nil)
	var e *proxy.Error
	if ex != nil || !errors.As(err, &e) || e.Name != proxy.InvalidParams.Name {
		t.Errorf("%v, %v", ex, err)
	}
}

func TestOnBehalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Cap: 3 * time.Second}
		ex := &proxy.Exchange{Server: "srv", Below: "below", RequestID: "r2", Arrival: &proxy.Arrival{}, Trace: &proxy.Trace{},
			Caller: proxy.Caller{Address: netip.MustParseAddr("192.0.2.1")}, Client: proxy.Client{Caps: []byte("{}")}}
		want := &Origin{Client: c, Server: "srv", Below: "below", Caller: ex.Caller, ID: "r2", Caps: ex.Client.Caps, Life: ex, Own: true,
			Arrival: ex.Arrival, Trace: ex.Trace, End: time.Now().Add(3 * time.Second)}
		if got := c.OnBehalf(ex); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestFollowCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, leave := context.WithCancelCause(t.Context())
		o := origin(t, nil)
		o.Life, o.End = life, time.Now().Add(time.Minute)
		left, released := new(proxy.Exchange), new(proxy.Exchange)
		stop := o.Follow(left)
		release := o.Follow(released)
		released.Done() // starts the timer of the deadline
		release()
		gone := errors.New("gone")
		leave(gone)
		synctest.Wait()
		if !errors.Is(left.Err(), gone) {
			t.Errorf("the caller left: %v", left.Err())
		}
		if released.Err() != nil {
			t.Errorf("a released exchange still follows its caller: %v", released.Err())
		}
		if got := left.Limit(); got != time.Minute {
			t.Errorf("limit %v", got)
		}
		stop()
		<-time.After(2 * time.Minute)
		if released.Err() != nil {
			t.Errorf("a released exchange has a deadline: %v", released.Err())
		}
	})
}

func TestWhy(t *testing.T) {
	o := origin(t, nil)
	ex := new(proxy.Exchange)
	first := errors.New("first")
	if got := o.Why(ex, first); got != first {
		t.Error(got)
	}
	overdue := proxy.Overdue(time.Second)
	ex.Cancel(overdue)
	if got := o.Why(ex, first); got != overdue {
		t.Errorf("%v; the exchange's own cause comes before the error", got)
	}
	life, leave := context.WithCancelCause(t.Context())
	o.Life = life
	gone := errors.New("gone")
	leave(gone)
	if got := o.Why(ex, first); got != gone {
		t.Errorf("%v; that the caller has left comes first", got)
	}
}

func TestAsk(t *testing.T) {
	var seen []string
	o := origin(t, answering(&seen, `{"ok":1}`))
	m, target, err := o.Ask("any/method", Members(`"a":1`))
	if err != nil || target != "s" || string(m.Of(m.Result)) != `{"ok":1}` {
		t.Errorf("%s, %q, %v", m.Raw, target, err)
	}
	if len(seen) != 1 || !strings.HasPrefix(seen[0], `{"a":1,"_meta":{`) {
		t.Error(seen)
	}
}

func TestAskReturnsTheErrorOfTheServer(t *testing.T) {
	o := origin(t, answering(nil, `!{"code":-32099,"message":"b\"ad","data":{"x":1}}`, `!{"code":1,"message":"m"}`))
	_, target, err := o.Ask("m", nil)
	var failed *ServerError
	if !errors.As(err, &failed) || target != "s" || failed.Error() != `b"ad` || failed.Code != -32099 || string(failed.Data) != `{"x":1}` {
		t.Errorf("%q, %#v", target, err)
	}
	if _, _, err = o.Ask("m", nil); !errors.As(err, &failed) || failed.Data != nil {
		t.Errorf("%#v", err)
	}
}

// stuck are replies that never come; they wait as long as they may.
type stuck struct{ err error }

func (s stuck) Next(until time.Time) (*wire.Message, error) {
	if s.err == nil {
		<-time.After(time.Until(until)) // in a synctest bubble
		return nil, proxy.ErrNotYet
	}
	return nil, s.err
}

func (stuck) Close() error { return nil }

func TestAskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, gone := errors.New("broken"), errors.New("gone")
		life, leave := context.WithCancelCause(t.Context())
		for _, test := range []struct {
			name   string
			handle proxy.Handler
			life   context.Context
			want   error // of errors.Is; nil: Overdue with Cap
		}{
			{"at once", func(*proxy.Exchange) (proxy.Replies, error) { return nil, broken }, t.Context(), broken},
			{"while waiting", func(*proxy.Exchange) (proxy.Replies, error) { return stuck{broken}, nil }, t.Context(), broken},
			{"late", func(*proxy.Exchange) (proxy.Replies, error) { return stuck{}, nil }, t.Context(), nil},
			{"left", func(*proxy.Exchange) (proxy.Replies, error) { leave(gone); return stuck{broken}, nil }, life, gone},
		} {
			o := origin(t, func(ex *proxy.Exchange) (proxy.Replies, error) {
				ex.Target = "s"
				return test.handle(ex)
			})
			o.Life = test.life
			_, target, err := o.Ask("m", nil)
			if target != "s" {
				t.Errorf("%s: target %q", test.name, target)
			}
			if test.want != nil && !errors.Is(err, test.want) || test.want == nil && fmt.Sprint(err) != proxy.Overdue(7*time.Second).Error() {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		o := origin(t, nil)
		if _, _, err := o.Ask("m", Members(`"a":}`)); err == nil {
			t.Error("an invalid request was sent")
		}
		synctest.Wait()
	})
}

// The handler is given up with the deadline, and the caller's leaving cancels it.
func TestAskEndsTheExchange(t *testing.T) {
	var asked *proxy.Exchange
	life, leave := context.WithCancelCause(t.Context())
	o := origin(t, func(ex *proxy.Exchange) (proxy.Replies, error) {
		asked = ex
		return answering(nil, `{}`)(ex)
	})
	o.Life = life
	if _, _, err := o.Ask("m", nil); err != nil {
		t.Fatal(err)
	}
	leave(errors.New("gone"))
	if asked.Err() != nil {
		t.Error("an exchange with its response still follows its caller")
	}
}

func TestCollect(t *testing.T) {
	var seen, pages []string
	o := origin(t, answering(&seen, `{"n":1,"nextCursor":"c\"1"}`, `{"n":2,"nextCursor":"c2"}`, `{"n":3}`))
	target, err := o.Collect("tools/list", func(m *wire.Message) error {
		pages = append(pages, string(m.Of(wire.Get(m.Raw, m.Result, "n"))))
		return nil
	})
	if err != nil || target != "s" || strings.Join(pages, " ") != "1 2 3" {
		t.Errorf("%q, %v, pages %v", target, err, pages)
	}
	for i, want := range []string{`{"_meta":`, `{"cursor":"c\"1","_meta":`, `{"cursor":"c2","_meta":`} {
		if len(seen) != 3 || !strings.HasPrefix(seen[i], want) {
			t.Errorf("request %d: %v", i, seen)
		}
	}
}

// A list ends at a cursor that is no string or is the same again, so that a server cannot be asked for ever.
func TestCollectEnds(t *testing.T) {
	for name, results := range map[string][]string{
		"a number":        {`{"nextCursor":1}`},
		"null":            {`{"nextCursor":null}`},
		"the same cursor": {`{"nextCursor":"a"}`, `{"nextCursor":"a"}`},
	} {
		pages := 0
		_, err := origin(t, answering(nil, results...)).Collect("m", func(*wire.Message) error { pages++; return nil })
		if err != nil || pages != len(results) {
			t.Errorf("%s: %d pages, %v", name, pages, err)
		}
	}
}

// A server without the method has an empty list; any other error, or the same one in the middle, is an error.
func TestCollectFromAServerThatFails(t *testing.T) {
	refused := func(e proxy.Handler) *Origin { return origin(t, e) }
	for name, test := range map[string]struct {
		o     *Origin
		empty bool
	}{
		"method not found":    {refused(answering(nil, `!{"code":-32601,"message":"no"}`)), true},
		"another code":        {refused(answering(nil, `!{"code":-32603,"message":"no"}`)), false},
		"on the second page":  {refused(answering(nil, `{"nextCursor":"a"}`, `!{"code":-32601,"message":"no"}`)), false},
		"refused by Dragoman": {refused(func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.MethodNotFound, "no") }), true},
		"refused otherwise":   {refused(func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.Internal, "no") }), false},
		"not of the table":    {refused(func(*proxy.Exchange) (proxy.Replies, error) { return nil, errors.New("no") }), false},
	} {
		if _, err := test.o.Collect("m", func(*wire.Message) error { return nil }); (err == nil) != test.empty {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCollectIsBounded(t *testing.T) {
	n := 0
	endless := func(size int) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			n++
			return answering(nil, fmt.Sprintf(`{"nextCursor":"%d","pad":"%s"}`, n, strings.Repeat("x", size)))(ex)
		}
	}
	var e *proxy.Error
	for _, test := range []struct {
		size, requests int
		text           string
	}{
		{0, maxPages, "the upstream server's m has more than 1000 pages"},
		{maxListBytes / 4, 4, "the upstream server's m is larger than 67108864 bytes"},
	} {
		n = 0
		pages := 0
		target, err := origin(t, endless(test.size)).Collect("m", func(*wire.Message) error { pages++; return nil })
		if !errors.As(err, &e) || e.Name != proxy.ResponseTooLarge.Name || e.Message != test.text || n != test.requests || target != "s" {
			t.Errorf("%v after %d requests to %q", err, n, target)
		}
		if want := min(test.requests, n); test.size > 0 && pages != want-1 {
			t.Errorf("%d pages of %d bytes", pages, test.size)
		}
	}
}

// The reader of the pages ends the list.
func TestCollectEndsWithItsReader(t *testing.T) {
	var seen []string
	bad, pages := errors.New("enough"), 0
	_, err := origin(t, answering(&seen, `{"nextCursor":"a"}`, `{"nextCursor":"b"}`, `{}`)).Collect("m", func(*wire.Message) error {
		if pages++; pages == 2 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || pages != 2 || len(seen) != 2 {
		t.Errorf("%v after %d pages and %d requests", err, pages, len(seen))
	}
}

// A list of exactly the bound is read.
func TestCollectUpToTheBound(t *testing.T) {
	head := `{"jsonrpc":"2.0","id":1,"result":{"pad":"`
	raw := []byte(head + strings.Repeat("x", maxListBytes-len(head)-3) + `"}}`)
	o := origin(t, func(*proxy.Exchange) (proxy.Replies, error) {
		m, err := wire.Scan(raw)
		return proxy.Reply(m), err
	})
	if _, err := o.Collect("m", func(*wire.Message) error { return nil }); err != nil || len(raw) != maxListBytes {
		t.Errorf("%d bytes: %v", len(raw), err)
	}
}

func TestBuffers(t *testing.T) {
	const minPooled, maxPooled = 64 << 10, 4 << 20
	if b := buffer(10); len(b) != 0 || cap(b) != 10 {
		t.Errorf("%d of %d", len(b), cap(b))
	}
	reused := func(size, next int) bool {
		for range 100 { // the pool drops some buffers at random under the race detector
			b := append(buffer(size), 'x')
			recycle(b)
			again := buffer(next)
			if len(again) != 0 || cap(again) < next {
				t.Fatalf("buffer(%d) has length %d, capacity %d", next, len(again), cap(again))
			}
			if &again[:1][0] == &b[0] {
				return true
			}
		}
		return false
	}
	for _, test := range []struct {
		size, next int
		want       bool
	}{
		{minPooled, minPooled, true}, {maxPooled, minPooled, true}, {minPooled - 1, minPooled - 1, false}, {maxPooled + 1, maxPooled + 1, false},
		{minPooled, minPooled + 1, false}, {maxPooled, minPooled - 1, false},
	} {
		if got := reused(test.size, test.next); got != test.want {
			t.Errorf("a buffer of %d serves %d: %v, want %v", test.size, test.next, got, test.want)
		}
	}
}
