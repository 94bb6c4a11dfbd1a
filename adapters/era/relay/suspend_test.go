package relay

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// suspending runs a test with a legacy client whose process is suspended after an idle minute.
func suspending(t *testing.T, f func(t *testing.T, s *server, c *client)) {
	t.Helper()
	relaying(t, time.Minute, func(t *testing.T, r *rig) { f(t, r.s, r.connect("p", v2511)) })
}

const called = `{"jsonrpc":"2.0","id":7,"result":{"link":`

// run calls a tool.
func (c *client) run() string { return c.call("tools/call", `{"name":"a","arguments":{}}`) }

// A session's idle process is stopped. Concurrent requests restart it once, with the client's own handshake and log level. It is stopped
// again when it is idle again.
func TestSuspendedProcessIsRestarted(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, c *client) {
		if got := c.call("logging/setLevel", `{"level":"error"}`); !strings.HasPrefix(got, called) {
			t.Fatal(got)
		}
		first := s.link(0)
		sent := first.received()
		time.Sleep(59 * time.Second)
		if got := c.call("ping", `{}`); !strings.HasPrefix(got, called) {
			t.Fatal(got)
		}
		time.Sleep(59 * time.Second)
		if synctest.Wait(); s.open() != 1 {
			t.Fatal("it ended too early")
		}
		time.Sleep(time.Second + time.Millisecond)
		if synctest.Wait(); s.open() != 0 || c.x.Idle("", false, time.Time{}) != nil {
			t.Fatal("it goes on")
		}
		c.sends(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		if synctest.Wait(); s.open() != 0 || len(s.links) != 1 {
			t.Error("a notification has started it")
		}
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if got := c.run(); got != called+"1}}" {
					t.Error(got)
				}
			})
		}
		group.Wait()
		if len(s.links) != 2 {
			t.Errorf("%d processes were started", len(s.links)-1)
		}
		if again := s.link(1).received(); len(sent) != 3 || !slices.Equal(sent, again[:3]) {
			t.Errorf("it received\n%q\nthe one before\n%q", again[:3], sent)
		}
		first.sink.Lost(errors.New("late")) // of a process that was given up
		if c.session.State() != proxy.Initialized {
			t.Error("the end of the suspended process ended the session")
		}
		time.Sleep(time.Minute + time.Millisecond)
		if synctest.Wait(); s.open() != 0 {
			t.Error("it is not stopped again")
		}
		if got := c.run(); got != called+"2}}" {
			t.Error(got)
		}
		s.link(2).sink.Lost(errors.New("died"))
		if c.session.State() != proxy.Closed {
			t.Error("the end of the process was not noticed")
		}
	})
}

// State that a new process would not know of keeps the old one running; what is over does not.
func TestProcessWithStateIsNotSuspended(t *testing.T) {
	for name, block := range map[string]func(t *testing.T, c *client) func(){
		"call": func(t *testing.T, c *client) func() {
			_, replies, err := c.begin("tools/call", `{"name":"a","arguments":{}}`)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = replies.Close() }
		},
		"subscription": func(_ *testing.T, c *client) func() { c.call("resources/subscribe", `{"uri":"u"}`); return nil },
		"task": func(_ *testing.T, c *client) func() {
			c.call("tools/call", `{"name":"a","arguments":{},"task":{}}`)
			return nil
		},
		"unsubscription": func(_ *testing.T, c *client) func() {
			c.call("resources/unsubscribe", `{"uri":"u"}`)
			return func() {}
		},
		"refused subscription": func(_ *testing.T, c *client) func() {
			c.s.set(func() {
				c.s.on["resources/subscribe"] = []string{`{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"no"}}`}
			})
			c.call("resources/subscribe", `{"uri":"u"}`)
			return func() {}
		},
		"refused call": func(_ *testing.T, c *client) func() {
			c.s.set(func() { c.s.fails["tools/call"] = proxy.Errf(proxy.Unreachable, "down") })
			c.run()
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			suspending(t, func(t *testing.T, s *server, c *client) {
				end := block(t, c)
				if name == "call" || end == nil {
					time.Sleep(10 * time.Minute)
					if synctest.Wait(); s.open() != 1 {
						t.Error("it was ended")
					}
				}
				if end == nil {
					return
				}
				end()
				time.Sleep(2*time.Minute + time.Second)
				if synctest.Wait(); s.open() != 0 {
					t.Error("it goes on after the call")
				}
			})
		})
	}
}

