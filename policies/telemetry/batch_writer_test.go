package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// writes records each write.
type writes struct {
	mu    sync.Mutex
	all   []string
	block chan struct{} // not nil: writes wait for it
}

func (w *writes) Write(p []byte) (int, error) {
	if w.block != nil {
		<-w.block
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func (w *writes) want(t *testing.T, all ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := fmt.Sprintf("%q", w.all); got != fmt.Sprintf("%q", all) {
		t.Errorf("written is %s; want %q", got, all)
	}
}

// A line after a silence is written at once, and the lines after it together and soon. A warning is written at once with all lines before
// it, and so is a line after the end.
func TestBatchWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		l := NewBatchWriter(&w)
		say := func(level zerolog.Level, text string) {
			if n, err := l.WriteLevel(level, []byte(text)); n != len(text) || err != nil {
				t.Errorf("%d %v", n, err)
			}
		}
		say(zerolog.InfoLevel, "a\n")
		w.want(t, "a\n")
		say(zerolog.InfoLevel, "b\n")
		say(zerolog.DebugLevel, "c\n")
		w.want(t, "a\n")
		time.Sleep(linesTime)
		w.want(t, "a\n", "b\nc\n")
		say(zerolog.InfoLevel, "d\n")
		say(zerolog.WarnLevel, "e\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n")
		time.Sleep(2 * linesTime)
		say(zerolog.InfoLevel, "f\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n")
		say(zerolog.InfoLevel, "g\n")
		_, _ = l.Write([]byte("h\n"))
		say(zerolog.InfoLevel, "i\n")
		l.Close()
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n", "g\nh\n", "i\n")
		say(zerolog.InfoLevel, "j\n")
		say(zerolog.InfoLevel, "k\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n", "g\nh\n", "i\n", "j\n", "k\n")
	})
}

// Waiting lines are bounded: a line without room waits for the writer, and nothing is lost or reordered.
func TestBatchWriterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := writes{block: make(chan struct{})}
		l := NewBatchWriter(&w)
		const lines, size = 1000, 1 << 10
		taken := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range lines {
				_, _ = l.WriteLevel(zerolog.InfoLevel, fmt.Appendf(nil, "%0*d\n", size-1, i))
				taken++
			}
		}()
		synctest.Wait()
		if taken != 0 {
			t.Errorf("%d lines are taken while the first is being written", taken)
		}
		w.block <- struct{}{} // the first; the next is written by the timer
		time.Sleep(linesTime)
		synctest.Wait()
		if most := 1 + 2*linesRoom/size; taken == 0 || taken > most {
			t.Errorf("%d lines of %d bytes wait; want room for %d", taken, size, most)
		}
		close(w.block)
		<-done
		l.Close()
		for i, line := range strings.Split(strings.TrimSuffix(strings.Join(w.all, ""), "\n"), "\n") {
			if want := fmt.Sprintf("%0*d", size-1, i); line != want {
				t.Fatalf("line %d is %s", i, strings.TrimLeft(line, "0"))
			}
		}
		if n := strings.Count(strings.Join(w.all, ""), "\n"); n != lines {
			t.Errorf("%d of %d lines were written", n, lines)
		}
	})
}

// Concurrent lines are complete.
func TestBatchWriterConcurrently(t *testing.T) {
	var w writes
	l := NewBatchWriter(&w)
	var group sync.WaitGroup
	const many, each = 8, 2000
	for i := range many {
		group.Go(func() {
			for range each {
				_, _ = l.WriteLevel(zerolog.Level(i%2), []byte("0123456789\n"))
			}
		})
	}
	group.Wait()
	l.Close()
	if got := strings.Join(w.all, ""); got != strings.Repeat("0123456789\n", many*each) {
		t.Errorf("%d bytes of %d, or incomplete", len(got), many*each*11)
	}
	if len(w.all) > many*each/2 {
		t.Errorf("%d writes for %d lines", len(w.all), many*each)
	}
}
