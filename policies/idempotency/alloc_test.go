package idempotency

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// A full store reuses the memory of an evicted response, unless a duplicate has the response and may still read it.
func TestFullStoreMakesNoGarbage(t *testing.T) {
	p, err := New(Options{Mode: Replay, Window: time.Hour, Max: 8, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	answer := policytest.Scan(t, aResult)
	n := 0
	exs := make([]*proxy.Exchange, 400)
	for i := range exs {
		m := policytest.Scan(t, aCall)
		exs[i] = &proxy.Exchange{Msg: m, Key: fmt.Sprint("key", i)}
	}
	remember := func() *entry {
		m, w, err := p.enter(exs[n])
		if n++; err != nil || w != nil || m.over {
			t.Fatal("known already", err)
		}
		p.store.finish(m, response{raw: answer.Append(m.room(len(answer.Raw)))}, true)
		return m
	}
	for range 100 {
		remember()
	}
	if got := testing.AllocsPerRun(100, func() { remember() }); got != 0 {
		t.Errorf("%v allocations for a request", got)
	}
	held := remember()
	n--
	if again, _, err := p.enter(exs[n]); err != nil || again != held {
		t.Fatal("a duplicate found another entry", err)
	}
	n++
	raw := string(held.raw)
	for range 20 {
		if remember() == held {
			t.Fatal("the entry of a duplicate was reused")
		}
	}
	if string(held.raw) != raw {
		t.Errorf("the response became %s", held.raw)
	}
}
