package proxy

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// inFlight behaves like a map in whatever order requests begin and end.
func TestInFlight(t *testing.T) {
	var f inFlight
	want := map[string]*Exchange{}
	for range 10000 {
		id := strconv.Itoa(rand.IntN(6))
		if rand.IntN(2) == 0 {
			ex := &Exchange{id: []byte(id)}
			f.set(ex)
			want[id] = ex
		} else {
			f.remove([]byte(id))
			delete(want, id)
		}
		for i := range 6 {
			if id := strconv.Itoa(i); f.newest([]byte(id)) != want[id] {
				t.Fatalf("%s: %p, want %p", id, f.newest([]byte(id)), want[id])
			}
		}
		if n := len(f.tickets()); n != len(want) || f.any() != (n > 0) {
			t.Fatalf("%d in flight, want %d", n, len(want))
		}
		if len(want) == 0 && f.rest != nil {
			t.Fatal("an idle session keeps a map")
		}
	}
}
