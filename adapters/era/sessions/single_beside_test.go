package sessions

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// besideRig is the only session with a server, and calls of clients in it.
type besideRig struct {
	rig
	t      *testing.T
	server *fakeserver.Server
}

func newBesideRig(t *testing.T) *besideRig {
	server := &fakeserver.Server{}
	r := &besideRig{newRig(server), t, server}
	r.opt.LeaseWait = 10 * time.Second
	r.MakeSingle()
	return r
}

// asking is a call that receives the questions of the server.
type asking struct {
	inboxCall
	turn *Turn
	took time.Duration // until it began
}

func (*asking) Accepts(m *wire.Message) bool { return m.Kind == wire.Request }
func (c *asking) GiveWay() {
	c.inboxCall.GiveWay()
	c.turn.Abort()
	c.end()
}

func (c *asking) end() {
	c.turn.Session().Leave(c)
	c.turn.End()
}

// begin begins a call of a tool that may ask.
func (r *besideRig) begin(who, tool string) (*asking, error) {
	ex, err := transport.NewExchange(proxy.Modern, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	ex.Caller.Principal, ex.Client = who, proxy.Client{Info: []byte(`{"name":"n"}`), Caps: []byte(`{"roots":{}}`)}
	began := time.Now()
	turn, err := r.Turn(ex, true, 0)
	if err != nil {
		return nil, err
	}
	ex.Detach(turn)
	c := &asking{turn: turn, took: time.Since(began)}
	turn.Join(c, true)
	return c, nil
}

func (r *besideRig) must(tool string) *asking {
	r.t.Helper()
	c, err := r.begin("p", tool)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// asks makes the server ask.
func (r *besideRig) asks(s *Session, id string) {
	s.Message(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"`+id+`","method":"roots/list"}`))
	synctest.Wait()
}

// refused returns the errors that the server got for its questions.
func (r *besideRig) refused() (all []string) {
	synctest.Wait()
	l := r.server.Links[len(r.server.Links)-1]
	l.Lock()
	defer l.Unlock()
	return slices.DeleteFunc(slices.Clone(l.Said), func(m string) bool { return !strings.Contains(m, `"error"`) })
}

// A client's calls run beside each other after a head start. A question waits until it can belong to one call only.
func TestCallsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		slow := r.must("slow")
		quick := r.must("quick")
		if slow.took != 0 || quick.took != headStart || quick.turn.Session() != slow.turn.Session() {
			t.Errorf("after %s and %s", slow.took, quick.took)
		}
		r.asks(quick.turn.Session(), "q")
		if len(slow.got)+len(quick.got) != 0 || len(r.refused()) != 0 {
			t.Errorf("guessed: %v %v %v", slow.got, quick.got, r.refused())
		}
		waiting := make(chan *asking)
		go func() { waiting <- r.must("third") }()
		time.Sleep(time.Second)
		slow.end()
		third := <-waiting // not before the question has been assigned
		if len(slow.got) != 0 || len(quick.got) != 1 || len(third.got) != 0 || third.took != time.Second {
			t.Errorf("%v %v %v, %s", slow.got, quick.got, third.got, third.took)
		}
		quick.turn.Suspend()
		time.Sleep(quietTime)
		r.asks(quick.turn.Session(), "r")
		if len(third.got) != 1 || len(quick.got) != 1 {
			t.Errorf("the one that runs beside a suspended one: %v, %v", third.got, quick.got)
		}
		quick.end()
		third.end()
		if len(r.refused()) != 0 {
			t.Errorf("refused: %v", r.refused())
		}
		r.close(t)
	})
}

// Calls that all wait for an answer get an error each, and run alone the next time; one that did not ask then, no more.
func TestCallsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		one, other := r.must("one"), r.must("other")
		time.Sleep(headStart)
		r.asks(one.turn.Session(), "q1")
		r.asks(one.turn.Session(), "q2")
		time.Sleep(stuckTime)
		if got := r.refused(); len(got) != 2 || !strings.Contains(got[0], "one after the other") {
			t.Errorf("%v", got)
		}
		one.end()
		other.end()
		one = r.must("one")
		time.AfterFunc(5*time.Second, func() {
			r.asks(one.turn.Session(), "q3")
			one.end()
		})
		other = r.must("other")
		if other.took != 5*time.Second || len(one.got) != 1 || len(r.refused()) != 2 {
			t.Errorf("after %s, %v, %v", other.took, one.got, r.refused())
		}
		other.end() // it did not ask
		slow := r.must("slow")
		if other = r.must("other"); other.took != headStart {
			t.Errorf("after %s", other.took)
		}
		time.AfterFunc(2*time.Second, func() { slow.end(); other.end() })
		if one = r.must("one"); one.took != 2*time.Second {
			t.Errorf("after %s", one.took)
		}
		one.end()
		r.close(t)
	})
}

// A question that is withdrawn while it is held back reaches nobody.
func TestHeldQuestionWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		one, other := r.must("one"), r.must("other")
		s := one.turn.Session()
		r.asks(s, "q")
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`))
		one.end()
		synctest.Wait()
		if slices.Contains(other.got, "roots/list") || len(r.refused()) != 0 {
			t.Errorf("%v, %v", other.got, r.refused())
		}
		other.end()
		r.close(t)
	})
}

// A client that waits gets its turn: after half of its time no call of another begins, and one whose client does not answer gives way.
func TestTurnsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		asked := r.must("asks")
		asked.turn.Suspend()
		if d, err := r.Described(&proxy.Exchange{Caller: proxy.Caller{Principal: "p"}, Client: proxy.Client{Info: []byte(`{"name":"o"}`)}}); err != nil || d != asked.turn.Session() {
			t.Errorf("another client of the same caller connects: %v", err)
		} else {
			d.Release()
		}
		other, err := r.begin("q", "x")
		if err != nil || other.took < r.opt.LeaseWait/2 || other.took > r.opt.LeaseWait/2+quietTime || !slices.Contains(asked.got, "gave way") {
			t.Fatalf("%v, %v, %v", other, err, asked.got)
		}
		time.AfterFunc(7*time.Second, other.end)
		began := make(chan *asking)
		go func() {
			c, err := r.begin("p", "x")
			if err != nil {
				t.Error(err)
			}
			began <- c
		}()
		time.Sleep(6 * time.Second)
		if _, err := r.begin("q", "y"); !proxy.IsFault(err, proxy.TooManySessions) {
			t.Errorf("a call begins before that of a client that has waited: %v", err)
		}
		c := <-began
		if c.took != 7*time.Second {
			t.Errorf("after %s", c.took)
		}
		c.end()
		r.close(t)
	})
}
