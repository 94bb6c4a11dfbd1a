package reaper

import "testing"

func TestPrelaunchedProcessIsUsed(t *testing.T) {
	r := newRig(t)
	s, err := spawn(&r.opt)
	if err != nil {
		t.Fatal(err)
	}
	ahead = make(chan *connection, 1)
	ahead <- s
	close(ahead)
	defer func() { ahead = nil }()
	for _, want := range []bool{true, false} { // it serves one connection only
		c, err := r.launch()
		if err != nil {
			t.Fatal(err)
		}
		if used := c == s; used != want {
			t.Errorf("the prelaunched process is used: %v, want %v", used, want)
		}
		defer c.hangUp().Stop()
	}
}
