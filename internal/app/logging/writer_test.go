package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader is the reader of a log.
type reader struct {
	mu    sync.Mutex
	text  bytes.Buffer
	stops chan struct{} // not nil: it reads when this is closed
	fails error         // not nil: every write fails after half of it
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stops != nil {
		<-r.stops
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		n, _ := r.text.Write(p[:len(p)/2])
		return n, r.fails
	}
	return r.text.Write(p)
}

func (r *reader) read() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.text.String(), "\n"), "\n")
}

// say writes lines of 1 KiB with numbers from one up to another.
func say(t *testing.T, w *Writer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if n, err := fmt.Fprintf(w, "%01023d\n", i); n != 1024 || err != nil {
			t.Fatal(n, err)
		}
	}
}

// Lines that come while the reader stands still are kept in order, up to the bound; the others are counted, and the log
// says how many once they are read.
func TestWriterWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{stops: make(chan struct{})}
		w := NewWriter(r)
		w.OnLoss(func(lines uint64) { _, _ = fmt.Fprintf(w, "lost %d\n", lines) })
		say(t, w, 0, 1) // is being written
		synctest.Wait()
		const fit = writerRoom / 1024
		say(t, w, 1, 1+fit+7)
		if n := w.Dropped(); n != 7 {
			t.Errorf("%d lines are dropped", n)
		}
		began := time.Now()
		if w.Flush(time.Second) || time.Since(began) != time.Second {
			t.Errorf("the end waited for %v", time.Since(began))
		}
		close(r.stops)
		if !w.Flush(time.Second) {
			t.Error("what waits is not written")
		}
		got := r.read()
		if len(got) != 1+fit+1 || got[len(got)-1] != "lost 7" {
			t.Fatalf("%d lines, the last %.20s", len(got), got[len(got)-1])
		}
		for i, line := range got[:1+fit] {
			if line != fmt.Sprintf("%01023d", i) {
				t.Fatalf("line %d is %s", i, line)
			}
		}
		if w.Dropped() != 7 {
			t.Errorf("%d lines are dropped", w.Dropped())
		}
		if cap(w.waiting) > writerKept || cap(w.spare) > writerKept {
			t.Errorf("it keeps %d and %d bytes", cap(w.waiting), cap(w.spare))
		}
	})
}

// A line that cannot be written, or only half of it, is counted, and told when the next one can.
func TestWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{fails: errors.New("no space left")}
		w := NewWriter(r)
		w.OnLoss(func(lines uint64) { _, _ = fmt.Fprintf(w, "lost %d\n", lines) })
		for range 2 {
			_, _ = w.Write([]byte("aaaa\nbbbb\nccccccccc\n"))
			synctest.Wait()
		}
		if n := w.Dropped(); n != 2 {
			t.Errorf("%d lines are dropped", n)
		}
		r.fails = nil
		_, _ = w.Write([]byte("d"))
		w.Flush(time.Second)
		_, _ = w.Write([]byte("\ne\n"))
		w.Flush(time.Second)
		if got := strings.Join(r.read(), "|"); got != "aaaa|bbbb|aaaa|bbbb|dlost 2||e" {
			t.Errorf("%q", got)
		}
	})
}

// A text without a line feed counts as a line, and so does what exceeds the bound at once.
func TestWriterDropsWhatIsTooLong(t *testing.T) {
	r := &reader{}
	w := NewWriter(r)
	_, _ = w.Write(bytes.Repeat([]byte("x"), writerRoom+1))
	_, _ = w.Write(bytes.Repeat([]byte("x"), writerRoom))
	if !w.Flush(time.Minute) || w.Dropped() != 1 || len(r.read()[0]) != writerRoom {
		t.Errorf("%d are dropped, %d bytes written", w.Dropped(), len(r.read()[0]))
	}
	if w.Fd() != ^uintptr(0) || Terminal(w) {
		t.Error("it takes memory for a terminal")
	}
}

// The log of a command that serves is whole at its end, gathered or not, and says in its own format what it lacks.
func TestProcessLog(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			r := &reader{stops: make(chan struct{})}
			p, err := Open("info", "json", r, batch)
			if err != nil {
				t.Fatal(err)
			}
			if (p.Lines != nil) != batch {
				t.Error("lines are gathered, or not")
			}
			for i := range 2000 {
				p.Info().Int("i", i).Str("pad", strings.Repeat("x", 1000)).Msg("m")
			}
			close(r.stops)
			p.Close()
			lines, noted := r.read(), 0
			for _, text := range lines {
				var line struct {
					Lines          int
					Level, Message string
				}
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				if line.Lines > 0 {
					noted += line.Lines
					if line.Level != "warn" || !strings.Contains(line.Message, "dropped") {
						t.Errorf("%s", text)
					}
				}
			}
			if dropped := int(p.Out.Dropped()); dropped == 0 || noted != dropped || len(lines)-1+dropped != 2000 {
				t.Errorf("%d lines, %d dropped, %d said to be", len(lines), dropped, noted)
			}
		})
	}
	if _, err := Open("loud", "json", &reader{}, true); err == nil {
		t.Error("an unknown level is taken")
	}
}
