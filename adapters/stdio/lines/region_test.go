package lines

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// Kept lines do not change while others are read, and their memory is released by their users.
func TestReaderKeep(t *testing.T) {
	t.Parallel()
	sizes := []int{10, 40_000, 100, 200_000, 70_000, 2 << 20, 5, 600_000, 900_000, 32 << 10, 9 << 20, 1}
	var in bytes.Buffer
	for i, n := range sizes {
		in.Write(append(bytes.Repeat([]byte{byte('a' + i)}, n), '\n'))
	}
	for _, step := range []int{1000, ChunkSize, 1 << 20, 64 << 20} {
		r := NewReader(stutter{bytes.NewReader(in.Bytes()), step}, 0)
		var done sync.WaitGroup
		kept := 0
		for i, n := range sizes {
			line, err := r.ReadLine()
			must(t, err)
			release := r.Keep()
			if release == nil {
				continue
			}
			if n < keepLeast {
				t.Errorf("%d bytes were kept", n)
			}
			kept++
			done.Go(func() {
				defer release()
				if len(line) != n || bytes.Count(line, []byte{byte('a' + i)}) != n {
					t.Errorf("a line of %d bytes was damaged", n)
				}
			})
		}
		if _, err := r.ReadLine(); err != io.EOF {
			t.Error(err)
		}
		done.Wait()
		if kept < 3 {
			t.Errorf("%d of the large lines could be kept", kept)
		}
	}
}

// A line that is small for its buffer is not worth keeping.
func TestReaderKeepsNoSmallPart(t *testing.T) {
	t.Parallel()
	small, large := strings.Repeat("s", 40_000)+"\n", strings.Repeat("l", 200_000)+"\n"
	r := NewReader(strings.NewReader(large+small+small+small), 0)
	for range 2 {
		_, err := r.ReadLine()
		must(t, err)
	}
	if r.Keep() != nil {
		t.Error("40 000 bytes of 256 KiB were kept")
	}
}

// Unused regions are returned to the system.
func TestRegionsCool(t *testing.T) {
	if mapMemory(1<<20) == nil {
		t.Skip("no regions here")
	}
	var p regionPool
	var taken []*slab
	for range warmTotal/warmBytes + 2 {
		taken = append(taken, p.take(1<<20))
	}
	for i, s := range taken {
		if cap(s.B) < regionSize || len(s.B) != 0 || !s.ours {
			t.Fatalf("%d of %d", len(s.B), cap(s.B))
		}
		s.high = warmBytes
		if i == 0 {
			s.high++
		}
		p.put(s)
	}
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.warm)
	}
	if n := count(); n != warmTotal/warmBytes && !proxy.Poison {
		t.Errorf("%d stay", n)
	}
	testkit.Eventually(t, "all are gone", func() bool { return count() == 0 })
	if p.held != 0 {
		t.Errorf("%d bytes are held", p.held)
	}
	s := p.take(2 * regionSize)
	if cap(s.B) < 2*regionSize {
		t.Errorf("%d bytes", cap(s.B))
	}
	p.put(s)
}

// resident is the memory of this process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	must(t, err)
	return pages * os.Getpagesize()
}

// Reading a large line costs its size once, keeping it costs nothing, and releasing it frees the memory at once.
func TestReaderHoldsOnce(t *testing.T) {
	if proxy.Poison || runtime.GOOS != "linux" {
		t.Skip("memory is measured without the race detector, on Linux")
	}
	const size = 60 << 20
	before, slack := resident(t), 8<<20
	var stats, later runtime.MemStats
	runtime.ReadMemStats(&stats)
	r := NewReader(stutter{&filler{size: size, left: 2 * (size + 1)}, 1 << 20}, 0)
	line, err := r.ReadLine()
	must(t, err)
	release := r.Keep()
	if release == nil {
		t.Fatal("not kept")
	}
	if grown := resident(t) - before; grown > len(line)+slack {
		t.Errorf("%d MiB for a line of %d", grown>>20, size>>20)
	}
	release()
	if left := resident(t) - before; left > slack {
		t.Errorf("%d MiB are left", left>>20)
	}
	if _, err := r.ReadLine(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadLine(); err != io.EOF {
		t.Fatal(err)
	}
	if left := resident(t) - before; left > slack {
		t.Errorf("%d MiB are left of a line that was not kept", left>>20)
	}
	runtime.ReadMemStats(&later)
	if heap := later.TotalAlloc - stats.TotalAlloc; heap > 2<<20 {
		t.Errorf("%d KiB of heap", heap>>10)
	}
}

// FuzzWriter writes lines in parts of any size to a destination that accepts any number of bytes, and compares.
func FuzzWriter(f *testing.F) {
	f.Add(uint64(1), uint32(10), uint32(200_000), uint8(3))
	f.Add(uint64(2), uint32(70_000), uint32(66_000), uint8(9))
	f.Add(uint64(3), uint32(0), uint32(ChunkSize), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, a, b uint32, cuts uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var out bytes.Buffer
		w := NewWriter(&out, WriterOptions{MaxLine: 300_000})
		var want bytes.Buffer
		for i, size := range []uint32{a % 300_001, b % 300_001, 1, a % 5000} {
			line := bytes.Repeat(fmt.Appendf(nil, "%d-", i), int(size)/2+1)[:size]
			must(t, w.WriteParts(t.Context(), cut(rnd, line, int(cuts)%20)...))
			want.Write(append(line, '\n'))
		}
		must(t, w.Flush(shortly(t)))
		if !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Errorf("%d bytes, want %d", out.Len(), want.Len())
		}
	})
}

// cut cuts a line into parts, some of them empty.
func cut(rnd *rand.Rand, line []byte, cuts int) (parts [][]byte) {
	for range cuts {
		at := rnd.IntN(len(line) + 1)
		parts = append(parts, line[:at])
		line = line[at:]
	}
	return append(parts, line)
}

// Waiting lines are released when the destination fails, also large lines, which the garbage collector does not see.
func TestWriterFailsWithLargeLines(t *testing.T) {
	if mapMemory(1<<20) == nil {
		t.Skip("no regions here")
	}
	g := &gate{open: make(chan struct{}), enter: make(chan struct{}, 9), err: io.ErrClosedPipe}
	w := NewWriter(g, WriterOptions{MaxLine: 2 << 20, Buffer: 64 << 20})
	before := LargeLines()
	must(t, w.Write([]byte("first")))
	<-g.enter // it is being written: the rest waits
	for range 5 {
		must(t, w.Write(bytes.Repeat([]byte{'x'}, 1<<20)))
	}
	if n := LargeLines(); n < before+5 {
		t.Fatalf("%d large lines wait, and %d before", n, before)
	}
	close(g.open)
	if err := w.Flush(shortly(t)); err == nil {
		t.Error("written to a closed pipe")
	}
	testkit.Eventually(t, "all are given back", func() bool { return LargeLines() <= before })
}
