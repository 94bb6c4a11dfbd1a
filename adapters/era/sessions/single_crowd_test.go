package sessions

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
)

// While sessions from before are open, calls begin in the oldest only, so that the others end.
func TestCallsInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSingleRig(t)
		defer r.close()
		a, b := r.mustAcquire("a", false), r.mustAcquire("b", false)
		r.pool.MakeSingle()
		began := time.Now()
		if again := r.mustAcquire("a", false); again.Session != a.Session || time.Since(began) != 0 {
			t.Errorf("a call of the oldest: session %d after %s", again.Number(), time.Since(began))
		} else {
			again.end()
		}
		if _, err := r.acquire("b", false); !proxy.IsFault(err, proxy.TooManySessions) || time.Since(began) != 5*time.Second {
			t.Errorf("a call of the other after %s: %v", time.Since(began), err)
		}
		b.end()
		r.count(1)
		a.end()
	})
}

// Of sessions that are being opened when the first is to be the only one, calls begin in the oldest; those of the others wait for it.
func TestSurplusSessionThatOpens(t *testing.T) {
	for _, lease := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newSingleRig(t)
			defer r.close()
			r.mustAcquire("x", false).end() // so that the server's era is known
			held := make(chan struct{})
			r.server.Lock()
			r.server.Held = held
			r.server.Unlock()
			got := map[string]chan use{"a": make(chan use, 1), "b": make(chan use, 1)}
			for _, who := range []string{"a", "b"} {
				go func() { got[who] <- r.mustAcquire(who, lease) }()
				synctest.Wait()
			}
			r.pool.MakeSingle()
			close(held)
			a := <-got["a"]
			if r.count(1); len(got["b"]) != 0 {
				t.Errorf("lease %v: two calls of two clients run", lease)
			}
			time.Sleep(time.Second)
			a.end()
			b := <-got["b"]
			if r.count(1); !a.Gone() || b.Gone() {
				t.Errorf("lease %v: the session of the call that has ended stays", lease)
			}
			b.end()
		})
	}
}

// A client that waits makes one give way that does not answer, even if that one listens too. A call that runs, or was asked a moment ago,
// does not give way.
func TestWhoGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *besideRig, asked *asking)
		gives   bool
	}{
		"asked": {func(*besideRig, *asking) {}, true},
		"asked, and listens": {func(_ *besideRig, asked *asking) {
			s := asked.turn.Session()
			s.hold()
			s.AddListener(&listener{})
		}, true},
		"asked, and calls": {func(_ *besideRig, asked *asking) { asked.turn.Session().hold() }, false},
		"asked a moment ago": {func(_ *besideRig, asked *asking) {
			asked.turn.Resume(context.Background())
			time.AfterFunc(time.Second, asked.turn.Suspend)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newBesideRig(t)
			asked := r.must("asks")
			asked.turn.Suspend()
			c.prepare(r, asked)
			if c.gives {
				time.Sleep(time.Second)
			}
			other, err := r.begin("q", "x")
			if c.gives != slices.Contains(asked.got, "gave way") || c.gives != (err == nil) {
				t.Errorf("%s: %v, %v", name, asked.got, err)
			}
			if err == nil {
				if other.took != r.opt.LeaseWait/2 {
					t.Errorf("%s: after %s", name, other.took)
				}
				other.end()
			} else {
				asked.end()
			}
			r.close(t)
		})
	}
}

// The questions that are held back are bounded in number. One that is withdrawn makes room, and takes its time with it.
func TestHeldQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		calls := []*asking{r.must("one")}
		for i := range heldQuestions + 1 {
			calls = append(calls, r.must(fmt.Sprint(i)))
		}
		s := calls[0].turn.Session()
		withdraw := func(id string) {
			s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"`+id+`"}}`))
		}
		r.asks(s, "first")
		time.Sleep(r.opt.LeaseWait - time.Second)
		withdraw("first")
		for i := range heldQuestions {
			r.asks(s, fmt.Sprint(i))
		}
		time.Sleep(2 * time.Second)
		if got := r.refused(); len(got) != 0 {
			t.Errorf("refused before the time: %v", got)
		}
		r.asks(s, "more")
		if got := r.refused(); len(got) != 1 {
			t.Errorf("%d questions are refused beyond the limit", len(got))
		}
		withdraw("0")
		r.asks(s, "another")
		if got := r.refused(); len(got) != 1 {
			t.Errorf("%d questions are refused after one was withdrawn", len(got))
		}
		time.Sleep(r.opt.LeaseWait - 2*time.Second)
		if got := r.refused(); len(got) != heldQuestions+1 {
			t.Errorf("%d questions are refused when the time is over", len(got))
		}
		for _, c := range calls {
			c.end()
		}
		r.close(t)
	})
}

// A call that waits until a question has found its call begins as soon as the question is withdrawn.
func TestCallBeginsWhenTheQuestionIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		one, other := r.must("one"), r.must("other")
		s := one.turn.Session()
		r.asks(s, "q")
		time.AfterFunc(time.Second, func() {
			s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`))
		})
		third := r.must("third")
		if third.took != time.Second {
			t.Errorf("after %s", third.took)
		}
		for _, c := range []*asking{one, other, third} {
			c.end()
		}
		r.close(t)
	})
}

