package work

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A group runs goroutines until it is closed; those that hold a table's lock may start one even then. Wait waits for all.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(nil)
		g.Note("info", "nobody reads this", nil)
		ran := make(chan string, 3)
		block := make(chan struct{})
		if !g.Spawn(func() { <-block; ran <- "spawned" }) || g.Closed() {
			t.Error("an open group spawns nothing")
		}
		g.Close()
		if g.Spawn(func() { ran <- "late" }) || !g.Closed() {
			t.Error("a closed group spawns")
		}
		g.Go(func() { <-g.Context().Done(); ran <- "gone" })
		waited := make(chan struct{})
		go func() { g.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait did not wait")
		case got := <-ran:
			t.Errorf("%s ran", got)
		default:
		}
		g.Cancel()
		if got := <-ran; got != "gone" {
			t.Error(got)
		}
		close(block)
		<-waited
		if got := <-ran; got != "spawned" || len(ran) != 0 {
			t.Error(got, len(ran))
		}
	})
	var noted []string
	New(func(level, msg string, err error) { noted = append(noted, level, msg, err.Error()) }).Note("warn", "m", errors.New("e"))
	if strings.Join(noted, " ") != "warn m e" {
		t.Errorf("%q", noted)
	}
	if ErrClosing().Name != proxy.ShuttingDown.Name {
		t.Error(ErrClosing())
	}
}

// CloseAll closes many at a time, waits for all and joins their errors.
func TestCloseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []func() error
		began := time.Now()
		one, two := errors.New("one"), errors.New("two")
		for i, err := range []error{one, nil, two} {
			all = append(all, func() error { time.Sleep(time.Duration(i+1) * time.Second); return err })
		}
		err := CloseAll(all)
		if d := time.Since(began); d != 3*time.Second || !errors.Is(err, one) || !errors.Is(err, two) {
			t.Errorf("%v after %s", err, d)
		}
		if err := CloseAll(nil); err != nil {
			t.Error(err)
		}
	})
}

// Pause ends with the signal or at the time, whichever is first.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		for _, c := range []struct {
			after, limit time.Duration
			want         bool
		}{{time.Second, 0, true}, {time.Second, 2 * time.Second, true}, {2 * time.Second, time.Second, false}, {0, time.Second, true}} {
			began, until := time.Now(), time.Time{}
			if c.limit > 0 {
				until = began.Add(c.limit)
			}
			timer := time.AfterFunc(c.after, func() { wake <- struct{}{} })
			got := Pause(wake, until)
			want := c.after
			if !c.want {
				want = c.limit
			}
			if d := time.Since(began); got != c.want || d != want {
				t.Errorf("%+v: %v after %s", c, got, d)
			}
			if !c.want {
				timer.Stop()
			}
		}
	})
}

// link records what it is sent; it takes an hour for that if slow.
type link struct {
	slow bool
	sent []string
}

func (l *link) Call(*proxy.Exchange) (proxy.Replies, error) { return nil, nil }
func (l *link) Close() error                                { return nil }
func (l *link) Send(ctx context.Context, msg []byte) error {
	if l.slow {
		<-ctx.Done()
		return ctx.Err()
	}
	l.sent = append(l.sent, string(msg))
	return nil
}

// A question that no client can answer is answered here: ping with a result, all others with an error. It waits for nothing, and a
// server that does not read is given up.
func TestRefuse(t *testing.T) {
	for _, c := range []struct{ method, want string }{
		{"ping", `{"jsonrpc":"2.0","id":"q","result":{}}`},
		{"roots/list", `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"roots/list is not supported in this context: no call of a client that declared it is under way"}}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			var noted []string
			g := New(func(level, msg string, _ error) { noted = append(noted, level+" "+msg) })
			m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"q","method":"` + c.method + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			l := &link{}
			g.Refuse(nil, &m)
			g.Refuse(l, &m)
			synctest.Wait()
			if len(l.sent) != 1 || l.sent[0] != c.want || len(noted) != 0 {
				t.Errorf("sent %q, noted %q, want %s", l.sent, noted, c.want)
			}
			began := time.Now()
			g.Refuse(&link{slow: true}, &m)
			if time.Since(began) != 0 {
				t.Error("waits")
			}
			g.Close()
			g.Wait()
			if d := time.Since(began); d != AnswerTime || len(noted) != 1 || !strings.HasPrefix(noted[0], "debug ") {
				t.Errorf("given up after %s, noted %q", d, noted)
			}
			g.Refuse(l, &m)
			if synctest.Wait(); len(l.sent) != 1 {
				t.Error("a closed group sends")
			}
			g.Cancel()
			g.Answer(g.Context(), &link{slow: true}, nil)
		})
	}
}
