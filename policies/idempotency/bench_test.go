package idempotency

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// BenchmarkIdempotencyFull measures a call while the store is full, as it is in a busy proxy. Between batches other memory is touched, so
// that what was stored ten thousand calls ago is in no CPU cache. policy-ns/op is the time of the calls alone; ns/op includes making the
// requests.
func BenchmarkIdempotencyFull(b *testing.B) {
	const kept, batch = 10000, 64
	p, err := New(Options{Mode: Replay, Window: 5 * time.Minute, Max: kept, Bytes: 16 << 20}, prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	answer := policytest.Scan(b, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 300)+`"}]}}`)
	replies := &atOnce{m: answer}
	handle := p.Wrap(func(*proxy.Exchange) (proxy.Replies, error) { return replies, nil })
	var sessions [16]*proxy.Session
	for i := range sessions {
		sessions[i] = proxy.NewSession(fmt.Sprint(i), "http", "", proxy.Caller{}, time.Now())
	}
	id, other := 0, make([]byte, 1<<20)
	var exs [batch]*proxy.Exchange
	calls := func(n int) (took time.Duration) {
		for i := range n {
			id++
			m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`, id))
			if err != nil {
				b.Fatal(err)
			}
			exs[i] = &proxy.Exchange{Msg: m, Session: sessions[id*7%len(sessions)]}
		}
		for i := 0; i < len(other); i += 64 {
			other[i]++
		}
		began := time.Now()
		for _, ex := range exs[:n] {
			r, err := handle(ex)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.Next(time.Time{}); err != nil {
				b.Fatal(err)
			}
			_ = r.Close()
		}
		return time.Since(began)
	}
	for range 3 * kept / batch {
		calls(batch)
	}
	if n, _ := p.Kept(); n != kept {
		b.Fatalf("%d are kept", n)
	}
	var took time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= batch {
		took += calls(min(left, batch))
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "policy-ns/op")
}

// atOnce is replies of one response.
type atOnce struct{ m wire.Message }

func (a *atOnce) Next(time.Time) (*wire.Message, error) { return &a.m, nil }
func (a *atOnce) Close() error                          { return nil }
