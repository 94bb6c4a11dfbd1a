package idempotency

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// An idle proxy forgets each answer when its time is over, of either kind, and then sweeps no more.
func TestIdleProxySweepsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Mode: Replay, Window: 16 * time.Minute, Max: 10, Bytes: 1 << 20}, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		session := proxy.NewSession("s", "test", "", proxy.Caller{}, time.Now())
		answered := func(key string, session *proxy.Session) {
			e, _, err := p.enter(&proxy.Exchange{Msg: policytest.Scan(t, aCall), Key: key, Session: session})
			if err != nil {
				t.Fatal(err)
			}
			p.store.finish(e, response{raw: []byte(aResult)}, true)
		}
		answered("first", nil)
		time.Sleep(5 * time.Minute)
		answered("", session)
		time.Sleep(5 * time.Minute)
		answered("last", nil)
		for _, c := range []struct {
			after time.Duration
			kept  int
		}{{6*time.Minute - 1, 3}, {1, 2}, {5*time.Minute - 1, 2}, {1, 1}, {5*time.Minute - 1, 1}, {1, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			p.store.mu.Lock()
			if n, _ := p.store.total(); n != c.kept || p.store.sweeping != (n > 0) {
				t.Errorf("%d answers are kept, want %d; it sweeps: %v", n, c.kept, p.store.sweeping)
			}
			p.store.mu.Unlock()
		}
	})
}

// A failure takes the bytes of its message and of its data, an answer those of its memory.
func TestSizeOfResponses(t *testing.T) {
	for want, r := range map[int]response{0: {}, 8: {raw: make([]byte, 3, 8)}, 5: {err: &proxy.Error{Message: "abc", Data: []byte("de")}}} {
		if got := r.size(); got != want {
			t.Errorf("%+v takes %d bytes, want %d", r, got, want)
		}
	}
}

// An answer that was too large to be kept is refused by what its request is known by.
func TestWhatARequestIsKnownBy(t *testing.T) {
	for key, want := range map[string]string{"": "request id 1 was used before", `a"b`: `idempotency key "a\"b" was used before`} {
		if err := notKept(&proxy.Exchange{Msg: policytest.Scan(t, policytest.Call), Key: key}); !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
