package policies

import (
	"slices"
	"testing"
)

// A list stays correct in whatever order its values leave.
func TestList(t *testing.T) {
	type value struct {
		n    int
		link Link[value]
	}
	l := List[value]{Link: func(v *value) *Link[value] { return &v.link }}
	if l.First() != nil || len(slices.Collect(l.All())) != 0 {
		t.Error("an empty list has values")
	}
	values := make([]value, 5)
	want := []int{0, 1, 2, 3, 4}
	for i := range values {
		values[i].n = i
		l.Add(&values[i])
	}
	for _, gone := range []int{2, 2, 4, 0, 3, 1} { // from the middle, again, the last, the first
		l.Remove(&values[gone])
		want = slices.DeleteFunc(want, func(n int) bool { return n == gone })
		var got []int
		for v := range l.All() {
			got = append(got, v.n)
		}
		if !slices.Equal(got, want) {
			t.Errorf("without %d: %v, want %v", gone, got, want)
		}
		if first := l.First(); (first == nil) != (len(want) == 0) || first != nil && first.n != want[0] {
			t.Errorf("the first is %+v, want one of %v", first, want)
		}
	}
	if l.Add(&values[3]); l.First() != &values[3] {
		t.Error("a value that was removed cannot be added")
	}
}
