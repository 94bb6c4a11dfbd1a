package subscriptions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// processes is a Reconnector whose processes the test controls.
type processes struct {
	t      *testing.T
	group  *work.Group
	down   bool
	starts []time.Time
	refuse error         // of Begin
	begun  []string      // the messages of the listens
	calls  []chan string // what each listen receives; closed: its process has ended
	closed int           // replies
	hold   chan struct{} // if not nil, a process starts when it is closed
}

type processReplies struct {
	p  *processes
	in chan string
}

func (p *processes) Link(context.Context, proxy.Identity) (transport.Link, error) {
	if p.hold != nil {
		<-p.hold
	}
	p.starts = append(p.starts, time.Now())
	if p.down {
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	return nil, nil
}

func (p *processes) Begin(ex *proxy.Exchange, _ transport.Link) (proxy.Replies, error) {
	if p.refuse != nil {
		return nil, p.refuse
	}
	p.begun = append(p.begun, string(ex.Msg.Append(nil)))
	ex.Msg.Edits = append(ex.Msg.Edits, wire.Edit{}) // a link adds its own
	in := make(chan string, 16)
	p.calls = append(p.calls, in)
	return processReplies{p, in}, nil
}

func (r processReplies) Next(until time.Time) (*wire.Message, error) {
	select {
	case raw, ok := <-r.in:
		if !ok {
			return nil, proxy.Errf(proxy.Lost, "died")
		}
		return fakeserver.Scan(r.p.t, raw), nil
	default:
		time.Sleep(time.Until(until)) // virtual time
		return nil, proxy.ErrNotYet
	}
}

func (r processReplies) Close() error { r.p.closed++; return nil }

// sends makes the last process send messages.
func (p *processes) sends(all ...string) {
	for _, raw := range all {
		p.calls[len(p.calls)-1] <- raw
	}
}

func (p *processes) die() { close(p.calls[len(p.calls)-1]) }

const ackProcess = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["u"]}}}`

// reconnectRig is a listen that survives the end of its process.
type reconnectRig struct {
	*modernListen
	p *processes
}

func reconnects(t *testing.T, f func(t *testing.T, r reconnectRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &processes{t: t, group: work.New(nil)}
		ex := &proxy.Exchange{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`)}
		ex.Msg.EditParams([]wire.Change{{Key: "x", Value: []byte("1")}})
		replies, err := Reconnecting(ex, p, p.group)
		if err != nil {
			t.Fatal(err)
		}
		r := reconnectRig{&modernListen{r: &listenRig{t: t}, ex: ex, replies: replies}, p}
		f(t, r)
		p.group.Close()
		p.group.Cancel()
		p.group.Wait()
		if err := replies.Close(); err != nil {
			t.Error(err)
		}
		if p.closed != len(p.calls) {
			t.Errorf("%d of %d replies were closed", p.closed, len(p.calls))
		}
	})
}

