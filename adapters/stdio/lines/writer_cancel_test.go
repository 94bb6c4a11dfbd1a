package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Writers are cancelled at any time while the reader is slow: accepted lines arrive complete, once, and in each writer's order; other lines
// do not arrive at all; and the waiting bytes stay within their bound.
func TestWriterCancelledAnywhere(t *testing.T) {
	t.Parallel()
	r, in := testPipe(t)
	const writers, each, buffer = 8, 60, 200_000
	w := NewWriter(in, WriterOptions{Buffer: buffer})
	sizes := []int{10, 300, 20_000, ChunkSize, ChunkSize + 1, 150_000, 500_000}
	var mu sync.Mutex
	accepted := map[string]bool{}
	refused := 0
	var all sync.WaitGroup
	for id := range writers {
		rnd := rand.New(rand.NewPCG(uint64(id), 7))
		all.Go(func() {
			for n := range each {
				size := sizes[rnd.IntN(len(sizes))]
				key := fmt.Sprintf("%d/%d/%d:", id, n, size)
				line := []byte(key + strings.Repeat(string(rune('a'+id)), size))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(3000))*time.Microsecond)
				err := w.WriteParts(ctx, cut(rnd, line, 3)...)
				cancel()
				clear(line) // the caller owns it again
				mu.Lock()
				if err == nil {
					accepted[key] = true
				} else {
					refused++
				}
				mu.Unlock()
				w.mu.Lock()
				if w.held > buffer && w.held > sizes[len(sizes)-1]+100 {
					t.Errorf("%d bytes wait", w.held)
				}
				w.mu.Unlock()
			}
		})
	}
	go func() {
		all.Wait()
		_ = w.Flush(context.Background()) // fails only if the test has
		in.Close()
	}()
	last := make([]int, writers)
	for i := range last {
		last[i] = -1
	}
	lines := NewReader(stutter{r, 5000}, 0)
	for {
		line, err := lines.ReadLine()
		if err == io.EOF {
			break
		}
		must(t, err)
		key := string(line[:bytes.IndexByte(line, ':')+1])
		var id, n, size int
		if _, err := fmt.Sscanf(key, "%d/%d/%d:", &id, &n, &size); err != nil {
			t.Fatalf("%.40q: %v", line, err)
		}
		if n <= last[id] || len(line) != len(key)+size || bytes.Count(line[len(key):], []byte{byte('a' + id)}) != size {
			t.Fatalf("%.40q of %d bytes: damaged, or out of order", line, len(line))
		}
		last[id] = n
		mu.Lock()
		was := accepted[key]
		delete(accepted, key)
		mu.Unlock()
		if !was {
			// It may arrive before its writer knows that it was accepted.
			testkit.Eventually(t, key+" was accepted", func() bool {
				mu.Lock()
				defer mu.Unlock()
				was := accepted[key]
				delete(accepted, key)
				return was
			})
		}
	}
	all.Wait() // they have ended, but the end of a pipe orders nothing for the race detector
	if len(accepted) > 0 {
		t.Errorf("%d lines were accepted and did not arrive", len(accepted))
	}
	if refused == 0 || refused == writers*each {
		t.Errorf("%d of %d were refused: nothing was tested", refused, writers*each)
	}
}

// A large line is written without a copy even if the destination would block, if its writer may wait.
func TestWriterLargeUncopied(t *testing.T) {
	t.Parallel()
	line := bytes.Repeat([]byte("0123456789"), 200_000)
	spy := &spyWriter{line: line}
	w := NewWriter(spy, WriterOptions{})
	must(t, w.WriteParts(context.Background(), []byte(`{"head":`), line, []byte("}")))
	must(t, w.Write([]byte("next")))
	must(t, w.Flush(shortly(t)))
	if got, want := spy.got.String(), `{"head":`+string(line)+"}\nnext\n"; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if spy.uncopied < len(line)-2*largeTail {
		t.Errorf("%d of %d bytes were written without a copy", spy.uncopied, len(line))
	}
}

// spyWriter counts how much of its input lies in line.
type spyWriter struct {
	line     []byte
	mu       sync.Mutex
	got      bytes.Buffer
	uncopied int
}

func (s *spyWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.line {
		if &s.line[i] == &p[0] {
			s.uncopied += len(p)
			break
		}
	}
	return s.got.Write(p)
}
