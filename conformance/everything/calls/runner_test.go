package calls

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A call is at most queueSize messages ahead of its reader.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(func(_ proxy.Era, _, members string) []byte { return []byte("{" + members + "}") })
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"log"}}`))
		if err != nil {
			t.Fatal(err)
		}
		ex := &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: "2026-07-28"}}
		q, refusal := r.Query(ex, m)
		if refusal != nil {
			t.Fatal(refusal)
		}
		sent := 0
		replies, err := r.Run(ex, q, func(c *Call) Outcome {
			for c.notify("notifications/message", `{"n":`+strconv.Itoa(sent)+`}`) {
				sent++
			}
			return Outcome{}
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the call is blocked now
		if sent != queueSize {
			t.Errorf("%d messages queued, want %d", sent, queueSize)
		}
		if _, err = replies.Next(time.Time{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if sent != queueSize+1 {
			t.Errorf("%d messages sent after one was read, want %d", sent, queueSize+1)
		}
		_ = replies.Close()
		if r.Stopped() != 1 {
			t.Errorf("%d calls stopped, want 1", r.Stopped())
		}
	})
}
