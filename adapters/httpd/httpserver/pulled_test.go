package httpserver

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder keeps each write apart, and fails after some.
type recorder struct {
	got   []string
	fails int // the number of the write that fails; 0: none
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.got = append(r.got, string(p)); len(r.got) == r.fails {
		return 0, errors.New("broken")
	}
	return len(p), nil
}

// steps is a Source that gives one step after the other.
type steps struct {
	all  []string // "!" before the last one; "?" breaks off
	grow bool     // in other memory than it was given
}

func (s *steps) Next(dst []byte) ([]byte, error) {
	if len(s.all) == 0 {
		return dst, io.EOF
	}
	next := s.all[0]
	s.all = s.all[1:]
	if s.grow {
		dst = nil
	}
	if last, ok := strings.CutPrefix(next, "!"); ok {
		return append(dst, last...), io.EOF
	}
	if next == "?" {
		return dst, errors.New("upstream broke")
	}
	return append(dst, next...), nil
}

func (*steps) Close(bool) {}

// An event stream is written event by event: the head with a first event, the end with a last one, in chunks unless it is for HTTP/1.0.
func TestPulledStreamWrites(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, c := range map[string]struct {
		first string
		steps []string
		plain bool
		want  []string
		fails bool
	}{
		"nothing":            {"", nil, false, []string{"HEAD", "0\r\n\r\n"}, false},
		"one":                {"", []string{"a"}, false, []string{"HEAD", "1\r\na\r\n", "0\r\n\r\n"}, false},
		"a first":            {"abc", []string{"de"}, false, []string{"HEAD3\r\nabc\r\n", "2\r\nde\r\n", "0\r\n\r\n"}, false},
		"a last":             {"", []string{"a", "!bc"}, false, []string{"HEAD", "1\r\na\r\n", "2\r\nbc\r\n0\r\n\r\n"}, false},
		"first and last":     {"a", []string{"!b"}, false, []string{"HEAD1\r\na\r\n", "1\r\nb\r\n0\r\n\r\n"}, false},
		"nothing in between": {"", []string{"", "a", ""}, false, []string{"HEAD", "1\r\na\r\n", "0\r\n\r\n"}, false},
		"long":               {"", []string{long, "a"}, false, []string{"HEAD", "1388\r\n" + long + "\r\n", "1\r\na\r\n", "0\r\n\r\n"}, false},
		"sixteen":            {"", []string{strings.Repeat("y", 16)}, false, []string{"HEAD", "10\r\n" + strings.Repeat("y", 16) + "\r\n", "0\r\n\r\n"}, false},
		"broken off":         {"", []string{"a", "?"}, false, []string{"HEAD", "1\r\na\r\n"}, true},
		"plain":              {"a", []string{"b", "!c"}, true, []string{"HEADa", "b", "c"}, false},
		"plain, no last":     {"", []string{"b"}, true, []string{"HEAD", "b"}, false},
	} {
		for _, grow := range []bool{false, true} {
			b := &pulledStream{buf: append(make([]byte, chunkRoom, 1024), c.first...), src: &steps{all: append([]string(nil), c.steps...), grow: grow}, plain: c.plain}
			w := &recorder{}
			err := b.writeAll(w, []byte("HEAD"))
			if (err != nil) != c.fails || b.sent == c.fails || strings.Join(w.got, "|") != strings.Join(c.want, "|") {
				t.Errorf("%s, grow %v: %.80q, sent %v, %v", name, grow, w.got, b.sent, err)
			}
			for fails := range w.got { // each of the writes
				b := &pulledStream{buf: append(make([]byte, chunkRoom, 1024), c.first...), src: &steps{all: append([]string(nil), c.steps...)}, plain: c.plain}
				broken := &recorder{fails: fails + 1}
				if err := b.writeAll(broken, []byte("HEAD")); err == nil || b.sent || len(broken.got) != fails+1 {
					t.Errorf("%s, write %d fails: %v, %d writes", name, fails+1, err, len(broken.got))
				}
			}
		}
	}
}

// A head for HTTP/1.0 loses the field for chunks and nothing else.
func TestWithoutChunks(t *testing.T) {
	const chunks = "Transfer-Encoding: chunked\r\n"
	for in, want := range map[string]string{
		"A: b\r\n" + chunks + "C: d\r\n\r\n": "A: b\r\nC: d\r\n\r\n",
		chunks + "\r\n":                      "\r\n",
		"A: b\r\n\r\n":                       "A: b\r\n\r\n",
	} {
		if got := string(withoutChunks([]byte(in))); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// Streams are spread over the slots of a period, so that each gets one comment in it, and are bounded in number.
func TestKeepAlivesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keepAlives{max: 2*keepAliveSlots + 1, period: time.Minute}
		var all []*Stream
		var slots []uint8
		for range k.max {
			s := &Stream{}
			slot, err := k.add(s)
			if err != nil {
				t.Fatal(err)
			}
			all, slots = append(all, s), append(slots, slot)
		}
		for slot, streams := range k.slots {
			if want := map[bool]int{true: 3, false: 2}[slot == 0]; len(streams) != want {
				t.Errorf("slot %d has %d streams", slot, len(streams))
			}
		}
		if _, err := k.add(&Stream{}); !errors.Is(err, ErrTooManyStreams) {
			t.Errorf("one too many: %v", err)
		}
		k.remove(all[0], slots[0])
		k.remove(all[0], slots[0]) // once
		if n := k.open.count(); n != k.max-1 {
			t.Errorf("%d streams are open", n)
		}
		if got := k.drain(); len(got) != k.max-1 {
			t.Errorf("%d streams are drained", len(got))
		}
		if _, err := k.add(&Stream{}); !errors.Is(err, ErrShutdown) {
			t.Errorf("after the end: %v", err)
		}
		k.close()
		k.close() // once
	})
}

// A chunk of an event is one piece if it is small, and is laid around the event's parts if not.
func TestFraming(t *testing.T) {
	for _, c := range []struct {
		size   int
		plain  bool
		pieces int
	}{{minInPlace - 1, false, 1}, {minInPlace, false, 4}, {minInPlace - 1, true, 1}, {minInPlace, true, 2}} {
		f := framings.Get().(*framing)
		event := [][]byte{bytes.Repeat([]byte("a"), 1), bytes.Repeat([]byte("b"), c.size-1)}
		f.lay(&Stream{plain: c.plain}, c.size, event)
		got := bytes.Join(f.List, nil)
		want := "a" + strings.Repeat("b", c.size-1)
		if !c.plain {
			want = map[int]string{minInPlace - 1: "fff", minInPlace: "1000"}[c.size] + "\r\n" + want + "\r\n"
		}
		if string(got) != want || len(f.List) != c.pieces || f.Left != len(want) {
			t.Errorf("%+v: %d pieces, %d bytes: %.20q", c, len(f.List), f.Left, got)
		}
		f.release()
	}
}
