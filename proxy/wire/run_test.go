package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// grown returns the run of a text that arrives in pieces of this size.
func grown(text []byte, step int) (r Run) {
	for old := 0; old < len(text); old += step {
		r.Grow(text[:min(old+step, len(text))], old)
	}
	return r
}

// holds fails if a run has a byte that str must examine.
func holds(t *testing.T, text []byte, r Run) {
	t.Helper()
	if r.From < 0 || r.To < r.From || r.To > len(text) {
		t.Fatalf("%+v of %d", r, len(text))
	}
	for i, c := range text[r.From:r.To] {
		if c < 0x20 || c == '"' || c == '\\' || c >= 0x80 {
			t.Fatalf("byte %#x at %d in %+v", c, r.From+i, r)
		}
	}
}

// The run of a long string is found wherever the pieces end.
func TestRun(t *testing.T) {
	const size = 300 << 10
	text := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("a", size) + `"}]}}`)
	for _, step := range []int{runLeast, runLeast + 1, 16 << 10, 64<<10 - 5, 64 << 10, 200 << 10, len(text)} {
		r := grown(text, step)
		holds(t, text, r)
		if least := size - step - runAhead; step < len(text) && r.To-r.From < least || r.To < size {
			t.Errorf("pieces of %d: %+v of %d", step, r, len(text))
		}
		if r := grown(text[:runLeast+runAhead-1], 1<<10); r != (Run{}) {
			t.Errorf("small pieces: %+v", r)
		}
	}
	for _, c := range []string{`"`, `\`, "\n", "é", "\x00", "\xff"} {
		for at := len(text) - 70<<10; at < len(text); at += 977 {
			odd := bytes.Clone(text)
			copy(odd[at:], c)
			for _, step := range []int{16 << 10, 64 << 10, len(text)} {
				holds(t, odd, grown(odd, step))
				same(t, odd, step)
			}
		}
	}
}

// Another run is searched if the first one has ended early.
func TestTheLongerRun(t *testing.T) {
	text := []byte(strings.Repeat("a", 20<<10) + `"` + strings.Repeat("b", 200<<10))
	r := grown(text, 32<<10)
	holds(t, text, r)
	if r.To-r.From < 100<<10 {
		t.Errorf("%+v of %d", r, len(text))
	}
}

// same fails if a known run changes the result of Scan.
func same(t *testing.T, text []byte, step int) {
	t.Helper()
	plainly, err := Scan(text)
	known, kerr := ScanKnown(text, grown(text, step))
	if !reflect.DeepEqual(plainly, known) || !reflect.DeepEqual(err, kerr) {
		t.Fatalf("%.80q: %+v, %v; known: %+v, %v", text, plainly, err, known, kerr)
	}
}

// ScanKnown returns the same as Scan, for long messages made of short ones.
func FuzzScanKnown(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"a","params":{"b":"`), []byte("c"), []byte(`"}}`), uint16(20_000), uint16(9_000))
	f.Add([]byte("\xef\xbb\xbf "+`{"jsonrpc":"2.0","method":"a","params":{"b":"`), []byte("c "), []byte("    "), uint16(9_000), uint16(8_192))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"b":["`), []byte(`long enough, isn't it?","`), []byte(`"]}}`), uint16(2_000), uint16(30_000))
	f.Fuzz(func(t *testing.T, head, middle, tail []byte, times, step uint16) {
		if len(middle) > 100 || len(head)+len(tail) > 4<<10 {
			t.Skip()
		}
		text := append(append(bytes.Clone(head), bytes.Repeat(middle, int(times))...), tail...)
		holds(t, text, grown(text, 1+int(step)))
		same(t, text, 1+int(step))
	})
}
