package session

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) time() time.Time { return c.now }

func newStore(t *testing.T, opt Options) (*Store, *clock) {
	t.Helper()
	c := &clock{time.Unix(1000, 0)}
	opt.Now = c.time
	if opt.IdleTTL == 0 {
		opt.IdleTTL = time.Hour // the sweeper sleeps: tests call Expire
	}
	s, err := NewStore(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, c
}

func create(t *testing.T, s *Store, who string) *proxy.Session {
	t.Helper()
	sess, err := s.Create("x", "srv", proxy.Caller{Principal: who})
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func TestGetIsBound(t *testing.T) {
	s, _ := newStore(t, Options{Max: 5})
	sess := create(t, s, "alice")
	alice := proxy.Caller{Principal: "alice"}
	if s.Find([]byte(sess.ID), "srv", alice) != sess {
		t.Error("not found by its owner")
	}
	if s.Find([]byte(sess.ID), "srv", proxy.Caller{Principal: "bob"}) != nil || s.Find([]byte(sess.ID), "srv", proxy.Caller{}) != nil {
		t.Error("found by another principal")
	}
	if s.Find([]byte(sess.ID), "other", alice) != nil || s.Find([]byte(sess.ID+"x"), "srv", alice) != nil || s.Find([]byte(""), "srv", alice) != nil {
		t.Error("found at another endpoint")
	}
	s.Remove(sess)
	if s.Find([]byte(sess.ID), "srv", alice) != nil || sess.State() != proxy.Closed {
		t.Errorf("found after its end, state %s", sess.State())
	}
	s.Remove(sess) // again
	if s.Len() != 0 {
		t.Errorf("%d sessions", s.Len())
	}
}

func TestIDsAreUnguessable(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if len(id) != 43 || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

func TestExpiry(t *testing.T) {
	s, c := newStore(t, Options{Max: 9, IdleTTL: time.Hour})
	idle, used, busy, open := create(t, s, ""), create(t, s, ""), create(t, s, ""), create(t, s, "")
	ex := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`)}
	if err := busy.Begin(ex); err != nil {
		t.Fatal(err)
	}
	o := &outlet{}
	open.SetOutlet(o)
	c.now = c.now.Add(time.Hour - time.Second)
	s.Find([]byte(used.ID), "srv", proxy.Caller{})
	s.Expire()
	if s.Len() != 4 {
		t.Fatalf("%d sessions, ended too early", s.Len())
	}
	c.now = c.now.Add(time.Second)
	s.Expire()
	if idle.State() != proxy.Expired || used.State() != proxy.Created || busy.State() == proxy.Expired || open.State() == proxy.Expired {
		t.Errorf("idle %s, used %s, busy %s, with a stream %s", idle.State(), used.State(), busy.State(), open.State())
	}
	busy.Finish(ex)
	open.ClearOutlet(o)
	c.now = c.now.Add(time.Hour - time.Second)
	s.Expire()
	if busy.State() == proxy.Expired || open.State() == proxy.Expired {
		t.Errorf("the idle time counts from before the end: busy %s, with a stream %s", busy.State(), open.State())
	}
	c.now = c.now.Add(time.Second)
	s.Expire()
	if s.Len() != 0 {
		t.Errorf("%d sessions left", s.Len())
	}
}

func TestMaximum(t *testing.T) {
	s, _ := newStore(t, Options{Max: 3, MaxPerPrincipal: 2})
	a1, a2 := create(t, s, "a"), create(t, s, "a")
	s.Find([]byte(a1.ID), "srv", proxy.Caller{Principal: "a"})
	create(t, s, "a") // a's oldest is evicted although there is room
	if a2.State() != proxy.Expired || a1.State() == proxy.Expired {
		t.Errorf("a1 %s, a2 %s", a1.State(), a2.State())
	}
	b1 := create(t, s, "b")
	c1 := create(t, s, "c")
	if a1.State() != proxy.Expired || b1.State() == proxy.Expired || c1.State() == proxy.Expired || s.Len() != 3 {
		t.Errorf("a1 %s, b1 %s, c1 %s, %d in all", a1.State(), b1.State(), c1.State(), s.Len())
	}
	if n := len(s.of); n != 3 {
		t.Errorf("principals counted: %v", s.of)
	}
}

// outlet records.
type outlet struct {
	got   []string
	ended int
}

func (o *outlet) Push(msg []byte) error { o.got = append(o.got, string(msg)); return nil }
func (o *outlet) End()                  { o.ended++ }

func scan(t *testing.T, raw string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The state machine: created, initialized once, ended once; after that nothing begins.
func TestStates(t *testing.T) {
	s, _ := newStore(t, Options{Max: 5})
	sess := create(t, s, "")
	if sess.State() != proxy.Created {
		t.Errorf("%s", sess.State())
	}
	sess.Initialize(proxy.Client{Version: "1"})
	sess.Initialize(proxy.Client{Version: "2"})
	if sess.State() != proxy.Initialized || sess.Client().Version != "1" {
		t.Errorf("%s, %+v", sess.State(), sess.Client())
	}
	before, o := &outlet{}, &outlet{}
	if err := sess.Push([]byte("x")); !errors.Is(err, proxy.ErrNoOutlet) {
		t.Errorf("pushed without an outlet: %v", err)
	}
	sess.SetOutlet(before)
	sess.SetOutlet(o)
	_ = sess.Push([]byte("y"))
	if before.ended != 1 || len(before.got) != 0 || len(o.got) != 1 {
		t.Errorf("%+v %+v", before, o)
	}
	ex := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":"1","method":"m"}`)}
	same := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":"1","method":"m"}`)}
	number := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`)}
	if sess.Begin(ex) != nil || sess.Begin(number) != nil {
		t.Error(`"1" and 1 are two ids`)
	}
	if err := sess.Begin(same); err == nil || err.Name != proxy.DuplicateID.Name {
		t.Errorf("%v", err)
	}
	sess.CancelRequest([]byte("1"))
	if ex.Err() != nil || !errors.Is(number.Err(), proxy.ErrCancelled) {
		t.Errorf("%v, %v", ex.Err(), number.Err())
	}
	ends := 0
	sess.OnEnd(func() { ends++ })
	sess.End(proxy.Closed)
	sess.End(proxy.Expired)
	sess.OnEnd(func() { ends += 10 })
	if sess.State() != proxy.Closed || ends != 11 || o.ended != 1 || !errors.Is(ex.Err(), proxy.ErrCancelled) {
		t.Errorf("%s, %d, %+v, %v", sess.State(), ends, o, ex.Err())
	}
	if err := sess.Begin(same); err == nil || err.Name != proxy.SessionUnknown.Name {
		t.Errorf("%v", err)
	}
	late := &outlet{}
	sess.SetOutlet(late)
	if late.ended != 1 || sess.HasOutlet() {
		t.Error("an outlet of an ended session")
	}
	sess.Initialize(proxy.Client{})
	if sess.State() != proxy.Closed {
		t.Errorf("%s", sess.State())
	}
}

// Run puts a request in flight, records the result of the handshake, and releases the id.
func TestRun(t *testing.T) {
	s, _ := newStore(t, Options{Max: 5})
	sess := create(t, s, "alice")
	answer := func(result string) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Session != sess || ex.Caller.Principal != "alice" || ex.Server != "srv" {
				t.Errorf("%+v", ex)
			}
			return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(result))), nil
		}
	}
	run := func(raw string, h proxy.Handler) (proxy.Client, error) {
		ex := &proxy.Exchange{Msg: scan(t, raw)}
		replies, err := Run(sess, ex, h)
		if err != nil {
			return ex.Client, err
		}
		if _, err = replies.Next(time.Time{}); err != nil {
			t.Error(err)
		}
		if _, busy := sess.Idle(); !busy {
			t.Error("not in flight")
		}
		if err := replies.Close(); err != nil {
			t.Error(err)
		}
		if _, busy := sess.Idle(); busy {
			t.Error("in flight after its end")
		}
		return ex.Client, nil
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"x":1},"clientInfo":{"name":"n"}}}`
	if _, err := run(initialize, func(*proxy.Exchange) (proxy.Replies, error) { return nil, io.ErrUnexpectedEOF }); err == nil || sess.State() != proxy.Created {
		t.Errorf("%v, %s", err, sess.State())
	}
	if _, err := run(initialize, answer(`{"protocolVersion":"2025-06-18"}`)); err != nil {
		t.Error(err)
	}
	if c := sess.Client(); sess.State() != proxy.Initialized || c.Version != "2025-06-18" || !bytes.Equal(c.Caps, []byte(`{"x":1}`)) || !bytes.Equal(c.Info, []byte(`{"name":"n"}`)) {
		t.Errorf("%s %+v", sess.State(), c)
	}
	if _, err := run(initialize, answer(`{}`)); err == nil {
		t.Error("initialized twice")
	}
	_, _ = run(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, answer(`{}`))
	if c, _ := run(`{"jsonrpc":"2.0","id":1,"method":"m"}`, answer(`{}`)); c.LogLevel != "error" || c.Version != "2025-06-18" {
		t.Errorf("%+v", c)
	}
}

// Pump writes everything up to the response or an error, and nothing for a request that its client has cancelled.
func TestPump(t *testing.T) {
	f := func(cancel bool, replies proxy.Replies, err error, want string) {
		t.Helper()
		ex := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":"x","method":"m"}`)}
		if cancel {
			ex.Cancel(proxy.ErrCancelled)
		}
		got := ""
		Pump(ex, func(*proxy.Exchange) (proxy.Replies, error) { return replies, err }, time.Millisecond,
			func(m *wire.Message) error { got += string(m.Append(nil)) + "\n"; return nil })
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	result := scan(t, `{"jsonrpc":"2.0","id":"x","result":{}}`)
	f(false, proxy.Reply(result), nil, `{"jsonrpc":"2.0","id":"x","result":{}}`+"\n")
	f(false, nil, proxy.Errf(proxy.InvalidParams, "no"), `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"no"}}`+"\n")
	f(true, nil, proxy.ErrCancelled, "")
	f(false, silent{}, nil, `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"no response in 1ms, the most that limits.request_time allows","data":{"code":"upstream_timeout","retryable":false}}}`+"\n")
	f(false, nil, errors.New("secret"), `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"internal error; the log of Dragoman has the cause","data":{"code":"internal","retryable":false}}}`+"\n")
}

// silent has no reply until the given time.
type silent struct{}

func (silent) Next(until time.Time) (*wire.Message, error) {
	<-time.After(time.Until(until))
	return nil, proxy.ErrNotYet
}
func (silent) Close() error { return nil }

// Requests in flight are answered with the reason when the store closes, and not when their client has ended the session.
func TestShutdownAnswers(t *testing.T) {
	s, err := NewStore(Options{IdleTTL: time.Hour, Max: 5})
	if err != nil {
		t.Fatal(err)
	}
	one, two := create(t, s, ""), create(t, s, "")
	begin := func(sess *proxy.Session) *proxy.Exchange {
		ex := &proxy.Exchange{Msg: scan(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`)}
		if err := sess.Begin(ex); err != nil {
			t.Fatal(err)
		}
		return ex
	}
	a, b := begin(one), begin(two)
	s.Remove(one)
	s.Close()
	if Answerable(a) || proxy.AsError(a.Err()).Name != proxy.Cancelled.Name {
		t.Errorf("its client ended it: %v", a.Err())
	}
	if !Answerable(b) || proxy.AsError(b.Err()).Name != proxy.ShuttingDown.Name {
		t.Errorf("the store closed: %v", b.Err())
	}
}
