package proxy

import (
	"errors"
	"testing"

	"dragoman/proxy/wire"
)

func request(t *testing.T, raw string) *Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &Exchange{Msg: m}
}

// order records the order in which exchanges are cancelled.
type order struct {
	all *[]int
	n   int
}

func (o *order) Abort() { *o.all = append(*o.all, o.n) }

// Several requests with one id, where repetitions are allowed: each is removed by itself, and a cancellation reaches all, the newest
// first.
func TestRepeatsInFlight(t *testing.T) {
	const call, ping = `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	s := session()
	if a, b := request(t, call), request(t, call); s.Begin(a) != nil || s.Begin(b) == nil {
		t.Error("a session without repeats accepted one")
	}
	s = session()
	s.Repeats = true
	var cancelled []int
	exs := make([]*Exchange, 5)
	for i := range exs {
		exs[i] = request(t, call)
		exs[i].Attach(&order{&cancelled, i})
		if err := s.Begin(exs[i]); err != nil {
			t.Fatal(err)
		}
	}
	keyed := request(t, call)
	keyed.Key = "k"
	for what, ex := range map[string]*Exchange{"a ping": request(t, ping), "another key": keyed} {
		if err := s.Begin(ex); err == nil || err.Name != DuplicateID.Name {
			t.Errorf("%s under an id in flight: %v", what, err)
		}
	}
	for _, i := range []int{2, 4, 0} { // from the middle, the newest, the oldest
		s.Finish(exs[i])
	}
	s.CancelRequest([]byte("1"))
	if len(cancelled) != 2 || cancelled[0] != 3 || cancelled[1] != 1 {
		t.Errorf("cancelled %v, want 3 and then 1", cancelled)
	}
	s.Finish(exs[1])
	if _, busy := s.Idle(); !busy {
		t.Error("not busy with one in flight")
	}
	s.Finish(exs[3])
	if _, busy := s.Idle(); busy {
		t.Error("busy with none in flight")
	}
	p := request(t, ping)
	if s.Begin(p) != nil {
		t.Error("the id is not free")
	}
	if err := s.Begin(request(t, ping)); err == nil {
		t.Error("two pings under one id")
	}
	s.Finish(p)
	for i := range exs {
		exs[i] = request(t, call)
		_ = s.Begin(exs[i])
	}
	s.End(Closed)
	for i, ex := range exs {
		if !errors.Is(ex.Err(), ErrCancelled) {
			t.Errorf("%d outlives its session: %v", i, ex.Err())
		}
	}
}
