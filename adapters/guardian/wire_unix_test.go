//go:build unix

package guardian

import (
	"reflect"
	"testing"
)

func TestWire(t *testing.T) {
	t.Parallel()
	spec := Spec{Path: "/bin/x", Argv: []string{"x", "", "ü\x01"}, Env: []string{"A=b"}, Dir: "/"}
	body := appendStart(nil, &spec, "M=1")
	got, err := decodeStart(body)
	want := order{path: "/bin/x", dir: "/", argv: spec.Argv, env: []string{"A=b", "M=1"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range body {
		if o, err := decodeStart(body[:n]); err == nil {
			t.Errorf("the first %d bytes give %+v", n, o)
		}
	}
	var h [headSize]byte
	for _, x := range []head{{kind: askKill, size: 1 << 20, id: 1 << 40}, {}} {
		if x.encode(&h); decodeHead(&h) != x {
			t.Errorf("%+v", decodeHead(&h))
		}
	}
	var a [answerSize]byte
	for _, x := range []answer{{kind: sayExited, id: 1 << 40, a: -1}, {}} {
		if x.encode(&a); decodeAnswer(&a) != x {
			t.Errorf("%+v", decodeAnswer(&a))
		}
	}
}

func FuzzDecodeStart(f *testing.F) {
	f.Add(appendStart(nil, &Spec{Path: "/bin/x", Argv: []string{"x"}}, "M=1"))
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