// Questions that are held back go to the call that is left, all of them, once the other has ended or has been suspended for a moment.
func TestHeldQuestionsFindTheirCall(t *testing.T) {
	for what, leave := range map[string]func(*asking){"ends": (*asking).end, "is suspended": func(c *asking) { c.turn.Suspend() }} {
		synctest.Test(t, func(t *testing.T) {
			r := newBesideRig(t)
			one, other := r.must("one"), r.must("other")
			s := one.turn.Session()
			r.asks(s, "q1")
			time.Sleep(stuckTime / 2)
			r.asks(s, "q2")
			time.Sleep(stuckTime / 2)
			leave(one)
			time.Sleep(quietTime)
			synctest.Wait()
			if len(other.got) != 2 || len(one.got) != 0 || len(r.refused()) != 0 {
				t.Errorf("one %s: the other received %v, it %v, refused are %v", what, other.got, one.got, r.refused())
			}
			one.end()
			other.end()
			r.close(t)
		})
	}
}

// A call that was seen to ask later than its head start runs alone from then on; one that asks sooner does not.
func TestLateAskerRunsAlone(t *testing.T) {
	for after, alone := range map[time.Duration]bool{0: false, headStart - 1: false, headStart: true, time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			r := newBesideRig(t)
			asker := r.must("asker")
			time.Sleep(after)
			r.asks(asker.turn.Session(), "q")
			if len(asker.got) != 1 {
				t.Errorf("%v", asker.got)
			}
			asker.end()
			for range 2 { // whether it asks then or not
				other := r.must("other")
				time.AfterFunc(2*time.Second, other.end)
				asker = r.must("asker")
				if want := map[bool]time.Duration{true: 2 * time.Second, false: headStart}[alone]; asker.took != want {
					t.Errorf("after a question at %s it begins after %s", after, asker.took)
				}
				asker.end()
				time.Sleep(2 * time.Second)
			}
			r.close(t)
		})
	}
}

// In a crowd, questions and log messages of a session may be for another one; what names its call is not.
func TestMessagesInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBesideRig(t)
		r.opt.Others = func() int { return 1 }
		r.single.Store(false)
		c := &inboxCall{}
		turn, err := r.Turn(caller("p", ""), true, 0)
		if err != nil {
			t.Fatal(err)
		}
		turn.Join(c, true)
		s := turn.Session()
		r.MakeSingle()
		for _, text := range []string{`"id":1,"method":"roots/list"`, `"method":"notifications/message","params":{"level":"info","data":1}`,
			`"method":"notifications/progress","params":{"progressToken":1,"progress":1}`} {
			if !s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0",`+text+`}`)) {
				t.Errorf("%s is left over", text)
			}
		}
		if got := r.refused(); len(got) != 1 || !slices.Equal(c.got, []string{"notifications/progress"}) {
			t.Errorf("refused are %v, received %v", got, c.got)
		}
		turn.End()
		r.close(t)
	})
}

// A question that was withdrawn does not shorten the time of a later one that waits for its call.
func TestWithdrawnQuestionTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		s := r.session(t, `{"roots":{}}`)
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
		time.Sleep(holdTime - time.Second)
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":2,"method":"roots/list"}`))
		time.Sleep(holdTime - time.Second)
		if _, _, n := s.Usage(); n != 1 {
			t.Errorf("%d questions wait", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, _, n := s.Usage(); n != 0 {
			t.Errorf("%d questions wait when the time is over", n)
		}
		r.close(t)
	})
}

// While a call is under way in which the server may not ask, a question that came too early is refused sooner: the call may wait for it.
func TestEarlyQuestionBesideACall(t *testing.T) {
	for _, listens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(&fakeserver.Server{})
			s := r.session(t, `{"roots":{}}`)
			s.hold()
			if listens {
				s.AddListener(&listener{})
			}
			s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			time.Sleep(holdBusy)
			synctest.Wait()
			if _, _, n := s.Usage(); (n == 1) != listens {
				t.Errorf("listens %v: %d questions wait", listens, n)
			}
			s.Release()
			r.close(t)
		})
	}
}

// A message that names no call goes to the only call that accepts it. Among leased calls that is the one that began to run last.
func TestMessageOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		var s *Session
		join := func(lease bool) (*Turn, *inboxCall) {
			turn, err := r.Turn(caller("p", ""), lease, 0)
			if err != nil {
				t.Fatal(err)
			}
			c := &inboxCall{}
			turn.Join(c, false)
			s = turn.Session()
			return turn, c
		}
		n := 0
		expect := func(what string, want *inboxCall, all ...*inboxCall) {
			t.Helper()
			n++
			left := s.Message(fakeserver.Scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, n)))
			if left != (want != nil) {
				t.Errorf("%s: delivered %v", what, left)
			}
			for i, c := range all {
				if (len(c.got) == 1) != (c == want) {
					t.Errorf("%s: call %d received %v", what, i, c.got)
				}
				c.got = nil
			}
		}
		one, a := join(true)
		expect("one", a, a)
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if len(a.got) != 0 {
			t.Errorf("a call receives %v", a.got)
		}
		one.Suspend()
		two, b := join(true)
		expect("one runs, one is suspended", b, a, b)
		two.Suspend()
		expect("both are suspended", b, a, b)
		time.Sleep(quietTime)
		one.Resume(t.Context())
		expect("the first runs again", a, a, b)
		free, c := join(false)
		expect("one of them is not leased", nil, a, b, c)
		s.Leave(a)
		s.Leave(b)
		expect("one without a lease", c, a, b, c)
		other, d := join(false)
		expect("two without a lease", nil, c, d)
		for _, turn := range []*Turn{one, two, free, other} {
			turn.End()
		}
		r.close(t)
	})
}
