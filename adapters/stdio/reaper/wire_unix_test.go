//go:build unix

package reaper

import (
	"bytes"
	"reflect"
	"testing"
)

func TestWire(t *testing.T) {
	t.Parallel()
	argv, env := []string{"x", "", "ü\x01"}, []string{"A=b", "M=1"}
	body, err := encodeStart("/bin/x", "/", argv, env)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeStart(body)
	want := startRequest{path: "/bin/x", dir: "/", argv: argv, env: env}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range body {
		if o, err := decodeStart(body[:n]); err == nil {
			t.Errorf("the first %d bytes give %+v", n, o)
		}
	}
	for _, f := range []frame{{kind: reqStart, value: 8 << 20, id: 1 << 40}, {kind: evExited, id: 1<<64 - 1, value: -1}, {}} {
		if got := decodeFrame(f.encode()); got != f {
			t.Errorf("%+v instead of %+v", got, f)
		}
	}
}

// What decodeStart accepts it returns whole, and encodeStart can encode it again.
func FuzzDecodeStart(f *testing.F) {
	body, err := encodeStart("/bin/x", "", []string{"x"}, []string{"M=1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeStart(b)
		if err != nil {
			return
		}
		size := len(o.path) + len(o.dir) + 2
		for _, s := range append(append([]string{}, o.argv...), o.env...) {
			size += len(s) + 1
		}
		counts := bytes.SplitN(b, []byte{0}, 5)[2:4]
		if size += len(counts[0]) + len(counts[1]) + 2; size != len(b) {
			t.Errorf("%d bytes of %d", size, len(b))
		}
		again, err := encodeStart(o.path, o.dir, o.argv, o.env)
		if back, backErr := decodeStart(again); err != nil || backErr != nil || !reflect.DeepEqual(back, o) {
			t.Errorf("%+v, %v, %v", back, err, backErr)
		}
	})
}
