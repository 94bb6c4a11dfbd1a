package limits

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// A listen ends with the credential of its client, in the way a drain ends it. Without an expiry it goes on, and so do other requests.
func TestListensExpire(t *testing.T) {
	const rawListen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
	synctest.Test(t, func(t *testing.T) {
		h := Listens(10, 10)(func(*proxy.Exchange) (proxy.Replies, error) { return &policytest.Script{End: proxy.ErrNotYet}, nil })
		open := func(raw string, ends time.Time, own bool) (*proxy.Exchange, proxy.Replies) {
			ex := policytest.Request(t, raw)
			ex.Caller, ex.Own = proxy.Caller{Principal: "a", Rights: &proxy.Rights{Kind: "jwt", Expires: ends}}, own
			replies, err := h(ex)
			if err != nil {
				t.Fatal(err)
			}
			return ex, replies
		}
		soon := time.Now().Add(time.Minute)
		ends, _ := open(rawListen, soon, false)
		closed, replies := open(rawListen, soon, false)
		_ = replies.Close()
		var stay []*proxy.Exchange
		for _, s := range []struct {
			raw  string
			ends time.Time
			own  bool
		}{{rawListen, time.Time{}, false}, {rawListen, soon.Add(time.Hour), false}, {rawListen, soon, true}, {policytest.Call, soon, false}} {
			ex, _ := open(s.raw, s.ends, s.own)
			stay = append(stay, ex)
		}
		time.Sleep(time.Minute - 1)
		if synctest.Wait(); ends.Err() != nil {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); !errors.Is(ends.Err(), proxy.ErrDraining) {
			t.Errorf("%v", ends.Err())
		}
		for i, ex := range append(stay, closed) {
			if ex.Err() != nil {
				t.Errorf("%d: %v", i, ex.Err())
			}
		}
	})
}
