package policies

import "testing"

func TestPatterns(t *testing.T) {
	r := NewPatterns(map[string]int{"a": 1, "a*": 2, "ab*": 3, "*": 4, "b*": 5})
	for name, want := range map[string]int{"a": 1, "aa": 2, "ab": 3, "abc": 3, "c": 4, "": 4, "b": 5} {
		if got, ok := r.Find([]byte(name)); got != want || !ok {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
	none := NewPatterns[int](nil)
	if _, ok := none.Find([]byte("a")); ok || !none.Empty() || r.Empty() {
		t.Error("an empty list gave rules")
	}
}