// A server that settles on another revision after a restart ends the session, since the client relies on the former one.
func TestSuspendedProcessOfAnotherRevision(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, c *client) {
		time.Sleep(2 * time.Minute)
		s.set(func() { s.version = v2503 })
		if got := c.run(); got != proxy.SessionLost.Name {
			t.Errorf("got %v", got)
		}
		if synctest.Wait(); c.session.State() != proxy.Closed || s.open() != 0 {
			t.Errorf("the session is %v, %d processes", c.session.State(), s.open())
		}
	})
}

// A restart that fails is the error of the calls that wait for it; the next call tries again.
func TestSuspendedProcessDoesNotRestart(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, c *client) {
		time.Sleep(2 * time.Minute)
		s.set(func() { s.down = proxy.Errf(proxy.Unreachable, "down") })
		if got := c.run(); got != proxy.Unreachable.Name {
			t.Error(got)
		}
		s.set(func() { s.down, s.on["initialize"] = nil, []string{"broken"} })
		if got := c.run(); got != proxy.Lost.Name || s.open() != 0 {
			t.Error(got, s.open())
		}
		s.set(func() { s.on["initialize"] = nil }) // no answer
		began := time.Now()
		if got := c.run(); got != proxy.UpstreamTimeout.Name || s.open() != 0 || time.Since(began) != c.settings.HandshakeTimeout() {
			t.Error(got, s.open(), time.Since(began))
		}
		s.set(func() { delete(s.on, "initialize") })
		if got := c.run(); !strings.HasPrefix(got, called) {
			t.Error(got)
		}
		time.Sleep(time.Minute + time.Millisecond)
		if synctest.Wait(); s.open() != 0 {
			t.Error("it goes on: the failed calls count")
		}
	})
}

// A cancelled call stops waiting for the process, which the next call uses.
func TestSuspendedProcessCallCancelled(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, c *client) {
		time.Sleep(2 * time.Minute)
		held := make(chan struct{})
		s.set(func() { s.held = held })
		ex := c.exchange(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`)
		done := make(chan error, 1)
		go func() {
			_, _, err := c.x.Do(ex)
			done <- err
		}()
		synctest.Wait()
		ex.Cancel(proxy.ErrCancelled)
		if err := <-done; !errors.Is(err, proxy.ErrCancelled) {
			t.Errorf("got %v", err)
		}
		close(held)
		if got := c.run(); got != called+"1}}" || s.open() != 1 {
			t.Error(got, s.open())
		}
		time.Sleep(time.Minute + time.Millisecond)
		if synctest.Wait(); s.open() != 0 {
			t.Error("it goes on: the cancelled call counts")
		}
	})
}

// A session that ends while its process is started leaves no process; nor does an upstream that closes.
func TestSessionEndsDuringRestart(t *testing.T) {
	for _, whole := range []bool{false, true} {
		suspending(t, func(t *testing.T, s *server, c *client) {
			time.Sleep(2 * time.Minute)
			held := make(chan struct{})
			s.set(func() { s.held = held })
			done := make(chan string, 1)
			go func() { done <- c.run() }()
			synctest.Wait()
			if whole {
				c.group.Close()
			} else {
				c.session.End(proxy.Closed)
			}
			close(held)
			if got := <-done; got != proxy.SessionLost.Name {
				t.Error(got)
			}
			if synctest.Wait(); s.open() != 0 {
				t.Errorf("%d processes", s.open())
			}
			if got := c.x.get(c.session.ID); whole {
				if got := c.run(); got != proxy.ShuttingDown.Name {
					t.Error(got)
				}
			} else if got != nil {
				t.Error("the relay is left")
			}
		})
	}
}
