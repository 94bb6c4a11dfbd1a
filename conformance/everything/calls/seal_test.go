package calls

import "testing"

func FuzzRequestState(f *testing.F) {
	x := newSeal()
	f.Add("", []byte("b"))
	f.Add(x.close([]byte(`{"k":1}`), []byte("b")), []byte("b"))
	f.Fuzz(func(t *testing.T, state string, binding []byte) {
		if text, err := newSeal().open(state, binding); err == nil {
			t.Errorf("%q was never made, yet opens: %s", state, text)
		}
		text := []byte(state)
		if got, err := x.open(x.close(text, binding), binding); err != nil || string(got) != state {
			t.Errorf("%q became %q, %v", state, got, err)
		}
	})
}
