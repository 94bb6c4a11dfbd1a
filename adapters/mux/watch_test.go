package mux

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// watched is a mux whose server is watched.
type watchedMux struct {
	*Mux
	t     *testing.T
	heard atomic.Uint64
	dead  atomic.Int64 // the number that Dead got
	quiet atomic.Int64 // for how long it had been silent then, in nanoseconds
	stuck atomic.Bool  // the server does not read

	mu    sync.Mutex
	asked []string // requests that ask for a sign of life
	alive bool     // the server answers them
}

func newWatched(t *testing.T, era proxy.Era) *watchedMux {
	w := &watchedMux{t: t}
	w.Mux = NewLines(era, &testLines{write: func(ctx context.Context, parts [][]byte) error {
		raw := bytes.Join(parts, nil)
		if w.stuck.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, method := range []string{`"ping"`, `"server/discover"`} {
			if bytes.Contains(raw, []byte(`"method":`+method)) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.asked = append(w.asked, method)
				if w.alive {
					w.heard.Add(1)
				}
			}
		}
		return nil
	}}, &muxSink{})
	w.Watch(Watch{Heard: w.heard.Load, Limit: 5 * time.Second, Dead: func(silent int, since time.Time) {
		w.dead.Add(int64(silent))
		w.quiet.Store(int64(time.Since(since)))
	}})
	t.Cleanup(func() { w.Fail(errors.New("over")) })
	return w
}

// silent makes calls that are given up together after the given time: by Dragoman, or by their client.
func (w *watchedMux) silent(many int, after time.Duration, left bool) {
	w.t.Helper()
	var calls []proxy.Replies
	var clients []*proxy.Exchange
	for range many {
		ex := muxExchange(w.t, "1", `"tok"`)
		call, err := w.Call(ex)
		if err != nil {
			w.t.Fatal(err)
		}
		calls, clients = append(calls, call), append(clients, ex)
	}
	time.Sleep(after) // in a bubble
	for i, call := range calls {
		if left {
			clients[i].Cancel(proxy.ErrCancelled)
		}
		_ = call.Close()
	}
	synctest.Wait()
}

// was checks what the server was asked, after how many silent calls it counts as dead, and that nothing else is asked later.
func (w *watchedMux) was(dead int64, asked ...string) {
	w.t.Helper()
	time.Sleep(10 * time.Second) // in a bubble
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.asked, " "); got != strings.Join(asked, " ") || w.dead.Load() != dead {
		w.t.Errorf("asked %q, dead after %d; want %q, %d", got, w.dead.Load(), asked, dead)
	}
}

// After three silent calls in a row, the server is asked in its own era for a sign of life, and is dead without one.
func TestWatchFindsTheDead(t *testing.T) {
	for era, method := range map[proxy.Era]string{proxy.Legacy: `"ping"`, proxy.Modern: `"server/discover"`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatched(t, era)
			w.silent(1, 30*time.Second, false)
			w.silent(1, 30*time.Second, false)
			w.was(0)
			w.silent(1, 30*time.Second, false)
			time.Sleep(4 * time.Second)
			if w.dead.Load() != 0 {
				t.Error("it was given up before its time")
			}
			w.was(3, method)
			if got := time.Duration(w.quiet.Load()); got != 3*30*time.Second+10*time.Second+5*time.Second { // was waits, and so does the question
				t.Errorf("silent for %v", got)
			}
			w.silent(1, 30*time.Second, false)
			w.was(3, method) // once
		})
	}
}

// A server that does not even read is dead too.
func TestWatchFindsWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Legacy)
		w.stuck.Store(true)
		for range 3 {
			ex := muxExchange(t, "1", `"tok"`)
			time.AfterFunc(10*time.Second, func() { ex.Cancel(proxy.ErrCancelled) })
			if _, err := w.Call(ex); err == nil {
				t.Fatal("the call was written")
			}
		}
		w.was(3)
	})
}

// What comes from the server shows that it lives: in answer to the question, or between silent calls.
func TestWatchHearsSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Legacy)
		w.alive = true
		for range 3 {
			w.silent(1, 10*time.Second, false)
		}
		w.was(0, `"ping"`)
		w.silent(1, 10*time.Second, false)
		w.silent(1, 10*time.Second, false)
		w.was(0, `"ping"`)
		w.heard.Add(1) // a log message, say
		w.silent(1, 10*time.Second, false)
		w.silent(1, 10*time.Second, false)
		w.was(0, `"ping"`)
		w.silent(1, 10*time.Second, false)
		w.was(0, `"ping"`, `"ping"`)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Legacy)
		for range 9 {
			ex := muxExchange(t, "1", `"tok"`)
			call, err := w.Call(ex)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			w.heard.Add(1) // its progress
			time.Sleep(5 * time.Second)
			_ = call.Close()
		}
		w.was(0)
	})
}

// Calls that were under way together count once, those of clients that leave soon not at all, nor do listens.
func TestWatchCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Modern)
		w.silent(5, 10*time.Second, false)
		w.silent(5, 10*time.Second, true)
		for range 5 {
			w.silent(1, 2*time.Second, true)
		}
		listen, err := transport.NewExchange(proxy.Modern, []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		call, err := w.Call(listen)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		_ = call.Close()
		w.was(0)
		w.silent(1, 4*time.Second, true)
		w.was(3, `"server/discover"`)
	})
}

// While an older call is under way, whose work may keep the server from answering, it is not asked.
func TestWatchWaitsForOlderCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Legacy)
		older, err := w.Call(muxExchange(t, "1", `"tok"`))
		if err != nil {
			t.Fatal(err)
		}
		listen, err := transport.NewExchange(proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Call(listen); err != nil { // lasts, and keeps nobody from answering
			t.Fatal(err)
		}
		for range 5 {
			w.silent(1, 10*time.Second, false)
		}
		w.was(0)
		_ = older.Close()
		w.was(5, `"ping"`)
	})
}

// A call on a channel that has failed asks nobody.
func TestWatchIsOverWithTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, proxy.Legacy)
		w.silent(1, 10*time.Second, false)
		w.silent(1, 10*time.Second, false)
		w.silent(1, 10*time.Second, false)
		w.Fail(errors.New("the process has ended"))
		w.was(0, `"ping"`)
	})
}
