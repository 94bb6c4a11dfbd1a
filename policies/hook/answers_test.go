package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

func TestAnswers(t *testing.T) {
	for text, want := range map[string]answer{
		`{"result":true}`:                              {allow: true},
		` {"decision_id":"1","result" : true } `:       {allow: true},
		`{"result":false}`:                             {},
		`{}`:                                           {},
		`{"result":null}`:                              {},
		`{"result":"true"}`:                            {},
		`{"result":1}`:                                 {},
		`{"result":[true]}`:                            {},
		`{"Result":true}`:                              {},
		`{"result":{}}`:                                {},
		`{"result":{"Allow":true}}`:                    {},
		`{"result":{"allow":"true"}}`:                  {},
		`{"result":{"allow":1}}`:                       {},
		`{"result":{"allow":null,"reason":"r"}}`:       {reason: "r"},
		`{"allow":true}`:                               {},
		`{"result":true,"result":false}`:               {},
		`{"result":{"allow":true,"allow":false}}`:      {},
		`{"result":{"allow":true}}`:                    {allow: true},
		`{"result":{"allow":true,"ttl":5}}`:            {allow: true, ttl: 5 * time.Second},
		`{"result":{"allow":false,"ttl":0.5}}`:         {ttl: time.Second / 2},
		`{"result":{"allow":true,"ttl":3600}}`:         {allow: true, ttl: time.Hour},
		`{"result":{"allow":true,"ttl":1e300}}`:        {allow: true, ttl: time.Hour},
		`{"result":{"allow":true,"ttl":1e999}}`:        {allow: true},
		`{"result":{"allow":true,"ttl":-5}}`:           {allow: true},
		`{"result":{"allow":true,"ttl":"5"}}`:          {allow: true},
		`{"result":{"allow":false,"reason":"\u00e9"}}`: {reason: "é"},
		`{"result":{"allow":false,"reason":7}}`:        {},
	} {
		if got, err := parse([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "true", "[]", `"x"`, "{", `{"result":true`, `{"result":true}}`, `{"result":tru}`, `{"result":true}{}`, "\x00", `{"result":true},"error":{"code":1}`, `{"result":true},"x":{}`} {
		if got, err := parse([]byte(text)); !errors.Is(err, errAnswer) || got.allow {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// An answer is kept as long as it says, for the same question only, whatever the id of the request.
func TestKeptAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Cache: 2, Arguments: policies.Arguments{What: policies.ArgumentsFull}})
		run := func(principal, raw string) error {
			ex := r.exchange(raw)
			ex.Caller.Principal, ex.RequestID = principal, fmt.Sprint("id-", len(r.asked), r.served)
			return policytest.Drain(r.do(ex))
		}
		r.answers(`{"result":{"allow":true,"ttl":10}}`)
		r.wants(run("a", aCall), "", 1, 1)
		r.answers(`{"result":{"allow":false,"reason":"no","ttl":5}}`)
		time.Sleep(10*time.Second - 1)
		r.wants(run("a", aCall), "", 2, 1)
		r.wants(run("b", aCall), "policy_denied", 2, 2)
		time.Sleep(time.Nanosecond)
		r.wants(run("a", aCall), "policy_denied", 2, 3)
		r.wants(run("b", aCall), "policy_denied", 2, 3)
		r.wants(run("a", strings.Replace(aCall, "/a", "/b", 1)), "policy_denied", 2, 4)
		r.wants(run("b", aCall), "policy_denied", 2, 4)
		r.wants(run("a", aCall), "policy_denied", 2, 5) // it was used less recently than that of b: it has gone
		if allows, denies := r.counted("request", "allowed", "cached"), r.counted("request", "denied", "cached"); allows != 1 || denies != 2 {
			t.Errorf("%v and %v answers were cached", allows, denies)
		}
		r.answers(`{"result":true}`)
		time.Sleep(time.Hour)
		r.wants(run("a", aCall), "", 3, 6)
		r.wants(run("a", aCall), "", 4, 7)
		off := newRig(t, Options{})
		off.answers(`{"result":{"allow":true,"ttl":10}}`)
		_, _ = off.run(aCall), off.run(aCall)
		off.wants(nil, "", 2, 2)
	})
}

// together makes requests at a time, and returns how many have failed with each row of the error table.
func together(t *testing.T, r *rig, n int) map[string]int {
	rows := make(chan string, n)
	for range n {
		ex := r.exchange(aCall)
		go func() { rows <- policytest.Row(policytest.Drain(r.do(ex))) }()
	}
	got := map[string]int{}
	for range n {
		got[<-rows]++
	}
	return got
}

// Equal questions at a time are one, if its answer may be kept, or it fails. Otherwise each is asked.
func TestEqualQuestionsShareAnAnswer(t *testing.T) {
	for answer, want := range map[string]struct {
		asked int
		row   string
	}{
		`{"result":{"allow":true,"ttl":1}}`:  {1, ""},
		`{"result":{"allow":false,"ttl":1}}`: {1, "policy_denied"},
		`{"result":true}`:                    {5, ""},
		`{"result":false}`:                   {5, "policy_denied"},
		`none`:                               {1, "policy_unavailable"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Cache: 10, Timeout: 2 * time.Second})
			r.answer = func(context.Context, string) (string, error) {
				time.Sleep(time.Second)
				return answer, nil
			}
			began := time.Now()
			if got := together(t, r, 5); got[want.row] != 5 || len(r.asked) != want.asked {
				t.Errorf("%s: %v, asked %d times", answer, got, len(r.asked))
			}
			if most := time.Second * time.Duration(min(want.asked, 2)); time.Since(began) != most {
				t.Errorf("%s: took %v, want %v", answer, time.Since(began), most)
			}
		})
	}
}

// A client that leaves takes its question along, not those of others: one of these is asked then. The others' time is their own.
func TestTheFirstOfEqualQuestionsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Cache: 10, Timeout: 5 * time.Second})
		r.answer = func(ctx context.Context, _ string) (string, error) {
			select {
			case <-time.After(4 * time.Second):
				return `{"result":{"allow":true,"ttl":1}}`, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		first, errs := r.exchange(aCall), make(chan error, 1)
		go func() { errs <- policytest.Drain(r.do(first)) }()
		synctest.Wait()
		time.AfterFunc(time.Second/2, func() { first.Cancel(proxy.ErrCancelled) })
		if got := together(t, r, 3); got[""] != 3 || len(r.asked) != 2 {
			t.Errorf("%v, asked %d times", got, len(r.asked))
		}
		if err := <-errs; !errors.Is(err, proxy.ErrCancelled) || len(r.failed) != 0 {
			t.Errorf("the first: %v; reported %v", err, r.failed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Cache: 10, Timeout: 5 * time.Second})
		r.answer = func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		go func() { _ = r.run(aCall) }()
		time.Sleep(time.Second)
		second := r.exchange(aCall)
		time.AfterFunc(time.Second, func() { second.Cancel(proxy.ErrCancelled) })
		began := time.Now()
		if err := policytest.Drain(r.do(second)); !errors.Is(err, proxy.ErrCancelled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(10 * time.Second)
	})
}
