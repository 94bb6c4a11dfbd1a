package health

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// An upstream that is replaced ends its listens, refuses later requests, and waits for the calls that run, as long as it may.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Interval = 0 })
		begin := func(raw string) (*proxy.Exchange, proxy.Replies) {
			t.Helper()
			ex := policytest.Request(t, raw)
			replies, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{Messages: []string{policytest.Result}}, nil
			})(ex)
			if err != nil {
				t.Fatal(err)
			}
			return ex, replies
		}
		listen, listening := begin(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)
		_, gone := begin(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{}}`)
		_ = gone.Close()
		_, first := begin(policytest.Call)
		_, second := begin(policytest.Call)
		_ = k.call(policytest.Unreachable())
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		retired := make(chan error, 1)
		go func() { retired <- k.opt.Running.Retire(ctx) }()
		synctest.Wait()
		if !errors.Is(listen.Err(), proxy.ErrDraining) {
			t.Errorf("the listen: %v", listen.Err())
		}
		if err := k.call(nil); !errors.Is(err, proxy.ErrRetired) {
			t.Errorf("a later request: %v", err)
		}
		_ = listening.Close()
		for n, call := range []proxy.Replies{first, second} {
			if synctest.Wait(); len(retired) != 0 {
				t.Fatalf("it has not waited for call %d", n)
			}
			_ = policytest.Drain(call, nil)
		}
		if err := <-retired; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		idle, busy := NewRunning(), NewRunning()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := idle.Retire(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("without calls: %v", err)
		}
		if err := busy.enter(policytest.Request(t, policytest.Call), false); err != nil {
			t.Fatal(err)
		}
		if err := busy.Retire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that lasts: %v", err)
		}
	})
}
