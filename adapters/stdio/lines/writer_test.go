package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/stdio/pipe"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// gate is a destination that accepts bytes when the test says so.
type gate struct {
	mu    sync.Mutex
	got   bytes.Buffer
	calls int
	open  chan struct{} // nil: open; closed: open from now on
	enter chan struct{} // receives each call
	err   error
}

func (g *gate) Write(p []byte) (int, error) {
	if g.enter != nil {
		g.enter <- struct{}{}
	}
	if g.open != nil {
		<-g.open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.err != nil {
		return 0, g.err
	}
	return g.got.Write(p)
}

func (g *gate) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.String()
}

func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestWriterGathers(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), enter: make(chan struct{}, 99)}
	w := NewWriter(g, WriterOptions{})
	must(t, w.Write([]byte("first")))
	<-g.enter // it is being written: the rest is gathered
	want := "first\n"
	for i := range 50 {
		must(t, w.Write(fmt.Appendf(nil, "line %d", i)))
		want += fmt.Sprintf("line %d\n", i)
	}
	close(g.open)
	must(t, w.Flush(shortly(t)))
	if g.text() != want || g.calls != 2 {
		t.Errorf("%d calls wrote %q", g.calls, g.text())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	g := &gate{}
	w := NewWriter(g, WriterOptions{MaxLine: 5})
	var nl *EmbeddedNewlineError
	if err := w.Write([]byte("ab\nc")); !errors.As(err, &nl) || nl.At != 2 {
		t.Errorf("LF: %v", err)
	}
	if err := w.Write([]byte("a\rb\n")); !errors.As(err, &nl) || nl.At != 1 {
		t.Errorf("CR: %v", err)
	}
	var long *LineTooLongError
	if err := w.Write([]byte("123456")); !errors.As(err, &long) || long.Limit != 5 || long.Size != 6 {
		t.Errorf("long: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.WriteParts(ended, []byte("a")); err != context.Canceled {
		t.Errorf("ended: %v", err)
	}
	must(t, w.Write([]byte("12345")))
	must(t, w.Flush(shortly(t)))
	if g.text() != "12345\n" {
		t.Errorf("wrote %q", g.text())
	}
}

// waiting polls until n writers wait.
func waiting(t *testing.T, w *Writer, n int) {
	t.Helper()
	testkit.Eventually(t, "writers wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == n
	})
}

func TestWriterBounds(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), enter: make(chan struct{}, 99)}
	w := NewWriter(g, WriterOptions{Buffer: 20})
	must(t, w.Write([]byte("a line longer than the buffer")))
	<-g.enter

	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- w.WriteParts(ctx, []byte("cancelled in time")) }()
	waiting(t, w, 1)
	second := make(chan error, 1)
	go func() { second <- w.Write([]byte("second")) }()
	waiting(t, w, 2)
	cancel()
	if err := <-left; err != context.Canceled {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-second:
		t.Fatalf("there was no room, but: %v", err)
	default:
	}
	close(g.open)
	must(t, <-second)
	must(t, w.Flush(shortly(t)))
	if got := g.text(); got != "a line longer than the buffer\nsecond\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestWriterServesInOrder(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), enter: make(chan struct{}, 99)}
	w := NewWriter(g, WriterOptions{Buffer: 12})
	must(t, w.Write([]byte("123456789")))
	<-g.enter
	big := make(chan error, 1)
	go func() { big <- w.Write([]byte("a big one, which must not starve")) }()
	waiting(t, w, 1)
	small := make(chan error, 1) // which would fit
	go func() { small <- w.Write([]byte("s")) }()
	waiting(t, w, 2)
	close(g.open)
	must(t, <-big)
	must(t, <-small)
	must(t, w.Flush(shortly(t)))
	if got := g.text(); got != "123456789\na big one, which must not starve\ns\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestWriterShutAndFail(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{}), enter: make(chan struct{}, 99)}
	w := NewWriter(g, WriterOptions{Buffer: 6})
	must(t, w.Write([]byte("first")))
	<-g.enter
	waits := make(chan error, 1)
	go func() { waits <- w.Write([]byte("waits")) }()
	waiting(t, w, 1)
	over := errors.New("over")
	w.Shut(over)
	if err := <-waits; err != over {
		t.Errorf("a waiting writer: %v", err)
	}
	if err := w.Write([]byte("x")); err != over {
		t.Errorf("a later writer: %v", err)
	}
	close(g.open)
	must(t, w.Flush(shortly(t)))
	if g.text() != "first\n" {
		t.Errorf("wrote %q", g.text())
	}
	dead := errors.New("dead")
	w.Fail(dead)
	var refused *RefusedError
	if err := w.Write([]byte("x")); !errors.As(err, &refused) || refused.Cause != dead || !errors.Is(err, dead) || err.Error() != "dead" {
		t.Errorf("after Fail: %v", err)
	}
	if err := w.Flush(shortly(t)); err != dead {
		t.Errorf("Flush after Fail: %v", err)
	}
	again := errors.New("again")
	w.Fail(again)
	if err := w.Write([]byte("x")); !errors.Is(err, again) {
		t.Errorf("after another Fail: %v", err)
	}
}

