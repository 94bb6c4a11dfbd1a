package policies

import (
	"strings"
	"testing"
)

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

// A name is found in any spelling that a lenient server may take for it, but as it is written first.
func TestPatternsOfSpellings(t *testing.T) {
	r := NewPatterns(map[string]int{"read": 1, "Read": 2, "Drop*": 3, "drop_b*": 6, "Drop_B*": 7, "\u00fc": 4, "a b": 5, "*": 9})
	for name, want := range map[string]int{
		"read": 1, "Read": 2, "READ": 2, " read\n": 2, "r\u200bead": 2, "\uff32ead": 2, "drop": 3, "DROP_x": 3, "dro\u202ep": 3, "Drop": 3, "drop_b": 6, "Drop_B": 7,
		"\u00dc": 4, "u\u0308": 4, "U\u0308": 4, "AB": 5, "other": 9, "": 9,
	} {
		if got, ok := r.Find([]byte(name)); got != want || !ok {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int{"read": 1, "Read": 2, "READ": 9, "drop": 9, "Drop_x": 3} {
		if got, ok := r.FindExact([]byte(name)); got != want || !ok {
			t.Errorf("%q exactly: %d, want %d", name, got, want)
		}
	}
	small := NewPatterns(map[string]int{"read": 1})
	for name, want := range map[string]bool{"read": true, "READ": true, "rea": false, "reads": false} {
		if _, ok := small.Find([]byte(name)); ok != want {
			t.Errorf("%q: %t", name, ok)
		}
	}
}

func TestFold(t *testing.T) {
	long := strings.Repeat("a", maxJudged)
	for name, want := range map[string]string{
		"plain_name-1/x.y~!": "plain_name-1/x.y~!", "MiXed Case": "mixedcase", "\x00a\x7f\u0085\u00ad\u200d\ufeff\u3000b": "ab", "\u017f\u212a": "sk", "\u1e9e\u00df": "\u00df\u00df",
		"a\x7fb": "ab", "\ufb01": "fi", long + "b": long, " \t" + long: long, "": "",
	} {
		if got := string(Fold([]byte(name))); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	plain := []byte("plain_name")
	if allocs := testing.AllocsPerRun(10, func() { Fold(plain) }); allocs != 0 {
		t.Errorf("%v allocations for a name that is folded", allocs)
	}
}
