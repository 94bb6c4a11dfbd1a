package idempotency

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Once as many requests are remembered as may be, remembering another takes the memory of the one that is forgotten for it, but not
// of one whose answer was given again: whoever got that may still be reading it.
func TestFullShelvesTakeNoMemory(t *testing.T) {
	p, err := New(Options{Mode: Replay, Window: time.Hour, Max: 8, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	answer, err := wire.Scan([]byte(aResult))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	exs := make([]*proxy.Exchange, 400)
	for i := range exs {
		m, err := wire.Scan([]byte(aCall))
		if err != nil {
			t.Fatal(err)
		}
		exs[i] = &proxy.Exchange{Msg: m, Key: fmt.Sprint("key", i)}
	}
	remember := func() *memo {
		m, w, err := p.enter(exs[n])
		if n++; err != nil || w != nil || m.over {
			t.Fatal("it is known already", err)
		}
		p.settle(m, outcomeOf{raw: answer.Append(m.room(len(answer.Raw)))}, true)
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
		t.Fatal("a repeat finds another", err)
	}
	n++
	raw := string(held.raw)
	for range 20 {
		if remember() == held {
			t.Fatal("what a repeat holds is another's")
		}
	}
	if string(held.raw) != raw {
		t.Errorf("it became %s", held.raw)
	}
}