func TestWriterReportsBrokenDestination(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	g := &gate{err: broken, open: make(chan struct{}), enter: make(chan struct{}, 9)}
	w := NewWriter(g, WriterOptions{Buffer: 3})
	must(t, w.Write([]byte("x"))) // accepted; the failure shows later
	<-g.enter
	waits := make(chan error, 1)
	go func() { waits <- w.Write([]byte("waits")) }()
	waiting(t, w, 1)
	close(g.open)
	if err := <-waits; !errors.Is(err, broken) {
		t.Errorf("a waiting writer: %v", err)
	}
	if err := w.Flush(shortly(t)); !errors.Is(err, broken) {
		t.Errorf("Flush: %v", err)
	}
	if err := w.Write([]byte("y")); !errors.Is(err, broken) {
		t.Errorf("later: %v", err)
	}
}

// testPipe returns both ends of a pipe, with the writing end as a Process uses it.
func testPipe(t testing.TB) (*os.File, *pipe.Writer) {
	t.Helper()
	return testPipeOf(t, pipe.DefaultSize)
}

func testPipeOf(t testing.TB, size int) (*os.File, *pipe.Writer) {
	t.Helper()
	r, f, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := pipe.NewWriter(f, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); r.Close() })
	return r, in
}

// Lines of every size from many goroutines arrive complete, and each goroutine's in order.
func TestWriterManyThroughPipe(t *testing.T) {
	t.Parallel()
	r, in := testPipe(t)
	w := NewWriter(in, WriterOptions{Buffer: 1 << 20})
	const writers, each = 16, 60
	sizes := []int{0, 10, 300, 5000, ChunkSize - 1, ChunkSize, ChunkSize + 1, 400_000}
	var all sync.WaitGroup
	for id := range writers {
		all.Go(func() {
			for n := range each {
				pad := strings.Repeat(string(rune('a'+id)), sizes[(id+n)%len(sizes)])
				ctx, cancel := context.WithCancel(context.Background())
				if err := w.WriteParts(ctx, fmt.Appendf(nil, "%d %d %s", id, n, pad)); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	go func() {
		all.Wait()
		_ = w.Flush(context.Background())
		in.Close()
	}()
	next := make([]int, writers)
	lines := NewReader(r, 0)
	for {
		line, err := lines.ReadLine()
		if err == io.EOF {
			break
		}
		must(t, err)
		var id, n int
		if _, err := fmt.Sscanf(string(line[:min(len(line), 20)]), "%d %d", &id, &n); err != nil {
			t.Fatalf("%.40q: %v", line, err)
		}
		head := fmt.Sprintf("%d %d ", id, n)
		if want := sizes[(id+n)%len(sizes)]; n != next[id] || len(line) != len(head)+want ||
			bytes.Count(line, []byte{byte('a' + id)}) != want {
			t.Fatalf("%.40q of %d bytes: damaged or out of order", line, len(line))
		}
		next[id]++
	}
	for id, n := range next {
		if n != each {
			t.Errorf("%d of writer %d arrived", n, id)
		}
	}
}

// A large line that is half written when its context ends is written completely, and the caller does not wait for it.
func TestWriterLargeLineCancelled(t *testing.T) {
	t.Parallel()
	r, in := testPipeOf(t, -1)
	w := NewWriter(in, WriterOptions{})
	line := bytes.Repeat([]byte("L"), 3<<20)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- w.WriteParts(ctx, line) }()
	first := make([]byte, 1)
	if _, err := io.ReadFull(r, first); err != nil { // it has begun and cannot end, because nothing is read
		t.Fatal(err)
	}
	cancel()
	must(t, <-result)
	must(t, w.Write([]byte("next")))
	rest := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(r)
		rest <- all
	}()
	must(t, w.Flush(shortly(t)))
	in.Close()
	if got := <-rest; string(got) != string(line[1:])+"\nnext\n" {
		t.Errorf("%d bytes arrived, ending in %q", len(got), got[max(0, len(got)-20):])
	}
}

// The steady state of small lines, reader included, allocates nothing.
func TestLinesAllocateNothing(t *testing.T) {
	if proxy.Poison {
		t.Skip("the race detector empties pools")
	}
	r, in := testPipe(t)
	out, err := pipe.NewReader(r, -1)
	must(t, err)
	w, lines := NewWriter(in, WriterOptions{}), NewReader(out, 0)
	line := bytes.Repeat([]byte("x"), 300)
	got := testing.AllocsPerRun(2000, func() {
		_ = w.Write(line)
		_, _ = lines.ReadLine()
	})
	if got >= 1 {
		t.Errorf("%v allocations for each line", got)
	}
}
