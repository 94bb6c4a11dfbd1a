package transport

import (
	"testing"
	"time"
)

// A server is waited for until it was late, and again once it was in time.
func TestPatience(t *testing.T) {
	var p Patience
	const most = time.Second
	for i, step := range []struct {
		took time.Duration
		want time.Duration // afterwards
	}{{0, most}, {most, most}, {most + 1, 0}, {2 * most, 0}, {most, most}, {most + 1, 0}, {0, most}} {
		if p.Note(step.took, most); p.For(most) != step.want {
			t.Errorf("step %d: %v, want %v", i, p.For(most), step.want)
		}
	}
	if got := new(Patience).For(most); got != most {
		t.Errorf("a server that is not known: %v", got)
	}
}
