//go:build unix

package reaper

import (
	"reflect"
	"testing"
)

func TestWire(t *testing.T) {
	t.Parallel()
	argv, env := []string{"x", "", "ü\x01"}, []string{"A=b", "M=1"}
	body := appendStart(nil, "/bin/x", "/", argv, env)
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
	var h [headSize]byte
	for _, x := range []head{{kind: reqKill, size: 1 << 20, id: 1 << 40}, {}} {
		if x.encode(&h); decodeHead(&h) != x {
			t.Errorf("%+v", decodeHead(&h))
		}
	}
	var a [eventSize]byte
	for _, x := range []event{{kind: evExited, id: 1 << 40, value: -1}, {}} {
		if x.encode(&a); decodeEvent(&a) != x {
			t.Errorf("%+v", decodeEvent(&a))
		}
	}
}

func FuzzDecodeStart(f *testing.F) {
	f.Add(appendStart(nil, "/bin/x", "", []string{"x"}, []string{"M=1"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeStart(b)
		if err != nil {
			return
		}
		size := 0
		for _, s := range append(append([]string{o.path, o.dir}, o.argv...), o.env...) {
			size += 4 + len(s)
		}
		if size+8 != len(b) {
			t.Errorf("%d bytes of %d", size+8, len(b))
		}
	})
}
