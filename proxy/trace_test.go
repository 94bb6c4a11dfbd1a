package proxy

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
)

func TestRequestIDs(t *testing.T) {
	uuid4 := regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
	seen := map[string]bool{}
	for range 640 {
		id := NewRequestID()
		if !uuid4.MatchString(id) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
	for range 1000 {
		v := rand.Uint32()
		want := fmt.Sprintf("%08x", v)
		got := hexadecimal(uint64(v))
		for i := range 8 {
			if byte(got>>(56-8*i)) != want[i] {
				t.Fatalf("%x is not %s", got, want)
			}
		}
	}
}

// A recycled exchange has no values of its predecessor, and a ticket of the predecessor cannot cancel it.
func TestRecycle(t *testing.T) {
	if Poison {
		t.Skip("nothing is recycled under the race detector")
	}
	ex := Borrow()
	ex.Server, ex.Key, ex.Headers = "a", "b", []Header{{Name: "c"}}
	ex.GiveUp(1)
	memory := Lend[lent](ex, SlotDownstream)
	memory.used = true
	if again := Lend[lent](ex, SlotDownstream); again == memory || again.used {
		t.Error("memory was lent twice")
	}
	none, beyond := Lend[lent](ex, slots), Lend[lent](ex, slots)
	if none.used = true; beyond.used {
		t.Error("memory was lent twice where no room is left")
	}
	ticket := ex.Ticket()
	ex.Release()
	ex.Recycle()
	if memory.used {
		t.Error("what was lent is not cleared")
	}
	ticket.Cancel(ErrCancelled)
	if ex.Err() != nil {
		t.Error("a ticket outlives its exchange")
	}
	if ex.Server+ex.Key != "" || ex.Headers != nil || ex.Clock != (Clock{}) || !ex.Began().IsZero() || ex.Limit() != 0 {
		t.Errorf("%+v", ex)
	}

	kept := Borrow()
	_ = kept.Done()
	kept.Release()
	kept.Server = "waited for"
	kept.Recycle()
	if kept.Server == "" {
		t.Error("an exchange with waiters was recycled")
	}
}

type lent struct{ used bool }

func (l *lent) Clear() { *l = lent{} }
