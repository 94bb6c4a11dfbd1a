package lines

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"dragoman/adapters/stdio/pipe"
	"dragoman/internal/testkit"
)

// stuckWriter returns a Writer with a large line in progress that is not read, the reading end, and the result of that write.
func stuckWriter(t *testing.T) (*Writer, *pipe.Writer, io.Reader, chan error) {
	t.Helper()
	r, in := testPipeOf(t, -1)
	w := NewWriter(in, WriterOptions{Buffer: 64 << 20})
	first := make(chan error, 1)
	go func() { first <- w.Write(bytes.Repeat([]byte("1"), 1<<20)) }()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return w, in, r, first
}

// begin writes a line that has to wait, and returns once it waits.
func begin(t *testing.T, w *Writer, ctx context.Context, line []byte, place int) chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- w.WriteParts(ctx, line) }()
	testkit.Eventually(t, "it waits", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.queue) >= place
	})
	return result
}

// Large lines wait for their turn without a copy, between earlier and later small ones; one whose context ends leaves the queue.
func TestWriterLargeInTurn(t *testing.T) {
	t.Parallel()
	w, in, r, first := stuckWriter(t)
	ctx, cancel := context.WithCancel(t.Context())
	must(t, w.Write([]byte("a")))
	second := begin(t, w, t.Context(), bytes.Repeat([]byte("2"), 1<<20), 2)
	gone := begin(t, w, ctx, bytes.Repeat([]byte("x"), 1<<20), 3)
	must(t, w.Write([]byte("b")))
	third := begin(t, w, t.Context(), bytes.Repeat([]byte("3"), 1<<20), 5)
	w.mu.Lock()
	for _, q := range w.queue {
		if q.slab != nil && len(q.slab.B) > 10 {
			t.Errorf("%d bytes were copied", len(q.slab.B))
		}
	}
	w.mu.Unlock()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	arrived := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(r)
		arrived <- all
	}()
	for _, c := range []chan error{first, second, third} {
		must(t, <-c)
	}
	must(t, w.Flush(shortly(t)))
	in.Close()
	var short []byte
	for line := range bytes.Lines(<-arrived) {
		short = append(short, line[0], byte('0'+len(line)>>18))
	}
	if string(short) != "14a0"+"24"+"b0"+"34" {
		t.Errorf("%s", short)
	}
}

// Waiting writers get an error at once when the Writer fails.
func TestWriterFailsWaitingLargeLines(t *testing.T) {
	t.Parallel()
	w, in, _, first := stuckWriter(t)
	second := begin(t, w, t.Context(), make([]byte, 1<<20), 1)
	cause := errors.New("over")
	w.Fail(cause)
	if err := <-second; err != cause {
		t.Error(err)
	}
	in.Close() // which ends the write in progress
	if err := <-first; err != cause {
		t.Error(err)
	}
}
