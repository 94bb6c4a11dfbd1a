package transport

import (
	"sync"
	"testing"
)

// No two links have an id in common, and each knows whose an id is, until a link ends.
func TestIDs(t *testing.T) {
	var a, b IDs
	seen := map[uint64]bool{}
	last := map[*IDs]uint64{}
	for i := range 3 * blockSize {
		for _, x := range []*IDs{&a, &b} {
			id := x.Next()
			if seen[id] || id < firstBlock*blockSize || id >= lastBlock*blockSize {
				t.Fatalf("id %d: %v", id, seen[id])
			}
			if i%blockSize != 0 && id != last[x]+1 {
				t.Fatalf("%d after %d", id, last[x])
			}
			seen[id], last[x] = true, id
		}
	}
	for id, want := range map[uint64]Stray{last[&a]: Late, last[&a] - 2*blockSize: Late, last[&b]: Foreign, 0: Unknown, 1: Unknown, 1 << 40: Unknown} {
		if got := a.Of(id); got != want {
			t.Errorf("%d: %s, want %s", id, got, want)
		}
	}
	b.Release()
	if got := a.Of(last[&b]); got != Unknown {
		t.Errorf("of a link that has ended: %s", got)
	}
	if again := b.Next(); seen[again] && again != last[&b]+1 { // it may still send a cancellation
		t.Errorf("%d was used before", again)
	}
	for range 2 * blockSize {
		b.Next()
	}
	if got := b.Of(b.Next()); got != Unknown {
		t.Errorf("a link that has ended reserves ids: %s", got)
	}
	a.Release()
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	if n := len(blocks.owners); n != 0 {
		t.Errorf("%d blocks are left", n)
	}
}

// A link keeps its most recent blocks only; numbers begin anew at the end, and skip what is in use.
func TestIDsAreBounded(t *testing.T) {
	var old, a IDs
	defer a.Release()
	defer old.Release()
	blocks.mu.Lock()
	blocks.next = firstBlock
	blocks.mu.Unlock()
	kept := old.Next()
	if kept != firstBlock*blockSize {
		t.Fatal(kept)
	}
	blocks.mu.Lock()
	blocks.next = lastBlock - 1
	blocks.mu.Unlock()
	first := a.Next()
	if first != (lastBlock-1)*blockSize {
		t.Errorf("the last block begins with %d", first)
	}
	for range blockSize {
		if a.Next() == kept {
			t.Fatal("an id that is in use")
		}
	}
	if next := a.Next(); next != (firstBlock+1)*blockSize+1 {
		t.Errorf("after the end %d", next)
	}
	for range maxBlocks * blockSize {
		a.Next()
	}
	if len(a.all) != maxBlocks || old.Of(first) != Unknown || old.Of(a.Next()) != Foreign {
		t.Errorf("%d blocks, the first is %s", len(a.all), old.Of(first))
	}
}

// Links mint and ask concurrently.
func TestIDsConcurrently(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var x IDs
			defer x.Release()
			for range 10 * blockSize {
				if got := x.Of(x.Next()); got != Late {
					t.Error(got)
				}
			}
		})
	}
	all.Wait()
}

// A process begins anywhere in the lower half.
func TestIDsBeginAtRandom(t *testing.T) {
	seen := map[uint64]bool{}
	for range 100 {
		b := randomBlock()
		if b < firstBlock || b >= lastBlock/2 {
			t.Fatal(b)
		}
		seen[b] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d of 100", len(seen))
	}
}

// watching is a Sink that counts strays.
type watching struct {
	Discard
	of Stray
}

func (w *watching) Stray(of Stray) { w.of = of }

// Only a Sink that wants to know is told.
func TestReport(t *testing.T) {
	w := &watching{}
	Report(w, Foreign)
	Report(Discard{}, Late)
	if w.of != Foreign {
		t.Error(w.of)
	}
}
