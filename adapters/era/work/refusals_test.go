package work

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy/wire"
)

// paced is a link on which each message takes a time.
type paced struct {
	link
	takes time.Duration

	mu        sync.Mutex
	now, most int // messages being sent
	got       []string
}

func (l *paced) Send(ctx context.Context, msg []byte) error {
	l.mu.Lock()
	l.now++
	l.most = max(l.most, l.now)
	l.mu.Unlock()
	defer func() { l.mu.Lock(); l.now--; l.mu.Unlock() }()
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, string(msg))
	return nil
}

func ping(t *testing.T, id string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"` + id + `","method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// A server that asks without end is answered one question after the other, in order and not faster than it may be; a bounded number of
// its questions waits, and the log says how many got no answer. Another link is not delayed.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var noted []string
		g := New(func(level, msg string, err error) { noted = append(noted, fmt.Sprint(level, " ", msg, ": ", err)) })
		flooded, other := &paced{takes: time.Millisecond}, &paced{takes: time.Millisecond}
		for i := range 20000 {
			g.Refuse(flooded, ping(t, fmt.Sprint(i)))
		}
		began := time.Now()
		g.Refuse(other, ping(t, "x"))
		time.Sleep(2 * time.Millisecond)
		if other.mu.Lock(); len(other.got) != 1 {
			t.Error("another link waits")
		}
		other.mu.Unlock()
		g.Close()
		g.Wait()
		if took, least := time.Since(began), (refusalsWaiting-refusalsBurst-1)*refusalsPause; took < least || took > 2*least {
			t.Errorf("the answers took %v", took)
		}
		if flooded.most != 1 || len(flooded.got) < refusalsWaiting || len(flooded.got) > refusalsWaiting+1 {
			t.Fatalf("%d answers, %d at a time", len(flooded.got), flooded.most)
		}
		last := -1
		for _, raw := range flooded.got {
			var id int
			if _, err := fmt.Sscanf(raw, `{"jsonrpc":"2.0","id":"%d","result":{}}`, &id); err != nil || id <= last {
				t.Fatalf("%s after %d: %v", raw, last, err)
			}
			last = id
		}
		if len(noted) != 1 || !strings.HasPrefix(noted[0], "warn the server asks more than it takes answers") || !strings.Contains(noted[0], fmt.Sprintf(" %d questions", 20000-len(flooded.got))) {
			t.Errorf("%q", noted)
		}
		if len(g.refusals.links) != 0 {
			t.Error("it remembers links")
		}
		g.Cancel()
	})
	synctest.Test(t, func(t *testing.T) { // large ids, and a server that reads nothing
		g := New(nil)
		l := &paced{takes: time.Hour}
		for range 20 {
			g.Refuse(l, ping(t, strings.Repeat("x", 100<<10)))
		}
		g.refusals.mu.Lock()
		n := len(g.refusals.links[l].waiting)
		g.refusals.mu.Unlock()
		if n < 9 || n > 10 {
			t.Errorf("%d answers of 100 KiB wait", n)
		}
		began := time.Now()
		g.Close()
		if g.Wait(); time.Since(began) != AnswerTime {
			t.Errorf("it was given up after %v", time.Since(began))
		}
		g.Cancel()
	})
}