// The listen is opened again, as it was, at the next process. Its acknowledgement does not reach the client; notices that everything
// acknowledged has changed do.
func TestReconnecting(t *testing.T) {
	reconnects(t, func(t *testing.T, r reconnectRig) {
		tools := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`
		r.p.sends(ackProcess, tools)
		r.received(`ack {"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["u"]}`, rules.ListChanged("tools"))
		r.p.die()
		r.received()
		r.p.sends(ackProcess, tools)
		r.received(rules.ListChanged("tools"), "updated u", rules.ListChanged("tools"))
		r.p.sends(ackProcess) // a second one in one process passes
		r.received(`ack {"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["u"]}`)
		r.p.die()
		time.Sleep(time.Minute)
		r.received()
		time.Sleep(time.Minute)
		r.p.sends(ackProcess)
		r.received(rules.ListChanged("tools"), "updated u")
		if len(r.p.begun) != 3 || r.p.begun[0] != r.p.begun[2] || r.p.begun[0] != r.p.begun[1] {
			t.Errorf("the server received %q", r.p.begun)
		}
		r.p.sends(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}`)
		r.received("result 7")
	})
}

// Failed starts are retried at once and then with growing pauses, which begin anew after a process that lasted.
func TestReconnectingBacksOff(t *testing.T) {
	reconnects(t, func(t *testing.T, r reconnectRig) {
		r.p.sends(ackProcess)
		_, _ = r.next()
		for range 2 {
			time.Sleep(steadyTime)
			r.p.down, r.p.starts = true, nil
			r.p.die()
			for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
				if _, err := r.replies.Next(time.Now().Add(time.Second)); err != proxy.ErrNotYet {
					t.Fatal(err)
				}
			}
			before := time.Now().Add(-3 * time.Minute)
			for i, least := range []time.Duration{0, backoffMin, 2 * backoffMin, 4 * backoffMin, 8 * backoffMin, 16 * backoffMin, 32 * backoffMin, backoffMax} {
				if d := r.p.starts[i].Sub(before); d < least || d > least+least/2+time.Millisecond {
					t.Errorf("attempt %d after %s, want about %s", i, d, least)
				}
				before = r.p.starts[i]
			}
			r.p.down = false
			for len(r.p.starts) == 0 || r.p.calls == nil || len(r.p.begun) == len(r.p.calls) && r.replies.(*reconnecting).replies == nil {
				_, _ = r.replies.Next(time.Now().Add(time.Minute))
			}
			r.p.sends(ackProcess)
			if got, _ := r.next(); len(got) != 2 {
				t.Errorf("%q", got)
			}
		}
		r.p.die() // at once: the pauses go on
		r.p.starts = nil
		before := time.Now()
		for len(r.p.starts) == 0 {
			_, _ = r.replies.Next(time.Now().Add(time.Second))
		}
		if d := time.Since(before); d < backoffMin {
			t.Errorf("a process that ended at once is replaced after %s", d)
		}
	})
}

// A listen without an acknowledgement ends with its process; so do cancelled ones, and those of an upstream that closes.
func TestReconnectingEnds(t *testing.T) {
	reconnects(t, func(_ *testing.T, r reconnectRig) {
		r.p.die()
		r.ended(proxy.Lost.Name)
	})
	reconnects(t, func(_ *testing.T, r reconnectRig) {
		r.p.sends(ackProcess)
		_, _ = r.next()
		r.p.down = true
		r.p.die()
		r.received()
		r.ex.Cancel(proxy.ErrCancelled)
		r.ended("cancelled")
	})
	reconnects(t, func(_ *testing.T, r reconnectRig) {
		r.p.sends(ackProcess)
		_, _ = r.next()
		r.ex.Cancel(proxy.ErrCancelled)
		r.p.die()
		r.ended(proxy.Lost.Name)
	})
	reconnects(t, func(_ *testing.T, r reconnectRig) {
		r.p.sends(ackProcess)
		_, _ = r.next()
		r.p.down = true
		r.p.die()
		r.received()
		r.p.group.Close()
		r.p.group.Cancel()
		r.ended(proxy.ShuttingDown.Name)
	})
	reconnects(t, func(_ *testing.T, r reconnectRig) { // it closes first
		r.p.sends(ackProcess)
		_, _ = r.next()
		r.p.group.Close()
		r.p.die()
		r.ended(proxy.Lost.Name)
	})
	reconnects(t, func(_ *testing.T, r reconnectRig) { // closed while a process starts
		r.p.sends(ackProcess)
		_, _ = r.next()
		r.p.hold = make(chan struct{})
		r.p.die()
		r.received()
		done := make(chan error, 1)
		go func() {
			_, err := r.replies.Next(time.Time{})
			done <- err
		}()
		synctest.Wait()
		r.p.refuse = errors.New("closed")
		r.p.group.Close()
		close(r.p.hold)
		if err := <-done; err == nil || proxy.AsError(err).Name != proxy.ShuttingDown.Name {
			r.r.t.Errorf("%v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // it cannot begin
		p := &processes{t: t, group: work.New(nil), down: true}
		ex := func() *proxy.Exchange {
			return &proxy.Exchange{Msg: *fakeserver.Scan(t, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{}}}`)}
		}
		if _, err := Reconnecting(ex(), p, p.group); err == nil || proxy.AsError(err).Name != proxy.Unreachable.Name {
			t.Errorf("%v", err)
		}
		p.down, p.refuse = false, proxy.Errf(proxy.Overloaded, "no")
		if _, err := Reconnecting(ex(), p, p.group); err == nil || proxy.AsError(err).Name != proxy.Overloaded.Name {
			t.Errorf("%v", err)
		}
	})
}

// The client receives notices of maxSubscribed resources at most after a reconnection.
func TestReconnectingIsBounded(t *testing.T) {
	reconnects(t, func(t *testing.T, r reconnectRig) {
		uris := slices.Repeat([]string{`"u"`}, maxSubscribed+5)
		ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}}}`
		r.p.sends(ack)
		_, _ = r.next()
		r.p.die()
		r.received()
		r.p.sends(ack)
		if got, _ := r.next(); len(got) != maxSubscribed {
			t.Errorf("%d notices", len(got))
		}
	})
}
