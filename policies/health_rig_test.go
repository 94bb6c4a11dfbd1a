package policies

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// statusErr is an HTTP status.
type statusErr int

func (s statusErr) Error() string   { return "HTTP status" }
func (s statusErr) HTTPStatus() int { return int(s) }

func unreachable() error { return proxy.Errf(proxy.Unreachable, "no way: %w", syscall.ECONNREFUSED) }

func answer5xx() error { return proxy.Errf(proxy.HTTPStatus, "it answered %w", statusErr(502)) }

// kept is an upstream with its state, in a bubble of its own time.
type kept struct {
	*Health
	t       *testing.T
	mu      sync.Mutex
	err     error // what checks find
	hang    bool  // checks are not answered
	checks  int
	changes []HealthChange
	warned  []string
	began   time.Time
}

func keep(t *testing.T, change func(*HealthOptions)) *kept {
	t.Helper()
	k := &kept{t: t, began: time.Now()}
	opt := HealthOptions{Name: "up", Interval: 30 * time.Second, Timeout: 5 * time.Second,
		Check: func(ctx context.Context) error {
			k.mu.Lock()
			k.checks++
			err, hang := k.err, k.hang
			k.mu.Unlock()
			if hang {
				<-ctx.Done()
				return ctx.Err()
			}
			return err
		},
		Changed: func(c HealthChange) { k.changes = append(k.changes, c) },
		Warned:  func(text string) { k.warned = append(k.warned, text) }}
	if change != nil {
		change(&opt)
	}
	k.Health = NewHealth(opt)
	k.Start()
	t.Cleanup(k.Close)
	return k
}

func (k *kept) find(err error, hang bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err, k.hang = err, hang
}

func (k *kept) is(want State) {
	k.t.Helper()
	synctest.Wait()
	if r := k.Now(); r.State != want {
		k.t.Fatalf("after %v: %+v, want %s", time.Since(k.began), r, want)
	}
}

func request(t *testing.T, raw string) *proxy.Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}}
}

const (
	rawCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`
	rawList   = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	rawResult = `{"jsonrpc":"2.0","id":1,"result":{}}`
	rawError  = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"tool"}}`
	rawNote   = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
)

// run makes a request that ends as it is told.
func run(t *testing.T, p proxy.Policy, raw string, err error) error {
	t.Helper()
	return drainAll(p(func(*proxy.Exchange) (proxy.Replies, error) {
		if err != nil {
			return nil, err
		}
		return &script{messages: []string{rawResult}, err: io.EOF}, nil
	})(request(t, raw)))
}

// drainAll reads replies to their end.
func drainAll(replies proxy.Replies, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Time{})
		if err != nil {
			return err
		}
		if m.IsResponse() {
			return nil
		}
	}
}

func (k *kept) call(err error) error { k.t.Helper(); return run(k.t, k.Policy, rawCall, err) }

func errName(err error) string {
	var e *proxy.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return ""
}
